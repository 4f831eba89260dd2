// SPDX-License-Identifier: GPL-2.0-or-later
//! The cage's processes that run this program's own code: each is this program again, told by its first words which it is.
//! So no process is forked that goes on in Rust, and each stage begins with one thread.

use std::ffi::OsStr;
use std::io;
use std::process::Command;

/// The hidden command of fwctl that all stages have.
pub const WORD: &str = "cage-stage";
/// Writes the maps of root's outer user namespace.
pub const MAP: &str = "map";
/// The init of the outer pid namespace.
pub const HOLD: &str = "hold";
/// The init of the inner pid namespace, which runs the command.
pub const INSIDE: &str = "inside";
const SELF: &str = "/proc/self/exe";

/// A stage, to be spawned.
pub fn command(
    name: &str,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> io::Result<Command> {
    let own = std::fs::read_link(SELF)?;
    let mut command = Command::new(SELF);
    // Shown by ps; the program is the one that runs, whatever lies at its path by now.
    std::os::unix::process::CommandExt::arg0(&mut command, own);
    command.args([WORD, name]).args(arguments);
    Ok(command)
}
