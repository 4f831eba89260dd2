// SPDX-License-Identifier: GPL-2.0-or-later
//! A cage from its start to its end.

use std::fs;
use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::{json, Value};

use crate::channel::{self, Order, Received, Report as Said};
use crate::command::{signal, watch_signals};
use crate::descriptors;
use crate::event::Event;
use crate::failure::Failure;
use crate::firewall::{self, Firewall};
use crate::learn::{self, Lookup};
use crate::output;
use crate::report::{tell, Report};
use crate::settings::{Settings, Source};
use crate::start::{build, Cage, Plan};

/// Interval of connection listings; the firewall lists an ended TCP connection for about two minutes.
const LOOK: Duration = Duration::from_secs(30);
/// Maximum wait for the last lines and the end of the firewall, after the command has ended.
const PATIENCE: Duration = Duration::from_secs(2);
/// PF_EXITING: flag of a process that is ending (include/linux/sched.h).
const EXITING: u32 = 4;
/// Programs without which a cage has no network, as named in its messages.
const FIREWALL: &str = "the firewall";
const UPLINK: &str = "the uplink";

/// End status of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Exited(i32),
    Signaled(i32),
}

impl Ended {
    fn json(self) -> Value {
        match self {
            Ended::Exited(code) => json!(code),
            Ended::Signaled(signal) => json!(format!("signal {signal}")),
        }
    }
}

/// Event for which the main thread waits.
pub enum Happened {
    Signal(i32),
    Stage(Option<Received<Said>>),
    Line(String),
    /// The firewall or the uplink has ended: its name (FIREWALL, UPLINK), and its status, if known.
    Gone(&'static str, Option<ExitStatus>),
}

fn watch_stage(channel: &OwnedFd, to: Sender<Happened>) -> Result<(), Failure> {
    let channel = channel.try_clone().map_err(Failure::at("a socket"))?;
    thread::spawn(move || loop {
        let got = channel::receive(&channel).ok().flatten();
        let is_end = got.is_none();
        if to.send(Happened::Stage(got)).is_err() || is_end {
            return;
        }
    });
    Ok(())
}

/// Starts a thread that sends the firewall's lines, and then its end, to the main thread.
fn watch_firewall(mut firewall: Firewall, to: Sender<Happened>) -> JoinHandle<()> {
    firewall.pass_on();
    let Firewall { mut process, lines } = firewall;
    thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            let _ = to.send(Happened::Line(line));
        }
        let _ = to.send(Happened::Gone(FIREWALL, process.wait().ok()));
    })
}

fn watch_uplink(mut uplink: Child, to: Sender<Happened>) {
    thread::spawn(move || {
        if let Some(mut stderr) = uplink.stderr.take() {
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
        }
        let _ = to.send(Happened::Gone(UPLINK, uplink.wait().ok()));
    });
}

/// State of the main thread.
struct Running<'a> {
    settings: &'a Settings,
    report: Report,
    /// Resolver of names, with `--learn`.
    lookup: Option<Lookup>,
    control: std::path::PathBuf,
    firewall: Pid,
    uplink: Pid,
    command: Option<OwnedFd>,
    /// Signals received before the command was started.
    early: Vec<i32>,
    is_cut_off: bool,
}

impl Running<'_> {
    fn wants_connections(&self) -> bool {
        self.settings.report.is_some() || matches!(self.settings.source, Source::Learn(_))
    }

    fn look(&mut self) {
        if !self.wants_connections() || self.is_cut_off {
            return;
        }
        match firewall::connections(&self.control) {
            Ok(connections) => self.report.follow(connections),
            Err(error) => tell(
                "warning",
                &format!("the firewall does not list its connections: {error}"),
            ),
        }
    }

    fn line(&mut self, line: &str) {
        match Event::read(line) {
            Some(Event::Denied { peer, why, flow }) => self.report.deny(peer, why, flow),
            Some(Event::Question { name }) => {
                if let Some(lookup) = &mut self.lookup {
                    lookup.ask(name);
                }
            }
            None => {}
        }
    }

    /// Handles the end of the firewall or uplink, without which a cage has no network. Kills the uplink, which removes
    /// the interface, so that the command's connections fail at once.
    fn cut_off(&mut self, who: &str, status: Option<ExitStatus>) {
        if self.is_cut_off {
            return;
        }
        self.is_cut_off = true;
        let how = status.map_or("unknown status".to_owned(), |status| status.to_string());
        tell(
            "error",
            &format!(
                "{who} has ended ({how}): the command has no network from here on: run it again"
            ),
        );
        let _ = kill(self.uplink, Signal::SIGKILL);
    }

    fn signal(&mut self, number: i32) {
        match &self.command {
            Some(command) => signal(command, number),
            None => self.early.push(number),
        }
    }

    /// Handles one message of the stage `inside`. Returns the command's end status once the command has ended. Fails if
    /// the stage reports a failure, or has ended without a report (`got` is None).
    fn stage(&mut self, got: Option<Received<Said>>) -> Result<Option<Ended>, Failure> {
        let got = got.ok_or_else(|| {
            Failure::new("a stage of the cage ended: the command has been killed")
        })?;
        match got.message {
            Said::Started if self.command.is_none() => {
                self.command = got.descriptor;
                std::mem::take(&mut self.early)
                    .into_iter()
                    .for_each(|number| self.signal(number));
            }
            Said::Failed(code, text) => return Err(Failure { code, text }),
            Said::Exited(code) => return Ok(Some(Ended::Exited(code))),
            Said::Signaled(signal) => return Ok(Some(Ended::Signaled(signal))),
            _ => {}
        }
        Ok(None)
    }

    /// Handles events until the command ends. Returns its end status.
    fn wait(&mut self, from: &Receiver<Happened>) -> Result<Ended, Failure> {
        let mut look = Instant::now() + LOOK;
        loop {
            let left = look.saturating_duration_since(Instant::now());
            match from.recv_timeout(left) {
                Ok(Happened::Signal(number)) => self.signal(number),
                Ok(Happened::Stage(got)) => {
                    if let Some(ended) = self.stage(got)? {
                        return Ok(ended);
                    }
                }
                Ok(Happened::Line(line)) => self.line(&line),
                Ok(Happened::Gone(who, status)) => self.cut_off(who, status),
                Err(RecvTimeoutError::Timeout) => {
                    self.look();
                    look = Instant::now() + LOOK;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new("the cage's threads ended"))
                }
            }
        }
    }

    /// Ends the firewall, and handles its last lines. If the firewall or uplink was already ending, reports it: the
    /// command may have ended for lack of network.
    fn finish(&mut self, from: &Receiver<Happened>) {
        if self.is_cut_off {
            return;
        }
        let is_expected = !is_ending(self.firewall);
        let mut left = vec![FIREWALL];
        left.extend(is_ending(self.uplink).then_some(UPLINK));
        if is_expected {
            self.look();
            let _ = kill(self.firewall, Signal::SIGTERM);
        }
        let end = Instant::now() + PATIENCE;
        while !left.is_empty() {
            match from.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Happened::Line(line)) => self.line(&line),
                Ok(Happened::Gone(who, status)) => {
                    left.retain(|one| *one != who);
                    if who != FIREWALL || !is_expected {
                        self.cut_off(who, status);
                    }
                }
                Ok(_) => {}
                Err(_) => {
                    let who = left.join(" and ");
                    tell(
                        "warning",
                        &format!("{who} did not end in time: the last connections may be missing"),
                    );
                    return;
                }
            }
        }
    }

    /// Writes the report, the learned policy and the table of denied connections. A failure changes neither the other
    /// outputs nor the exit code, which is the command's.
    fn write(&mut self, plan: &Plan, ended: Ended, milliseconds: u128) {
        let words = self
            .settings
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned());
        let command: Vec<String> = words.collect();
        if let Some(path) = &self.settings.report {
            let exit = ended.json();
            tell_unwritten(self.report.write(path, &command, exit, milliseconds));
        }
        if let Source::Learn(path) = &self.settings.source {
            let lookup = self.lookup.take();
            let names = lookup.map(|lookup| lookup.finish(learn::PATIENCE));
            let (reached, names) = (self.report.allowed(), names.unwrap_or_default());
            let text = learn::policy(&reached, &names, plan.resolver, &command);
            tell_unwritten(learn::write(path, &text));
        }
        let _ = io::stderr().write_all(self.report.table().as_bytes()); // stderr may be closed
    }
}

/// Returns true if a process is ending or has ended. The kernel marks a process as ending before it closes its files,
/// so the mark is set before the command can notice the missing network.
fn is_ending(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // After the name: state, five numbers, flags (proc_pid_stat(5)).
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let flags = rest
        .split(' ')
        .nth(6)
        .and_then(|word| word.parse::<u32>().ok());
    flags.is_none_or(|flags| flags & EXITING != 0)
}

/// Reports a file that could not be written after the command's end.
fn tell_unwritten(written: Result<(), Failure>) {
    if let Err(failure) = written {
        let text = format!(
            "{}: the command has ended, but this file is incomplete: run it again",
            failure.text
        );
        tell("error", &text);
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32)
}

/// Runs the command. The calling process must have one thread, and end soon afterwards: its namespaces stay changed.
pub fn run(settings: &Settings) -> Result<Ended, Failure> {
    let began = Instant::now();
    descriptors::check()?;
    output::check(settings)?;
    let plan = Plan::new(settings)?;
    let Cage {
        channel,
        mut hold,
        firewall,
        uplink,
        control,
    } = build(&plan, settings)?;
    let (to, from) = mpsc::channel();
    let mut running = Running {
        settings,
        report: Report::new(settings.verbose),
        lookup: matches!(settings.source, Source::Learn(_)).then(Lookup::start),
        control,
        firewall: pid(&firewall.process),
        uplink: pid(&uplink),
        command: None,
        early: Vec::new(),
        is_cut_off: false,
    };
    watch_firewall(firewall, to.clone());
    watch_uplink(uplink, to.clone());
    watch_stage(&channel, to.clone())?;
    watch_signals(to)?;
    channel::send(&channel, &Order::Run, None).map_err(Failure::at("a stage"))?;
    let ended = running.wait(&from)?;
    running.finish(&from);
    let _ = hold.kill();
    let _ = hold.wait();
    running.write(&plan, ended, began.elapsed().as_millis());
    Ok(ended)
}
