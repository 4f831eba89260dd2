// SPDX-License-Identifier: GPL-2.0-or-later
//! Common parts of the exchanges in Rust: the operations over generic netlink, as in ../c/genl.c; their timing; the
//! services of ../c/service.c.
#![forbid(unsafe_code)]

pub mod dbus;
pub mod measure;
pub mod neli_messages;
pub mod service;

use std::process::ExitCode;

use anyhow::{bail, ensure, Result};
use netlink_sys::{protocols::NETLINK_GENERIC, Socket};

use measure::{Exchange, Once};

/// Constants of the lab's generic netlink family, as in echo/twinwall_lab.h.
pub mod lab {
    pub const FAMILY: &str = "twinwall_lab";
    pub const VERSION: u8 = 1;
    pub const ECHO: u8 = 1;
    pub const COUNT: u8 = 2;
    pub const TOUCH: u8 = 3;
    pub const DATA: u16 = 1;
    pub const PARTS: u16 = 2;
    pub const INDEX: u16 = 3;
    pub const DATA_MOST: usize = 32768;
}

/// Constants of nlctrl (linux/genetlink.h) and of the extended ACK (linux/netlink.h).
pub mod control {
    pub const ID: u16 = 16;
    pub const GETFAMILY: u8 = 3;
    pub const FAMILY_ID: u16 = 1;
    pub const FAMILY_NAME: u16 = 2;
    /// Name of a family that every kernel has.
    pub const FAMILY: &str = "nlctrl";
    pub const MISSING_TYPE: u16 = 5;
}

/// Generic netlink requests; each library has an implementation. An implementation checks only that a message is the
/// expected answer.
pub trait Genl: Sized {
    /// Opens a generic netlink socket and binds it.
    fn open() -> Result<Self>;
    /// Queries nlctrl for a family; returns its number.
    fn family(&mut self, name: &str) -> Result<u16>;
    /// Sends bytes to the lab's family and receives its echo; returns the number of bytes that came back.
    fn echo(&mut self, family: u16, data: &[u8]) -> Result<usize>;
    /// Requests a dump of `parts` parts and reads it; returns the number received.
    fn dump(&mut self, family: u16, parts: u32) -> Result<usize>;
    /// Requests a dump of more parts than one receive returns, and receives once.
    fn dump_begin(&mut self, family: u16, parts: u32) -> Result<()>;
    /// Reads the rest of a dump to its end. An interrupted dump is no error, since no library here reports the
    /// interruption.
    fn dump_rest(&mut self) -> Result<()>;
    /// Sends an echo request without its attribute, and reads the refusal. Returns the type of the missing attribute
    /// from the extended ACK. Returns None if the library does not show it.
    fn refused(&mut self, family: u16) -> Result<Option<u32>>;
}

/// Data of echo requests; a request contains the first of these bytes.
static DATA: [u8; lab::DATA_MOST] = [b'x'; lab::DATA_MOST];

/// Data bytes of an echo that is measured while another socket leaves its dump unread.
const ECHO_BYTES: usize = 53;

/// Length of a request without attributes: nlmsghdr and genlmsghdr.
const TOUCH_BYTES: usize = 20;
/// NLM_F_REQUEST | NLM_F_ACK (linux/netlink.h).
const NLM_F_REQUEST_ACK: u16 = 5;
const NLMSG_ERROR: u16 = 2;

fn echo<G: Genl>(genl: &mut G, family: u16, bytes: usize) -> Result<()> {
    let came = genl.echo(family, &DATA[..bytes])?;
    ensure!(came == bytes, "echo: {came} of {bytes} bytes");
    Ok(())
}

/// Interrupts running dumps of the lab's family by the command TOUCH.
/// - socket: separate from the measured library's sockets, so that the request is the same for all libraries.
fn touch(socket: &Socket, family: u16) -> Result<()> {
    let mut request = [0; TOUCH_BYTES];
    request[..4].copy_from_slice(&(TOUCH_BYTES as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&family.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST_ACK.to_ne_bytes());
    request[16..18].copy_from_slice(&[lab::TOUCH, lab::VERSION]);
    socket.send(&request, 0)?;
    let mut answer = Vec::with_capacity(64);
    socket.recv(&mut answer, 0)?;
    let [kind, error] = [4..6, 16..20].map(|place| answer.get(place).unwrap_or_default());
    ensure!(
        kind == NLMSG_ERROR.to_ne_bytes() && error == [0; 4],
        "touch: refused"
    );
    Ok(())
}

/// Prepares the exchange of an operation.
/// - name: name of the operation.
/// - bytes: data bytes of an echo, or number of parts of a dump.
fn exchange<G: Genl + 'static>(name: &str, bytes: usize) -> Result<Exchange> {
    ensure!(
        bytes <= lab::DATA_MOST || name.starts_with("dump"),
        "BYTES: at most {}",
        lab::DATA_MOST
    );
    let with_family = || -> Result<(G, u16)> {
        let mut genl = G::open()?;
        let family = genl.family(lab::FAMILY)?;
        Ok((genl, family))
    };
    let parts = bytes as u32;
    let once: Box<dyn FnMut() -> Result<()>> = match name {
        "family" => {
            let mut genl = G::open()?;
            Box::new(move || genl.family(control::FAMILY).map(drop))
        }
        "family-connect" => Box::new(|| G::open()?.family(control::FAMILY).map(drop)),
        "echo" => {
            let (mut genl, family) = with_family()?;
            Box::new(move || echo(&mut genl, family, bytes))
        }
        "echo-connect" => Box::new(move || {
            let mut genl = G::open()?;
            let family = genl.family(lab::FAMILY)?;
            echo(&mut genl, family, bytes)
        }),
        "dump" => {
            let (mut genl, family) = with_family()?;
            Box::new(move || {
                let came = genl.dump(family, parts)?;
                ensure!(came == bytes, "dump: {came} of {bytes} parts");
                Ok(())
            })
        }
        // A reader that reads only the beginning of its dump. An echo beside it is measured.
        "dump-slow" => {
            let (mut reader, family) = with_family()?;
            reader.dump_begin(family, parts)?;
            let mut genl = G::open()?;
            Box::new(move || {
                let _held = &reader;
                echo(&mut genl, family, ECHO_BYTES)
            })
        }
        // A reader that closes its socket after the beginning of the dump.
        "dump-gone" => {
            let (_, family) = with_family()?;
            Box::new(move || G::open()?.dump_begin(family, parts))
        }
        "dump-interrupted" => {
            let (_, family) = with_family()?;
            let toucher = Socket::new(NETLINK_GENERIC)?;
            Box::new(move || {
                let mut genl = G::open()?;
                genl.dump_begin(family, parts)?;
                touch(&toucher, family)?;
                genl.dump_rest()
            })
        }
        "refuse" => {
            let (mut genl, family) = with_family()?;
            Box::new(move || {
                let missing = genl.refused(family)?;
                ensure!(
                    missing.is_none_or(|kind| kind == u32::from(lab::DATA)),
                    "refuse: attribute {missing:?}"
                );
                Ok(())
            })
        }
        _ => bail!(
            "operations: family family-connect echo echo-connect dump dump-slow dump-gone dump-interrupted refuse"
        ),
    };
    Ok(Exchange {
        once: Once::Timed(once),
        peers: Vec::new(),
    })
}

/// Implements main().
pub fn run<G: Genl + 'static>() -> ExitCode {
    measure::run(exchange::<G>)
}
