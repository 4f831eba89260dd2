// SPDX-License-Identifier: GPL-2.0-or-later
//! Programs of the system, such as nft: they run with a fixed environment from folders that only root can change.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::failure::{system, Result};

const FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];

/// Returns the path of a program in FOLDERS. Fails if the program is not installed.
/// - package: Debian package of the program, for messages.
pub fn path(name: &str, package: &str) -> Result<PathBuf> {
    let mut paths = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    let found: Option<PathBuf> = paths.find(|path| path.exists());
    found.ok_or_else(|| {
        system(format_args!(
            "{name} is not installed: apt-get install {package}"
        ))
    })
}

/// Runs a program to its end. Returns its output and exit status; an exit status other than 0 is no failure.
/// - package: Debian package of the program, for messages.
/// - input: its standard input.
pub fn run(name: &str, package: &str, arguments: &[&str], input: &str) -> Result<Output> {
    let program = path(name, package)?;
    let start = || {
        let mut command = Command::new(&program);
        command
            .args(arguments)
            .current_dir("/")
            .env_clear()
            .env("LC_ALL", "C");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        // These programs read all of their input before they write any output.
        let written = child
            .stdin
            .take()
            .map(|mut stdin| stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output()?;
        written.transpose().map(|_| output)
    };
    start().map_err(|error| {
        system(format_args!(
            "{}: {error}: is it whole? apt-get install --reinstall {package}",
            program.display()
        ))
    })
}
