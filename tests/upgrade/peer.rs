// SPDX-License-Identifier: GPL-2.0-or-later
//! The other end of an upgrade, played: lines, and descriptors with them.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::{self, JoinHandle};

use anyhow::{ensure, Context};
use serde_json::Value;
use twinwall_tests::case::PATIENCE;

/// What a new firewall asks.
pub const REQUEST: &str = "{\"command\":\"upgrade\",\"version\":1,\"backend\":\"raw\"}\n";

/// CMSG_SPACE of a descriptor.
const CONTROL_BYTES: usize = 24;

/// A connection. Descriptors that come with lines are closed by the kernel, as nobody takes them.
pub struct Peer(BufReader<UnixStream>);

impl Peer {
    pub fn connect(path: &str) -> anyhow::Result<Peer> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Peer(BufReader::new(stream)))
    }

    pub fn say(&mut self, line: &str) -> anyhow::Result<()> {
        Ok(self.0.get_mut().write_all(line.as_bytes())?)
    }

    /// The next line as JSON.
    pub fn hear(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))
    }

    /// Asks for an upgrade, and hears all that the old firewall says; gives the line of state.
    pub fn ask(&mut self) -> anyhow::Result<Value> {
        self.say(REQUEST)?;
        let state = self.hear()?;
        ensure!(state["ok"] == true, "{state}");
        loop {
            let line = self.hear()?;
            if line["fd"].is_null() {
                return Ok(state);
            }
        }
    }
}

/// Sends a line whose first byte has a descriptor.
pub fn send_with(stream: &UnixStream, line: &str, fd: RawFd) -> io::Result<()> {
    let mut vector = libc::iovec {
        iov_base: line.as_ptr() as *mut libc::c_void,
        iov_len: line.len(),
    };
    let mut control = [0_u64; CONTROL_BYTES / 8]; // aligned as a header is
                                                  // SAFETY: msghdr is plain data. What it points to outlives the call: the line, the vector, and room for one control
                                                  // message with one descriptor, which CMSG_FIRSTHDR gives as it is not empty.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_BYTES;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd);
        libc::sendmsg(stream.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
    };
    match usize::try_from(sent) {
        Ok(sent) if sent == line.len() => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Receives what is there, with at most one descriptor. Returns how many bytes.
fn receive_with(
    stream: &UnixStream,
    bytes: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut vector = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut control = [0_u64; CONTROL_BYTES / 8]; // aligned as a header is
                                                  // SAFETY: msghdr is plain data. What it points to outlives the call: the bytes, the vector, and room for control
                                                  // messages. CMSG_FIRSTHDR gives one that is whole, or null; its descriptor was made for us by the call.
    let received = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_BYTES;
        let received = libc::recvmsg(stream.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC);
        let header = libc::CMSG_FIRSTHDR(&message);
        if received > 0 && !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
            let fd = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
            fds.push(OwnedFd::from_raw_fd(fd));
        }
        received
    };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// Takes everything from an old firewall, as a new one does before it says that it has taken it: what was said, line by
/// line with its end, and the descriptors of all lines but the first and the last.
pub fn take(path: &str) -> anyhow::Result<(UnixStream, Vec<String>, Vec<OwnedFd>)> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(REQUEST.as_bytes())?;
    let (mut said, mut fds) = (Vec::new(), Vec::new());
    let mut bytes = vec![0; 1 << 16];
    while !said.ends_with(b"{\"fd\":null}\n") {
        let received = receive_with(&stream, &mut bytes, &mut fds)?;
        ensure!(received > 0, "the old firewall closed");
        said.extend(&bytes[..received]);
    }
    let said = String::from_utf8(said)?;
    let lines: Vec<_> = said.split_inclusive('\n').map(str::to_owned).collect();
    ensure!(
        fds.len() + 2 == lines.len(),
        "{} descriptors of {lines:?}",
        fds.len()
    );
    Ok((stream, lines, fds))
}

/// Says to a new firewall what an old one has said.
pub fn pass_on(mut stream: &UnixStream, lines: &[String], fds: &[OwnedFd]) -> io::Result<()> {
    let [first, middle @ .., last] = lines else {
        return Ok(());
    };
    stream.write_all(first.as_bytes())?;
    for (line, fd) in middle.iter().zip(fds) {
        send_with(stream, line, fd.as_raw_fd())?;
    }
    stream.write_all(last.as_bytes())
}

/// Listens as an old firewall would: one connection, of which the request is read before `answer` is called.
pub fn listen<T: Send + 'static>(
    path: &str,
    answer: impl FnOnce(UnixStream) -> T + Send + 'static,
) -> io::Result<JoinHandle<io::Result<T>>> {
    let listener = UnixListener::bind(path)?;
    Ok(thread::spawn(move || {
        let (stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        BufReader::new(&stream).read_line(&mut String::new())?;
        Ok(answer(stream))
    }))
}
