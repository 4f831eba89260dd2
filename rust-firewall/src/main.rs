// SPDX-License-Identifier: GPL-2.0-or-later
//! rust-firewall: the Rust twin of Twinwall, a userspace firewall on NFQUEUE.
#![deny(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

use nix::sys::prctl::set_timerslack;
use nix::sys::signal::{SigEvent, SigSet, SigevNotify, Signal};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;

use rust_firewall::check;
use rust_firewall::explain;
use rust_firewall::log::{self, failure_set_running, failure_set_start, Failure, LogExit};
use rust_firewall::options::{self, Options, OptionsAction};
use rust_firewall::report::{self, ReportReason};
use rust_firewall::worker::{self, WorkerError, Workers};

/// Blocks the signals that the main thread waits for, in all threads started later. SIGALRM ends an
/// interval, as there is no safe sigtimedwait. (SIGPIPE is ignored: the runtime sees to that.)
fn block_signals(options: &Options) -> Result<SigSet, Failure> {
    let mut signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1]);
    if options.stats_s > 0 {
        signals.add(Signal::SIGALRM);
    }
    signals
        .thread_block()
        .map_err(|error| failure_set_start("pthread_sigmask", error))?;
    Ok(signals)
}

/// Has SIGALRM sent every interval, until dropped; an interval of 0 never ends.
fn start_interval(options: &Options) -> nix::Result<Timer> {
    let signal = SigevNotify::SigevSignal {
        signal: Signal::SIGALRM,
        si_value: 0,
    };
    let interval = TimeSpec::seconds(options.stats_s.into());
    let mut timer = Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(signal))?;
    timer.set(Expiration::Interval(interval), TimerSetTimeFlags::empty())?;
    Ok(timer)
}

fn print_ledgers(workers: &mut Workers, options: &Options, reason: ReportReason) {
    worker::workers_ledgers(workers, reason != ReportReason::Exit);
    report::print(&report::ledger(
        options,
        reason,
        report::time(),
        &workers.ledgers,
    ));
}

/// Prints ledgers until a signal says to stop.
fn supervise(workers: &mut Workers, options: &Options, signals: &SigSet) {
    loop {
        match signals.wait() {
            Ok(Signal::SIGUSR1) => print_ledgers(workers, options, ReportReason::Signal),
            Ok(Signal::SIGALRM) => print_ledgers(workers, options, ReportReason::Interval),
            _ => break,
        }
    }
}

/// Prints the last ledgers and says what is wrong, if anything. Returns the exit code.
fn finish(workers: &mut Workers, options: &Options, failed: Option<WorkerError>) -> LogExit {
    print_ledgers(workers, options, ReportReason::Exit);
    let difference: u64 = workers.ledgers.iter().map(|ledger| ledger.difference).sum();
    if difference > 0 {
        log::warn(format_args!(
            "the ledger does not reconcile: {difference} packets are unaccounted for"
        ));
    }
    failed.map_or(LogExit::Stopped, |failed| {
        log::fail(&failure_set_running(failed.failed_call, failed.error))
    })
}

/// Filters until a signal says to stop.
fn run(options: &mut Options, signals: &SigSet) -> Result<LogExit, Failure> {
    let interval = (options.stats_s > 0)
        .then(|| start_interval(options))
        .transpose();
    let _interval = interval.map_err(|error| failure_set_start("timer_create", error))?;
    let mut workers = worker::workers_start(options)?;
    if let Some(first) = workers.all.first().map(worker::settings) {
        options.gso = first.gso;
        report::print(&report::start(
            options,
            first.receive_buffer,
            report::time(),
        ));
    }
    supervise(&mut workers, options, signals);
    let failed = worker::workers_stop(&mut workers);
    Ok(finish(&mut workers, options, failed))
}

fn start(arguments: &[OsString]) -> Result<LogExit, Failure> {
    match options::parse(arguments)? {
        OptionsAction::Run(mut options) => {
            let signals = block_signals(&options)?;
            // A nanosecond: the coalescing sleep is short; threads inherit it. It can't fail.
            let _ = set_timerslack(1);
            return run(&mut options, &signals);
        }
        OptionsAction::Check(options) => return Ok(check::run(&options)),
        OptionsAction::Explain(options) => return Ok(explain::run(&options)),
        OptionsAction::Help => report::print(options::HELP),
        OptionsAction::Version => {
            report::print(&format!("{} {}\n", options::PROGRAM, options::VERSION));
        }
    }
    Ok(LogExit::Stopped)
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let code = start(&arguments).unwrap_or_else(|failure| log::fail(&failure));
    ExitCode::from(code as u8)
}
