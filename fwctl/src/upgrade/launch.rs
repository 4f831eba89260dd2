// SPDX-License-Identifier: GPL-2.0-or-later
//! The process that becomes the new firewall: it takes the place of the old one in the system, then
//! starts the binary in its own stead.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sched::{setns, CloneFlags};
use nix::unistd::{fchdir, setsid};
use rustix::process::{pidfd_getfd, pidfd_open, Pid, PidfdFlags, PidfdGetfdFlags};
use serde::{Deserialize, Serialize};

use crate::failure::{tell, words, Exit, Failure};

/// What `upgrade` has its child do.
#[derive(Serialize, Deserialize)]
pub struct Orders {
    /// Of the old firewall.
    pub pid: i32,
    pub binary: PathBuf,
    pub arguments: Vec<String>,
    /// It keeps this process's stdout and stderr, and is in no control group but this.
    pub rehearsal: bool,
}

/// systemd counts on these being meant for one process: without them they are meant for any.
const OF_ONE_PROCESS: [&[u8]; 2] = [b"WATCHDOG_PID", b"LISTEN_PID"];
/// What a rehearsal says to the service manager would be taken for the firewall's.
const OF_THE_FIREWALL: &[u8] = b"NOTIFY_SOCKET";

fn fail(what: &Path, error: &io::Error) -> Failure {
    Failure::new(
        Exit::Refused,
        format_args!(
            "{}: {}: upgrade as who started the firewall",
            what.display(),
            words(error)
        ),
    )
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| fail(path, &error))
}

/// What a process has as stdout or stderr. Sockets can't be opened by name.
fn output(process: &Path, pid: i32, number: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    let taken = pidfd_open(pid, PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, number, PidfdGetfdFlags::empty()));
    if let Ok(taken) = taken {
        return Ok(taken);
    }
    let path = process.join("fd").join(number.to_string());
    Ok(OpenOptions::new().append(true).open(path)?.into())
}

/// The same, or one's own.
fn output_or_own(process: &Path, pid: i32, number: i32) -> Stdio {
    match output(process, pid, number) {
        Ok(taken) => taken.into(),
        Err(error) => {
            let name = if number == 1 { "stdout" } else { "stderr" };
            tell(
                "warning",
                format_args!(
                    "the old firewall's {name} can't be taken over ({}): the new one's goes here",
                    words(&error)
                ),
            );
            Stdio::inherit()
        }
    }
}

/// Where a hierarchy of control groups is: "0::/a" of cgroup v2, "5:cpu,cpuacct:/a" of v1.
fn cgroup_folder(line: &str) -> Option<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let path = path.trim_start_matches('/');
    let root = Path::new("/sys/fs/cgroup");
    let hierarchy = match controllers {
        "" if root.join("cgroup.controllers").exists() => root.to_owned(),
        "" => root.join("unified"),
        _ => root.join(controllers.trim_start_matches("name=")),
    };
    Some(hierarchy.join(path))
}

/// Moves this process where the old one is, so that a service manager knows it.
fn enter_cgroups(process: &Path) {
    let old = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own: Vec<&str> = own.lines().collect();
    for line in old.lines().filter(|line| !own.contains(line)) {
        let Some(folder) = cgroup_folder(line) else {
            continue;
        };
        if let Err(error) = fs::write(folder.join("cgroup.procs"), "0") {
            tell(
                "warning",
                format_args!("{}: not entered: {}", folder.display(), words(&error)),
            );
        }
    }
}

/// Enters a namespace of the old one's if it is another.
fn enter_namespace(process: &Path, name: &str, kind: CloneFlags) -> Result<(), Failure> {
    let path = process.join("ns").join(name);
    let file = open(&path)?;
    let old = file.metadata().map_err(|error| fail(&path, &error))?;
    let own = fs::metadata(Path::new("/proc/self/ns").join(name));
    if own.is_ok_and(|own| (own.dev(), own.ino()) == (old.dev(), old.ino())) {
        return Ok(());
    }
    setns(file.as_fd(), kind).map_err(|error| fail(&path, &error.into()))
}

/// The old one's environment.
fn environment(process: &Path, rehearsal: bool) -> Result<Vec<(OsString, OsString)>, Failure> {
    let path = process.join("environ");
    let bytes = fs::read(&path).map_err(|error| fail(&path, &error))?;
    let variables = bytes.split(|byte| *byte == 0).filter_map(|variable| {
        let at = variable.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&variable[..at], &variable[at + 1..]);
        let of_another = OF_ONE_PROCESS.contains(&name) || rehearsal && name == OF_THE_FIREWALL;
        (!of_another).then(|| {
            (
                OsString::from_vec(name.to_owned()),
                OsString::from_vec(value.to_owned()),
            )
        })
    });
    Ok(variables.collect())
}

/// Becomes the new firewall. Returns only if that fails.
fn launch(orders: &Orders, own_stderr: &mut File) -> Failure {
    match prepare(orders) {
        Ok(mut command) => {
            let error = command.exec();
            let shown = orders.binary.display();
            let failure = Failure::new(
                Exit::Refused,
                format_args!(
                    "{shown}: {}: is it to be seen and to be run where the firewall runs?",
                    words(&error)
                ),
            );
            // stderr may already be the old firewall's.
            let _ = writeln!(own_stderr, "error: {}", failure.text);
            failure
        }
        Err(failure) => {
            let _ = writeln!(own_stderr, "error: {}", failure.text);
            failure
        }
    }
}

fn prepare(orders: &Orders) -> Result<Command, Failure> {
    let process = PathBuf::from(format!("/proc/{}", orders.pid));
    let mut command = Command::new(&orders.binary);
    command
        .args(&orders.arguments)
        .env_clear()
        .envs(environment(&process, orders.rehearsal)?)
        .stdin(Stdio::null());
    let folder = process.join("cwd");
    let folder_file = open(&folder)?;
    if !orders.rehearsal {
        command
            .stdout(output_or_own(&process, orders.pid, 1))
            .stderr(output_or_own(&process, orders.pid, 2));
        enter_cgroups(&process);
    }
    enter_namespace(&process, "net", CloneFlags::CLONE_NEWNET)?;
    enter_namespace(&process, "mnt", CloneFlags::CLONE_NEWNS)?;
    fchdir(&folder_file).map_err(|error| fail(&folder, &error.into()))?;
    // A session of its own: the end of this one's terminal is nothing to it.
    setsid().map_err(|error| fail(Path::new("setsid"), &error.into()))?;
    Ok(command)
}

pub fn run(orders: &OsStr) -> Result<Exit, Failure> {
    let bad =
        |error: &dyn std::fmt::Display| Failure::new(Exit::Usage, format_args!("launch: {error}"));
    let orders: Orders = serde_json::from_slice(orders.as_bytes()).map_err(|error| bad(&error))?;
    let own = io::stderr().as_fd().try_clone_to_owned();
    let mut own_stderr = File::from(own.map_err(|error| bad(&error))?);
    Ok(launch(&orders, &mut own_stderr).exit)
}
