// SPDX-License-Identifier: GPL-2.0-or-later
//! The firewall as it runs: policy, workers, signals, reports.

use std::os::fd::AsFd;

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::prctl::set_timerslack;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::load;
use crate::log::{self, failure_set_running, failure_set_start, Failure, LogExit};
use crate::options::Options;
use crate::reload;
use crate::report::{self, ReportReason};
use crate::state::{self, State};
use crate::wait;
use crate::worker::WorkerError;
use crate::workers;

const NS_PER_SECOND: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// All that runs.
struct Daemon {
    state: State,
    signals: SignalFd,
    /// Of the next ledger; u64::MAX = never.
    stats_due_ns: u64,
    /// The end has come.
    stopped: bool,
}

/// Blocks the signals that the main thread reads, in all threads started later, and opens what it
/// reads them from. (SIGPIPE is ignored: the runtime sees to that.)
fn open_signals() -> Result<SignalFd, Failure> {
    let signals = SigSet::from_iter([
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ]);
    signals
        .thread_block()
        .map_err(|error| failure_set_start("pthread_sigmask", error))?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(|error| failure_set_start("signalfd", error))
}

/// Returns how many packets the ledgers leave unaccounted for.
fn print_ledgers(daemon: &Daemon, reason: ReportReason) -> u64 {
    let state = &daemon.state;
    let inner = state::lock(state);
    let ledgers = workers::ledgers(&inner.workers);
    let tally = state::tally(&inner);
    report::print(&report::ledger(
        &state.options,
        reason,
        report::time(),
        &ledgers,
        tally.as_ref(),
    ));
    ledgers.iter().map(|ledger| ledger.difference).sum()
}

fn take_signal(daemon: &mut Daemon, signal: u32) {
    match Signal::try_from(signal as i32) {
        Ok(Signal::SIGHUP) => {
            let _ = reload::reload(&daemon.state); // says itself what came of it
        }
        Ok(Signal::SIGUSR1) => {
            print_ledgers(daemon, ReportReason::Signal);
        }
        Ok(Signal::SIGINT | Signal::SIGTERM) => daemon.stopped = true,
        _ => {}
    }
}

fn read_signals(daemon: &mut Daemon) {
    while !daemon.stopped {
        match daemon.signals.read_signal() {
            Ok(Some(signal)) => take_signal(daemon, signal.ssi_signo),
            Ok(None) | Err(_) => break,
        }
    }
}

/// How long until a time, as poll takes it; never too short.
fn timeout_until(due_ns: u64) -> PollTimeout {
    if due_ns == u64::MAX {
        return PollTimeout::NONE;
    }
    let left_ms = due_ns.saturating_sub(wait::clock()).div_ceil(NS_PER_MS);
    PollTimeout::try_from(left_ms).unwrap_or(PollTimeout::MAX)
}

/// Prints the ledger that is due, if one is.
fn keep_interval(daemon: &mut Daemon) {
    if wait::clock() < daemon.stats_due_ns {
        return;
    }
    print_ledgers(daemon, ReportReason::Interval);
    daemon.stats_due_ns += u64::from(daemon.state.options.stats_s) * NS_PER_SECOND;
}

/// Does what it is told until it is told to stop.
fn supervise(daemon: &mut Daemon) {
    let interval_ns = u64::from(daemon.state.options.stats_s) * NS_PER_SECOND;
    if interval_ns > 0 {
        daemon.stats_due_ns = wait::clock() + interval_ns;
    }
    while !daemon.stopped {
        let mut sources = [PollFd::new(daemon.signals.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut sources, timeout_until(daemon.stats_due_ns));
        read_signals(daemon);
        keep_interval(daemon);
    }
}

/// Prints the last ledgers and says what is wrong, if anything. Returns the exit code.
fn finish(daemon: &Daemon, failed: Option<WorkerError>) -> LogExit {
    let difference = print_ledgers(daemon, ReportReason::Exit);
    if difference > 0 {
        log::warn(format_args!(
            "the ledger does not reconcile: {difference} packets are unaccounted for"
        ));
    }
    failed.map_or(LogExit::Stopped, |failed| {
        log::fail(&failure_set_running(failed.failed_call, failed.error))
    })
}

fn print_start(state: &State) {
    let inner = state::lock(state);
    let Some(first) = inner.workers.all.first() else {
        return; // can't be: there is a queue
    };
    report::print(&report::start(
        &state.options,
        inner.loaded.as_deref().map(load::requirement),
        first.shared.settings.receive_buffer,
        report::time(),
    ));
}

/// Filters until a signal says to stop.
pub fn run(options: Options) -> Result<LogExit, Failure> {
    // A nanosecond: the coalescing sleep is short; threads inherit it. It can't fail.
    let _ = set_timerslack(1);
    log::set_level(options.log_level);
    let mut daemon = Daemon {
        signals: open_signals()?,
        state: state::start(options)?,
        stats_due_ns: u64::MAX,
        stopped: false,
    };
    print_start(&daemon.state);
    supervise(&mut daemon);
    let failed = workers::stop(&mut state::lock(&daemon.state).workers);
    Ok(finish(&daemon, failed))
}
