// SPDX-License-Identifier: GPL-2.0-or-later
//! Stages: the processes of the cage that run this program's own code. Each executes this program again, with its stage
//! as the first arguments. So no forked process continues in Rust, and each stage begins with one thread.

use std::ffi::OsStr;
use std::io;
use std::process::Command;

/// Hidden command of fwctl that runs a stage (one of the cage's own processes). Its first argument is the stage's name.
pub const WORD: &str = "cage-stage";
/// Name of the stage (a process of the cage) that writes the maps of root's outer user namespace.
pub const MAP: &str = "map";
/// Name of the stage (a process of the cage) that is the init of the outer pid namespace.
pub const HOLD: &str = "hold";
/// Name of the stage (a process of the cage) that is the init of the inner pid namespace and runs the command.
pub const INSIDE: &str = "inside";
const SELF: &str = "/proc/self/exe";

/// Returns the command that starts a stage: this program, with WORD, the stage's name and the arguments.
pub fn command(
    name: &str,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> io::Result<Command> {
    let own = std::fs::read_link(SELF)?;
    let mut command = Command::new(SELF);
    // The name that ps shows; the executed program is the running one, even if its path has another file now.
    std::os::unix::process::CommandExt::arg0(&mut command, own);
    command.args([WORD, name]).args(arguments);
    Ok(command)
}
