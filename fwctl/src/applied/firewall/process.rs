// SPDX-License-Identifier: GPL-2.0-or-later
//! The firewall as a separate process, where systemd does not run it.
//!
//! The process begins as this program (`fwctl start-firewall`), which writes its pid file and then executes the
//! firewall. Until the pid file exists, the process's stdin holds the lock of the state folder, so that the next holder
//! of the lock finds the process by the pid file.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use apply::firewall::Twin;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::unistd::{chdir, dup2_stdin, setsid};
use rustix::process::{pidfd_send_signal, Signal};

use super::{program, trust, HostFirewall};
use crate::failure::{words, Exit, Failure};
use crate::upgrade::peer::{open_process, Peer};
use crate::upgrade::program::Program;

/// PATH of the firewall. The fwctl that the firewall starts finds nft and iptables-save by it.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Time limit for a start: a policy with millions of names may have to be read.
const STARTED: Duration = Duration::from_secs(120);
/// Time limit in milliseconds for the end of a process after SIGTERM; then it is killed.
const ENDED_MS: u16 = 10_000;
const STEP: Duration = Duration::from_millis(10);

fn refused(text: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Refused, text)
}

/// Returns the start time of a process, in ticks since boot: process id and start time together are unique.
fn start_time(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 22 of proc(5); field 2 may contain blanks and ends with the last bracket.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19).map(str::to_owned)
}

/// Runs `fwctl start-firewall`: writes the pid file and executes the firewall.
pub fn become_firewall(pid_file: &Path, command: &[String]) -> Result<Exit, Failure> {
    let failed = |error: io::Error| refused(format_args!("start-firewall: {}", words(&error)));
    setsid().map_err(|error| failed(error.into()))?;
    chdir("/").map_err(|error| failed(error.into()))?;
    let pid = std::process::id();
    let started = start_time(pid as i32).unwrap_or_default();
    trust::replace(pid_file, &format!("{pid} {started}\n"))?;
    // Closes the lock file, which is stdin.
    let nothing = File::open("/dev/null").map_err(failed)?;
    dup2_stdin(nothing).map_err(|error| failed(error.into()))?;
    let Some((program, arguments)) = command.split_first() else {
        return Err(refused(
            "start-firewall: no program: only fwctl apply starts it",
        ));
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", PATH);
    Err(failed(command.exec()))
}

/// Returns the last error line of a log, without "error: ".
fn last_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().rfind(|line| line.starts_with("error: "));
    let line = line.map(|line| line.trim_start_matches("error: "));
    line.unwrap_or("the firewall ended without a message")
        .to_owned()
}

/// Waits until a started firewall answers at its control socket. Fails if the time limit STARTED is over, or if the
/// process has ended: with the last error line of its log.
/// - child: process of the firewall.
fn wait(child: &mut Child, control: &Path, log: &Path) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let last = match Peer::find(control) {
            Ok(peer) if peer.pid == child.id() as i32 => return Ok(()),
            Ok(_) => String::new(),
            Err(failure) => failure.text,
        };
        if let Ok(Some(_)) = child.try_wait() {
            return Err(refused(last_line(log)));
        }
        if begun.elapsed() > STARTED {
            return Err(refused(format_args!(
                "the firewall does not answer after {} s: {last}",
                STARTED.as_secs()
            )));
        }
        thread::sleep(STEP);
    }
}

pub fn start(
    firewall: &HostFirewall,
    twin: Twin,
    options: &[String],
    lock: File,
) -> Result<(), Failure> {
    let program = program::find(twin)?;
    let (control, log) = (firewall.control(twin), firewall.file("log"));
    trust::folder(control.parent().unwrap_or(&control))?;
    trust::replace(&log, "")?;
    let output = File::options().append(true).open(&log);
    let output = output.map_err(trust::at(&log))?;
    let failed = |error| {
        refused(format_args!(
            "the firewall did not start: {}",
            words(&error)
        ))
    };
    let mut command = Command::new("/proc/self/exe");
    command.args(["start-firewall", "--pid-file"]);
    command.arg(firewall.file("pid")).arg("--");
    command.arg(&program.path).args(options);
    command.arg("--control").arg(&control).stdin(lock);
    command.stdout(output.try_clone().map_err(failed)?);
    command.stderr(Stdio::from(output));
    let mut child = command.spawn().map_err(failed)?;
    wait(&mut child, &control, &log)
}

/// Ends a process, by force if it does not end in time.
fn end(process: BorrowedFd) -> Result<(), Failure> {
    let mut polled = [PollFd::new(process, PollFlags::POLLIN)];
    for signal in [Signal::TERM, Signal::KILL] {
        let _ = pidfd_send_signal(process, signal);
        // A stopped process would not handle the signal.
        let _ = pidfd_send_signal(process, Signal::CONT);
        if poll(&mut polled, PollTimeout::from(ENDED_MS)).is_ok_and(|ended| ended > 0) {
            return Ok(());
        }
    }
    Err(refused("the firewall can't be ended: see ps for its state"))
}

/// Ends the process in the pid file, if it still runs.
fn end_started(pid_file: &Path) -> Result<(), Failure> {
    let text = fs::read_to_string(pid_file).unwrap_or_default();
    let Some((pid, started)) = text.trim().split_once(' ') else {
        return Ok(());
    };
    let process = pid.parse().ok().and_then(|pid| open_process(pid).ok());
    let is_it = pid.parse().ok().and_then(start_time).as_deref() == Some(started);
    match process.filter(|_| is_it) {
        Some(process) => end(process.as_fd()),
        None => Ok(()),
    }
}

/// Ends a firewall that has taken over from the process in the pid file (`fwctl upgrade`).
fn end_successor(control: &Path) -> Result<(), Failure> {
    let Ok(peer) = Peer::find(control) else {
        return Ok(());
    };
    let program = Program::of(&peer)?;
    let name = program.path.file_name().and_then(|name| name.to_str());
    match name {
        Some("rust-firewall" | "c-firewall") => end(peer.process()),
        _ => Err(refused(format_args!(
            "{}: pid {} listens, which is no firewall: end it",
            control.display(),
            peer.pid
        ))),
    }
}

pub fn stop(firewall: &HostFirewall, twin: Twin) -> Result<(), Failure> {
    let (pid_file, control) = (firewall.file("pid"), firewall.control(twin));
    end_started(&pid_file)?;
    end_successor(&control)?;
    let _ = fs::remove_file(&pid_file);
    let _ = fs::remove_file(&control);
    Ok(())
}
