// SPDX-License-Identifier: GPL-2.0-or-later
//! A firewall that is a systemd service. systemd itself starts the new firewall in the unit, with its user, limits,
//! filters, mounts and command line, as systemd's child.
//!
//! Theory of operation: `upgrade` opens the program, listens in a folder that belongs to root alone, and makes systemd
//! reload the unit, whose ExecReload is `fwctl ... unit-reload %n -- COMMAND`, COMMAND being that of ExecStart. Started
//! so in the unit, fwctl connects to the listener, receives the program, and starts it in an orphan, which init
//! (systemd) adopts before it sends anything. Then the old firewall reports its new main process (MAINPID) to systemd,
//! and ends. Without a listener, it is a reload of the policy.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{chown, DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};

use super::orders::{self, Orders};
use super::peer::Peer;
use super::program::Program;
use super::rehearsal;
use super::started::{Output, Started};
use crate::arguments::Arguments;
use crate::failure::{words, Exit, Failure};
use crate::reload;

/// Folder of the sockets at which `upgrade` listens; each has the name of its unit.
const FOLDER: &str = "/run/twinwall-upgrade";
/// Environment variables of fwctl, started by the unit's ExecReload, that the new firewall gets as well.
const PASSED_ON: [&str; 3] = ["NOTIFY_SOCKET", "JOURNAL_STREAM", "INVOCATION_ID"];
const STEP: Duration = Duration::from_millis(20);
/// Message by which fwctl, started by the unit's ExecReload, reports success.
const DONE: &str = "done";

/// Service of systemd whose main process is the firewall.
pub struct Unit {
    pub name: String,
    /// Path of the program in the unit's ExecStart.
    pub program: PathBuf,
    /// Watchdog time in microseconds; 0 means none.
    watchdog_us: u64,
}

fn refused(text: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Refused, text)
}

/// Returns the name of the service whose control group contains a process: "a.service" for
/// "0::/system.slice/a.service". None if the process belongs to no service.
/// - cgroups: text of /proc/PID/cgroup.
pub fn service_of(cgroups: &str) -> Option<&str> {
    let mut paths = cgroups
        .lines()
        .filter_map(|line| line.splitn(3, ':').nth(2));
    paths.find_map(|path| path.rsplit('/').find(|part| part.ends_with(".service")))
}

/// Returns the output of `systemctl show` for a unit, a line NAME=VALUE for each property; None without systemd.
/// - properties: names of the properties, separated by commas.
pub fn show(unit: &str, properties: &str) -> Option<String> {
    let mut command = Command::new("systemctl");
    command.args(["show", "--property", properties, "--", unit]);
    let output = command.stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

pub fn property<'a>(shown: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = shown.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// Returns the text between `begin` and `end` in a command in systemctl's format: "{ path=/a ; argv[]=/a --b ;
/// ignore_errors=no ; ... }".
fn part<'a>(command: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = command.split_once(begin)?;
    rest.split_once(end).map(|(part, _)| part)
}

/// Parses a time in systemctl's format: "1min 30s", "1.500000s". None for "0" and "infinity", which have no unit.
fn microseconds(span: &str) -> Option<u64> {
    // The units of systemd's format_timespan; a month is a twelfth of 365.25 days.
    const UNITS: [(&str, u64); 9] = [
        ("us", 1),
        ("ms", 1000),
        ("s", 1_000_000),
        ("min", 60_000_000),
        ("h", 3_600_000_000),
        ("d", 86_400_000_000),
        ("w", 604_800_000_000),
        ("month", 2_629_800_000_000),
        ("y", 31_557_600_000_000),
    ];
    let of_word = |word: &str| {
        let number = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let (_, unit) = UNITS
            .iter()
            .find(|(name, _)| *name == &word[number.len()..])?;
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let scale = 10_u64.checked_pow(decimals.len().try_into().ok()?)?;
        let part = decimals.parse::<u64>().ok()?.checked_mul(*unit)? / scale;
        whole
            .parse::<u64>()
            .ok()?
            .checked_mul(*unit)?
            .checked_add(part)
    };
    span.split_whitespace().map(of_word).sum()
}

impl Unit {
    /// Returns the service whose main process is the firewall; None if there is no such service. Fails if the unit's
    /// ExecReload can't upgrade.
    pub fn of(peer: &Peer) -> Result<Option<Unit>, Failure> {
        let cgroups = peer.read("cgroup")?;
        let Some(name) = service_of(&cgroups) else {
            return Ok(None);
        };
        let Some(shown) = show(name, "MainPID,ExecStart,ExecReload,WatchdogUSec") else {
            return Ok(None);
        };
        if property(&shown, "MainPID") != Some(&peer.pid.to_string()) {
            return Ok(None);
        }
        let words = |name| part(property(&shown, name)?, "argv[]=", " ; ignore_errors=");
        let start = words("ExecStart").unwrap_or_default();
        let expected = format!(" unit-reload {name} -- {start}");
        if !words("ExecReload").is_some_and(|reload| reload.ends_with(&expected)) {
            return Err(refused(format_args!(
                "{name} can't start another firewall in its place: set its ExecReload to fwctl \
                 --socket PATH unit-reload %n -- and the command of its ExecStart, as in the unit of \
                 the package"
            )));
        }
        let path = property(&shown, "ExecStart").and_then(|start| part(start, "path=", " ; "));
        Ok(Some(Unit {
            name: name.to_owned(),
            program: PathBuf::from(path.unwrap_or_default()),
            watchdog_us: property(&shown, "WatchdogUSec")
                .and_then(microseconds)
                .unwrap_or(0),
        }))
    }

    /// Returns true if systemd has started the process for the reload.
    fn is_control_process(&self, pid: i32) -> bool {
        let shown = show(&self.name, "ControlPID").unwrap_or_default();
        property(&shown, "ControlPID") == Some(&pid.to_string())
    }

    /// Makes systemd reload the unit, so that the program takes over in it. Returns the new firewall. Fails with the
    /// error that fwctl in the unit reports.
    pub fn take_over(&self, old: &Peer, program: &Program, socket: &Path) -> Result<Peer, Failure> {
        let stage = Stage::new(&self.name, old.uid)
            .map_err(|error| refused(format_args!("{FOLDER}/{}: {}", self.name, words(&error))))?;
        let mut command = Command::new("systemctl");
        command.args(["reload", "--", &self.name]);
        let spawned = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut systemctl =
            spawned.map_err(|error| refused(format_args!("systemctl: {}", words(&error))))?;
        let said = self.give(&stage, &mut systemctl, program);
        let output = systemctl.wait_with_output();
        let complaint = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
        let complaint = complaint.unwrap_or_default();
        let line = complaint
            .lines()
            .next()
            .unwrap_or("it did not ask for the program");
        match said.as_deref() {
            Some(DONE) => {}
            Some(text) if !text.is_empty() => return Err(refused(text)),
            _ => {
                return Err(refused(format_args!(
                    "{}: {line}: journalctl --unit {} may show the reason",
                    self.name, self.name
                )))
            }
        }
        let new = Peer::find(socket)?;
        let shown = show(&self.name, "MainPID").unwrap_or_default();
        let is_main = property(&shown, "MainPID") == Some(&new.pid.to_string());
        match is_main && program.runs_as(&new) {
            true => Ok(new),
            false => Err(refused(format_args!(
                "{}: pid {} is not the process that systemd started for the upgrade: journalctl \
                 --unit {} may show the reason",
                self.name, new.pid, self.name
            ))),
        }
    }

    /// Sends the program to the fwctl process that the unit's ExecReload has started. Returns that process's response;
    /// None if systemctl ends before such a process connects, or if the exchange fails.
    fn give(&self, stage: &Stage, systemctl: &mut Child, program: &Program) -> Option<String> {
        let environment = match self.watchdog_us {
            0 => Vec::new(),
            us => vec![("WATCHDOG_USEC".to_owned(), us.to_string())],
        };
        let orders = Orders {
            name: program.path.clone(),
            arguments: Vec::new(),
            environment,
            connect: None,
            rights: None,
            surroundings: None,
        };
        let mut stream = loop {
            match stage.listener.accept() {
                Ok((stream, _)) => {
                    let peer = getsockopt(&stream, sockopt::PeerCredentials).ok()?;
                    if self.is_control_process(peer.pid()) {
                        break stream;
                    }
                }
                Err(_) if matches!(systemctl.try_wait(), Ok(None)) => thread::sleep(STEP),
                Err(_) => return None,
            }
        };
        stream.set_nonblocking(false).ok()?;
        orders::send(&stream, &orders, program.file.as_fd(), None).ok()?;
        let mut said = String::new();
        stream.read_to_string(&mut said).ok()?;
        Some(said)
    }
}

/// Socket at which fwctl, started by the unit's ExecReload, requests the program. Deleted on drop.
struct Stage {
    path: PathBuf,
    listener: UnixListener,
}

impl Stage {
    /// Creates the socket.
    /// - user: user of the old firewall, as which the unit's ExecReload may run. Only root and this user may connect.
    fn new(unit: &str, user: u32) -> io::Result<Stage> {
        let made = DirBuilder::new().mode(0o755).create(FOLDER);
        let data = fs::symlink_metadata(FOLDER)?;
        if made.is_err() && (!data.is_dir() || data.uid() != 0 || data.mode() & 0o022 != 0) {
            return Err(io::Error::other(
                "the folder is not root's alone: remove it",
            ));
        }
        let path = Path::new(FOLDER).join(unit);
        let _ = fs::remove_file(&path); // left by an upgrade that was killed
        let listener = UnixListener::bind(&path)?;
        let stage = Stage { path, listener };
        stage.listener.set_nonblocking(true)?;
        chown(&stage.path, Some(user), None)?;
        Ok(stage)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Connects to the process `fwctl upgrade` that upgrades the unit. None if there is none, or if it does not run as
/// root.
fn asked(unit: &str) -> Option<UnixStream> {
    let stream = UnixStream::connect(Path::new(FOLDER).join(unit)).ok()?;
    let listener = getsockopt(&stream, sockopt::PeerCredentials).ok()?;
    (listener.uid() == 0).then_some(stream)
}

/// Receives a program from `fwctl upgrade`, and makes it take over with the arguments of the unit.
/// - given: arguments of the unit's ExecStart, without the program.
fn take_over(arguments: &Arguments, stream: &UnixStream, given: &[String]) -> Result<(), Failure> {
    let received = orders::receive(stream);
    let (mut orders, descriptors) = received.map_err(|error| {
        let gone = error.kind() == ErrorKind::UnexpectedEof;
        let words = if gone {
            "fwctl upgrade has ended".to_owned()
        } else {
            words(&error)
        };
        refused(format_args!("no program is given: {words}"))
    })?;
    let program = Program::received(descriptors.program, orders.name.clone());
    orders.arguments = given.to_vec();
    let old = Peer::find(&arguments.socket)?;
    rehearsal::run(&program, &mut orders, &arguments.socket)?;
    let passed_on = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    orders
        .environment
        .extend(PASSED_ON.into_iter().filter_map(passed_on));
    let option = format!("--take-over={}", arguments.socket.display());
    orders.arguments.push(option);
    let mut started = Started::start(&program, &orders, None, Output::Own, true)?;
    started.wait_for(&arguments.socket, &old).map(drop)
}

/// Runs a unit's ExecReload: the upgrade that a process `fwctl upgrade` requests. Without such a process, reloads the
/// policy.
/// - command: command of the unit's ExecStart.
pub fn run(arguments: &Arguments, unit: &str, command: &[String]) -> Result<Exit, Failure> {
    let Some(mut stream) = asked(unit) else {
        return reload::run(arguments);
    };
    let done = take_over(arguments, &stream, command.get(1..).unwrap_or_default());
    let said = done.as_ref().err().map_or(DONE, |failure| &failure.text);
    let _ = stream.write_all(said.as_bytes()); // the sender of the request may be gone
    done.map(|()| Exit::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_in_either_form_of_control_groups() {
        let v2 = "0::/system.slice/system-twinwall\\x2dc.slice/twinwall-c@web.service\n";
        assert_eq!(service_of(v2), Some("twinwall-c@web.service"));
        let v1 = "2:cpu:/\n1:name=systemd:/system.slice/cron.service\n0::/\n";
        assert_eq!(service_of(v1), Some("cron.service"));
        assert_eq!(service_of("0::/user.slice/session-1.scope\n"), None);
    }

    #[test]
    fn times_are_read_as_systemctl_shows_them() {
        for (text, us) in [
            ("10s", Some(10_000_000)),
            ("1min 30s", Some(90_000_000)),
            ("500ms", Some(500_000)),
            ("1.500000s", Some(1_500_000)),
            ("1w 1d", Some(691_200_000_000)),
            ("1month 2.5ms", Some(2_629_800_002_500)),
            ("5", None),
            ("1.s", None),
            ("0", None),
            ("infinity", None),
        ] {
            assert_eq!(microseconds(text), us, "{text}");
        }
    }

    #[test]
    fn commands_are_read_as_systemctl_shows_them() {
        let shown =
            "MainPID=12\nExecStart={ path=/usr/sbin/c-firewall ; argv[]=/usr/sbin/c-firewall \
                     --control /run/a $OPTIONS ; ignore_errors=no ; start_time=[n/a] ; pid=0 }\n";
        let start = property(shown, "ExecStart").unwrap();
        assert_eq!(part(start, "path=", " ; "), Some("/usr/sbin/c-firewall"));
        assert_eq!(
            part(start, "argv[]=", " ; ignore_errors="),
            Some("/usr/sbin/c-firewall --control /run/a $OPTIONS")
        );
        assert_eq!(property(shown, "MainPID"), Some("12"));
    }
}
