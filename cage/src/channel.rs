// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages between fwctl and the stage `inside` (see stage.rs), over a socket that preserves message boundaries: JSON,
//! with an optional descriptor. The stage's end of the socket is its stdin, so no descriptor number must be passed.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    recvmsg, sendmsg, socketpair, sockopt, AddressFamily, RecvAncillaryBuffer,
    RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketFlags, SocketType,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum size of a message in bytes.
const MESSAGE_MAX: usize = 1 << 20;

/// Message from fwctl to the stage `inside` (the process that starts the command).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// The first message. The descriptor is the command's stdin.
    Begin(Box<Inside>),
    /// The users of the inner user namespace are mapped.
    Mapped,
    /// The firewall is ready: run the command.
    Run,
}

/// Parameters of the stage `inside`, sent by fwctl.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inside {
    pub uid: u32,
    /// Mount point of the private tmpfs, which has the firewall's control socket, the policy if the cage writes it, and
    /// the lists of sockets (sockets.rs), for which a message may be too small. The stage unmounts the tmpfs: the
    /// command must not see it.
    pub place: PathBuf,
    /// Content of resolv.conf in the cage.
    pub resolv_conf: String,
    pub is_root: bool,
}

/// Message from the stage `inside` to fwctl.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    /// The stage has entered the inner user namespace, whose users fwctl must map now. The socket reports the stage's
    /// process id.
    Unmapped,
    /// The command was started. The descriptor is its pidfd.
    Started,
    /// The command was not started, or its end can't be awaited: exit code, text.
    Failed(u8, String),
    /// The command ended with this exit code.
    Exited(i32),
    /// The command was ended by this signal.
    Signaled(i32),
}

/// Message received from the other end of the socket between fwctl and the stage `inside`.
pub struct Received<T> {
    pub message: T,
    pub descriptor: Option<OwnedFd>,
    /// Sender's process id, if the socket reports it.
    pub process: Option<i32>,
}

/// Returns both ends of a socket: fwctl's end, which receives the sender's process id, and the stage's end.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (own, other) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    sockopt::set_socket_passcred(&own, true)?;
    Ok((own, other))
}

pub fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptor: Option<BorrowedFd>,
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > MESSAGE_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(
        socket,
        &[IoSlice::new(&text)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives the next message; None when the other end is closed.
pub fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<Received<T>>> {
    let mut text = vec![0; MESSAGE_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let vectors = &mut [IoSliceMut::new(&mut text)];
    let got = rustix::io::retry_on_intr(|| {
        recvmsg(&socket, vectors, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    if got.bytes == 0 {
        return Ok(None);
    }
    let (mut descriptor, mut process) = (None, None);
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptor = descriptors.next(),
            RecvAncillaryMessage::ScmCredentials(sender) => {
                process = Some(sender.pid.as_raw_nonzero().get())
            }
            _ => {}
        }
    }
    let message = serde_json::from_slice(&text[..got.bytes])?;
    Ok(Some(Received {
        message,
        descriptor,
        process,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_with_its_descriptor_and_its_sender() {
        let (own, other) = pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        send(&other, &Report::Started, Some(file.as_fd())).unwrap();
        let got = receive::<Report>(&own).unwrap().unwrap();
        assert!(matches!(got.message, Report::Started));
        assert!(got.descriptor.is_some());
        assert_eq!(got.process, Some(std::process::id() as i32));
        drop(other);
        assert!(receive::<Report>(&own).unwrap().is_none());
    }
}
