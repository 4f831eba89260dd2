// SPDX-License-Identifier: GPL-2.0-or-later
//! A stand-in for the other firewall in an upgrade. Firewalls send lines of JSON, some with a file descriptor.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread::{self, JoinHandle};

use anyhow::{ensure, Context};
use nix::fcntl::{fcntl, FcntlArg, SealFlag};
use nix::sys::memfd::{memfd_create, MFdFlags};
use nix::sys::socket::{bind, getsockname, sendto, MsgFlags, NetlinkAddr};
use nix::sys::wait::{waitpid, WaitStatus};
use nix::unistd::{fork, ForkResult};
use serde_json::Value;
use testbed::packets::socket;
use testbed::wait::PATIENCE;

use super::setting::Setting;

/// First request of a new firewall: for the destination of its proof of CAP_NET_ADMIN.
pub const PROOF: &str = "{\"command\":\"proof\"}\n";
/// Second request of a new firewall: begins the upgrade.
pub const REQUEST: &str = "{\"command\":\"upgrade\",\"version\":2,\"backend\":\"raw\"}\n";
/// Third request of a new firewall, which is now ready: the old firewall then stops.
pub const COMMIT: &str = "{\"command\":\"commit\"}\n";

/// CMSG_SPACE of one descriptor, in bytes.
const CONTROL_BYTES: usize = 24;

/// Returns a netlink socket in the firewall's namespace, by which proofs of CAP_NET_ADMIN there are sent or received:
/// the kernel refuses to send a proof without this capability.
pub fn netlink(setting: &Setting) -> io::Result<OwnedFd> {
    setting
        .namespace
        .enter(|| socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER))
}

/// Connection of a stand-in for a new firewall. Descriptors that arrive with lines are not received, so the kernel
/// closes them.
pub struct Peer {
    stream: BufReader<UnixStream>,
    netlink: OwnedFd,
}

impl Peer {
    /// Connects to the firewall of a setting.
    pub fn connect(setting: &Setting) -> anyhow::Result<Peer> {
        Peer::connect_with(setting, netlink(setting)?)
    }

    /// Connects to the firewall of a setting, for a process that may not enter the namespace.
    /// - netlink: as returned by `netlink`.
    pub fn connect_with(setting: &Setting, netlink: OwnedFd) -> anyhow::Result<Peer> {
        let stream = UnixStream::connect(setting.control())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let stream = BufReader::new(stream);
        Ok(Peer { stream, netlink })
    }

    pub fn say(&mut self, line: &str) -> anyhow::Result<()> {
        Ok(self.stream.get_mut().write_all(line.as_bytes())?)
    }

    /// Sends the first request (`PROOF`). Returns the destination to which this process must send its proof of
    /// CAP_NET_ADMIN, and the text of the proof.
    fn ask_for_proof(&mut self) -> anyhow::Result<(NetlinkAddr, String)> {
        self.say(PROOF)?;
        let answer = self.hear()?;
        let port = answer["port"].as_u64().context("no port")?;
        let number = answer["number"].as_u64().context("no number")?;
        Ok((
            NetlinkAddr::new(u32::try_from(port)?, 0),
            number.to_string(),
        ))
    }

    /// Proves that this process has CAP_NET_ADMIN.
    pub fn prove(&mut self) -> anyhow::Result<()> {
        let (to, text) = self.ask_for_proof()?;
        let socket = self.netlink.as_raw_fd();
        sendto(socket, text.as_bytes(), &to, MsgFlags::empty())?;
        Ok(())
    }

    /// Makes another process, which has CAP_NET_ADMIN, send this process's proof of CAP_NET_ADMIN.
    pub fn prove_by_another_process(&mut self) -> anyhow::Result<()> {
        let (to, text) = self.ask_for_proof()?;
        let socket = self.netlink.as_raw_fd();
        // SAFETY: the child makes one system call and ends without any lock that the other threads could hold.
        let child = match unsafe { fork()? } {
            ForkResult::Child => {
                let sent = sendto(socket, text.as_bytes(), &to, MsgFlags::empty());
                // SAFETY: _exit does not return.
                unsafe { libc::_exit(i32::from(sent.is_err())) }
            }
            ForkResult::Parent { child } => child,
        };
        let ended = waitpid(child, None)?;
        ensure!(ended == WaitStatus::Exited(child, 0), "{ended:?}");
        Ok(())
    }

    /// Receives the next line, with its line end.
    pub fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line)
    }

    /// Receives the next line. Returns it as JSON.
    pub fn hear(&mut self) -> anyhow::Result<Value> {
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))
    }

    /// Requests an upgrade, and reads everything that the old firewall sends before it stops. Returns the first line,
    /// which describes the old firewall's state.
    pub fn ask(&mut self) -> anyhow::Result<Value> {
        self.prove()?;
        self.say(REQUEST)?;
        self.hear_all()
    }

    /// Reads everything that the old firewall sends to a permitted new firewall. Returns the first line, which
    /// describes the old firewall's state.
    pub fn hear_all(&mut self) -> anyhow::Result<Value> {
        let state = self.hear()?;
        ensure!(state["ok"] == true, "{state}");
        loop {
            let line = self.hear()?;
            if line["fd"].is_null() {
                return Ok(state);
            }
        }
    }

    /// Makes the old firewall stop, and reads the data that it sends after that.
    pub fn commit(&mut self) -> anyhow::Result<()> {
        self.say(COMMIT)?;
        for name in ["states", "sums"] {
            let line = self.hear()?;
            ensure!(line["fd"] == name, "{line}");
        }
        Ok(())
    }
}

/// Sends a line.
/// - fd: descriptor that goes with the line's first byte.
pub fn send_with(stream: &UnixStream, line: &str, fd: RawFd) -> io::Result<()> {
    let mut vector = libc::iovec {
        iov_base: line.as_ptr() as *mut libc::c_void,
        iov_len: line.len(),
    };
    let mut control = [0_u64; CONTROL_BYTES / 8]; // aligned as a header is
                                                  // SAFETY: msghdr is plain data. Its pointers outlive the call: the line, the vector, and room for one control
                                                  // message with one descriptor, which CMSG_FIRSTHDR returns since it is not empty.
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

/// Receives the available bytes, with at most one descriptor. Returns the number of bytes.
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
                                                  // SAFETY: msghdr is plain data. Its pointers outlive the call: the bytes, the vector, and room for control
                                                  // messages. CMSG_FIRSTHDR returns a whole one or null; the call has created its descriptor for this process.
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

/// Data of a firewall: lines with their line ends, and the descriptors of those lines that name one.
pub type Said = (Vec<String>, Vec<OwnedFd>);

/// Receives lines until the received text ends with `end`.
fn hear_until(stream: &UnixStream, end: &str) -> anyhow::Result<Said> {
    let (mut said, mut fds) = (Vec::new(), Vec::new());
    let mut bytes = vec![0; 1 << 16];
    while !said.ends_with(end.as_bytes()) {
        let received = receive_with(stream, &mut bytes, &mut fds)?;
        ensure!(received > 0, "the old firewall closed");
        said.extend(&bytes[..received]);
    }
    let said = String::from_utf8(said)?;
    let lines: Vec<_> = said.split_inclusive('\n').map(str::to_owned).collect();
    let named = lines.iter().filter(|line| names_fd(line)).count();
    ensure!(fds.len() == named, "{} descriptors of {lines:?}", fds.len());
    Ok((lines, fds))
}

fn names_fd(line: &str) -> bool {
    line.starts_with("{\"fd\":\"")
}

/// Makes an old firewall send everything that a new firewall needs to prepare. From then on the old firewall waits for
/// a limited time only, so the new firewall should have asked before. Returns the connection and the data.
pub fn prepare(mut peer: Peer) -> anyhow::Result<(UnixStream, Said)> {
    peer.prove()?;
    peer.say(REQUEST)?;
    let stream = peer.stream.into_inner();
    let said = hear_until(&stream, "{\"fd\":null}\n")?;
    Ok((stream, said))
}

/// Makes an old firewall stop. Returns the data that it sends after that: states and sums (counters).
/// - ready: line by which the new firewall reports that it is ready.
pub fn commit(mut stream: &UnixStream, ready: &str) -> anyhow::Result<Said> {
    stream.write_all(ready.as_bytes())?;
    hear_until(stream, "{\"fd\":\"sums\"}\n")
}

/// Returns a memory descriptor (memfd) like those that firewalls pass to each other.
/// - bytes: content.
/// - seals: forbidden changes; empty if all changes are allowed.
pub fn memory(bytes: &[u8], seals: SealFlag) -> io::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = File::from(memfd_create(c"peer", flags)?);
    file.write_all(bytes)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}

/// Returns a memory descriptor that can't be changed.
pub fn sealed(bytes: &[u8]) -> io::Result<OwnedFd> {
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    memory(bytes, seals)
}

/// Sends the data of an old firewall to a new firewall.
pub fn pass_on(mut stream: &UnixStream, (lines, fds): &Said) -> io::Result<()> {
    let mut fds = fds.iter();
    for line in lines {
        match names_fd(line).then(|| fds.next()).flatten() {
            Some(fd) => send_with(stream, line, fd.as_raw_fd())?,
            None => stream.write_all(line.as_bytes())?,
        }
    }
    Ok(())
}

/// Returns the next line that a firewall sends.
pub fn next_line(stream: &UnixStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line)
}

/// Listens like an old firewall: accepts one connection, reads its first request, and calls `answer`.
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

/// Listens like an old firewall: accepts one connection, replies to its first request (`PROOF`) with the destination of
/// the proof, reads the second request, and calls `answer`.
pub fn listen_to_proof<T: Send + 'static>(
    setting: &Setting,
    path: &str,
    answer: impl FnOnce(UnixStream) -> T + Send + 'static,
) -> io::Result<JoinHandle<io::Result<io::Result<T>>>> {
    let socket = netlink(setting)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    let port = getsockname::<NetlinkAddr>(socket.as_raw_fd())?.pid();
    listen(path, move |mut stream| {
        writeln!(stream, "{{\"ok\":true,\"port\":{port},\"number\":1}}")?;
        BufReader::new(&stream).read_line(&mut String::new())?;
        drop(socket);
        Ok(answer(stream))
    })
}
