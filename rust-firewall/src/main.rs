// SPDX-License-Identifier: GPL-2.0-or-later
//! rust-firewall: the Rust twin of Twinwall, a userspace firewall on NFQUEUE.
#![deny(unsafe_code)]

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::ExitCode;

use nix::errno::Errno;
use nix::poll::{ppoll, PollFd, PollFlags};
use nix::sys::prctl::set_timerslack;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::{TimeSpec, TimeValLike};

use rust_firewall::log::{self, failure_set_running, failure_set_start, Failure, LogExit};
use rust_firewall::options::{self, Options, OptionsAction};
use rust_firewall::report::{self, ReportReason};
use rust_firewall::wait;
use rust_firewall::worker::{self, WorkerError, Workers};

/// Blocks the signals that the main thread waits for, in all threads started later.
/// (SIGPIPE is ignored by the runtime: a report that no one reads any more is no reason to stop.)
fn block_signals() -> Result<SignalFd, Failure> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGUSR1);
    signals
        .thread_block()
        .map_err(|error| failure_set_start("pthread_sigmask", error))?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(|error| failure_set_start("signalfd", error))
}

/// The next signal, or none when the time is over. No time: as long as it takes.
fn wait_for_signal(signals: &SignalFd, left_ns: Option<u64>) -> Result<Option<Signal>, Errno> {
    let mut sources = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    ppoll(
        &mut sources,
        left_ns.map(|left_ns| TimeSpec::nanoseconds(left_ns as i64)),
        None,
    )?;
    let signal = signals.read_signal()?;
    Ok(signal.and_then(|signal| Signal::try_from(signal.ssi_signo as i32).ok()))
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
fn supervise(workers: &mut Workers, options: &Options, signals: &SignalFd) {
    let interval_ns = u64::from(options.stats_s) * 1_000_000_000;
    let mut due_ns = wait::clock() + interval_ns;
    loop {
        let left_ns = due_ns.saturating_sub(wait::clock());
        match wait_for_signal(signals, (interval_ns > 0).then_some(left_ns)) {
            Ok(Some(Signal::SIGINT | Signal::SIGTERM)) => break,
            Ok(Some(Signal::SIGUSR1)) => print_ledgers(workers, options, ReportReason::Signal),
            Ok(None) if interval_ns > 0 => {
                print_ledgers(workers, options, ReportReason::Interval);
                due_ns += interval_ns;
            }
            _ => {}
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
    match failed {
        None => LogExit::Stopped,
        Some(failed) => log::fail(&failure_set_running(failed.failed_call, failed.error)),
    }
}

/// Filters until a signal says to stop.
fn run(options: &mut Options, signals: &SignalFd) -> Result<LogExit, Failure> {
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
            let signals = block_signals()?;
            // A nanosecond: the coalescing sleep is short; threads inherit it.
            set_timerslack(1).map_err(|error| failure_set_start("prctl", error))?;
            run(&mut options, &signals)
        }
        OptionsAction::Help => {
            report::print(options::HELP);
            Ok(LogExit::Stopped)
        }
        OptionsAction::Version => {
            report::print(&format!("{} {}\n", options::PROGRAM, options::VERSION));
            Ok(LogExit::Stopped)
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let code = start(&arguments).unwrap_or_else(|failure| log::fail(&failure));
    ExitCode::from(code as u8)
}
