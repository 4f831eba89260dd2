// SPDX-License-Identifier: GPL-2.0-or-later
//! A relay between an old firewall and a new one that corrupts the old firewall's data.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::mem;
use std::os::unix::net::UnixStream;

use anyhow::{ensure, Context};
use nix::fcntl::SealFlag;
use testbed::firewall::{take_over, Firewall};
use testbed::twin::Twin;

use super::peer::{commit, listen_to_proof, memory, next_line, pass_on, prepare, sealed, Peer};
use super::setting::{check_said, forget_late, Setting};

/// Corruption of the data that an old firewall sends in a memory file: name of the corrupted part, whether the memory
/// file is sealed, and the function that corrupts its bytes.
pub type Change = (&'static str, bool, fn(&mut Vec<u8>));

/// Data of one kind that an old firewall sends: connections or learned addresses.
#[derive(Clone, Copy)]
pub struct Knowledge {
    /// Length in bytes of the memory file that has the data.
    pub bytes: usize,
    /// Returns the new firewall's warning; its argument is the name of the corrupted part.
    pub warning: fn(&str) -> String,
}

/// Forwards the data of an old firewall to a new one, with one part corrupted.
/// - stream: connection to the new firewall.
/// - peer: connection to the old firewall.
/// - memory_bytes: expected length of the memory to corrupt.
fn spoil(
    mut stream: &UnixStream,
    peer: Peer,
    memory_bytes: usize,
    (_, is_sealed, change): Change,
) -> anyhow::Result<()> {
    let (mut old, prepared) = prepare(peer)?;
    pass_on(stream, &prepared)?;
    let ready = next_line(stream)?;
    ensure!(
        ready.starts_with("{\"command\":\"commit\""),
        "the new one says {ready}"
    );
    let (lines, mut fds) = commit(&old, &ready)?;
    ensure!(lines.len() == 3, "{ready} is followed by {lines:?}");
    let mut bytes = Vec::new();
    File::from(fds[1].try_clone()?).read_to_end(&mut bytes)?;
    ensure!(bytes.len() == memory_bytes, "{} bytes", bytes.len());
    change(&mut bytes);
    fds[1] = match is_sealed {
        true => sealed(&bytes)?,
        false => memory(&bytes, SealFlag::empty())?,
    };
    pass_on(stream, &(lines, fds))?;
    old.write_all(next_line(stream)?.as_bytes())?;
    Ok(stream.write_all(next_line(&old)?.as_bytes())?)
}

/// Chain of firewalls that take over from each other, each with corrupted data.
pub struct Misled<'a> {
    setting: &'a Setting,
    arguments: &'a [&'a str],
    knowledge: Knowledge,
    firewall: Firewall,
    /// Text that the running firewall must have on stderr when it ends.
    expected: String,
}

impl<'a> Misled<'a> {
    /// Starts the first firewall of the chain, which receives no data.
    pub fn start(
        setting: &'a Setting,
        twin: Twin,
        arguments: &'a [&'a str],
        knowledge: Knowledge,
    ) -> anyhow::Result<Misled<'a>> {
        Ok(Misled {
            setting,
            arguments,
            knowledge,
            firewall: setting.start(twin, arguments)?,
            expected: String::new(),
        })
    }

    /// Starts the next firewall, which takes over with corrupted data.
    fn start_next(&self, twin: Twin, change: Change) -> anyhow::Result<Firewall> {
        let (part, ..) = change;
        let peer = Peer::connect(self.setting)?;
        let between = self.setting.path("between");
        let bytes = self.knowledge.bytes;
        let spoiler = listen_to_proof(self.setting, &between, move |stream| {
            spoil(&stream, peer, bytes, change)
        })?;
        let arguments = [self.arguments, &["--take-over", &between]].concat();
        let next = self.setting.start(twin, &arguments);
        let spoilt = spoiler.join().expect("the one between does not panic")??;
        fs::remove_file(&between)?;
        let next = next.with_context(|| format!("{part}, between: {spoilt:?}"))?;
        spoilt.with_context(|| format!("{part}, between"))?;
        Ok(next)
    }

    /// Makes the next firewall take over with corrupted data. Checks the exit code and stderr of the previous firewall.
    pub fn upgrade(&mut self, twin: Twin, change: Change) -> anyhow::Result<()> {
        let (part, ..) = change;
        let (next, late) = take_over(&self.firewall, || self.start_next(twin, change))?;
        let mut old = mem::replace(&mut self.firewall, next).wait()?;
        forget_late(&mut old, late);
        check_said(&old, &self.expected)?;
        self.expected = (self.knowledge.warning)(part);
        Ok(())
    }

    /// Ends the last firewall. Checks its exit code and stderr.
    pub fn end(self) -> anyhow::Result<()> {
        check_said(&self.firewall.end_by(libc::SIGTERM)?, &self.expected)
    }
}
