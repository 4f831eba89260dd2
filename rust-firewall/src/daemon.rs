// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: rt_sigtimedwait
//! The firewall as it runs: policy, workers, signals, reports.

use std::sync::Arc;

use nix::sys::prctl::set_timerslack;
use nix::sys::signal::{SigEvent, SigSet, SigevNotify, Signal};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;

use crate::load::{self, Loaded};
use crate::log::{self, failure_set_running, failure_set_start, Failure, LogExit};
use crate::options::Options;
use crate::report::{self, ReportReason};
use crate::tally;
use crate::worker::{self, WorkerError, Workers};

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

/// All that runs.
struct Daemon<'a> {
    options: &'a mut Options,
    loaded: Option<Arc<Loaded>>,
    workers: Workers,
}

fn print_ledgers(daemon: &mut Daemon, reason: ReportReason) {
    let workers = &mut daemon.workers;
    worker::workers_ledgers(workers, reason != ReportReason::Exit);
    let tally = daemon.loaded.as_ref().map(|loaded| {
        let mut tally = tally::begin(&loaded.policy, &loaded.compiled);
        for worker in &workers.all {
            tally::add(&mut tally, worker::counters(worker));
        }
        tally
    });
    report::print(&report::ledger(
        daemon.options,
        reason,
        report::time(),
        &workers.ledgers,
        tally.as_ref(),
    ));
}

/// Prints ledgers until a signal says to stop.
fn supervise(daemon: &mut Daemon, signals: &SigSet) {
    loop {
        match signals.wait() {
            Ok(Signal::SIGUSR1) => print_ledgers(daemon, ReportReason::Signal),
            Ok(Signal::SIGALRM) => print_ledgers(daemon, ReportReason::Interval),
            _ => break,
        }
    }
}

/// Prints the last ledgers and says what is wrong, if anything. Returns the exit code.
fn finish(daemon: &mut Daemon, failed: Option<WorkerError>) -> LogExit {
    print_ledgers(daemon, ReportReason::Exit);
    let ledgers = &daemon.workers.ledgers;
    let difference: u64 = ledgers.iter().map(|ledger| ledger.difference).sum();
    if difference > 0 {
        log::warn(format_args!(
            "the ledger does not reconcile: {difference} packets are unaccounted for"
        ));
    }
    failed.map_or(LogExit::Stopped, |failed| {
        log::fail(&failure_set_running(failed.failed_call, failed.error))
    })
}

/// Loads the policy and starts the workers.
fn start(options: &mut Options) -> Result<Daemon<'_>, Failure> {
    let loaded = load::load(options)?.map(Arc::new);
    let workers = worker::workers_start(options, loaded.as_ref())?;
    Ok(Daemon {
        options,
        loaded,
        workers,
    })
}

/// Filters until a signal says to stop. Changes options to what the policy and the kernel made of
/// them.
pub fn run(options: &mut Options) -> Result<LogExit, Failure> {
    let signals = block_signals(options)?;
    // A nanosecond: the coalescing sleep is short; threads inherit it. It can't fail.
    let _ = set_timerslack(1);
    let interval = (options.stats_s > 0)
        .then(|| start_interval(options))
        .transpose();
    let _interval = interval.map_err(|error| failure_set_start("timer_create", error))?;
    let mut daemon = start(options)?;
    if let Some(first) = daemon.workers.all.first().map(worker::settings) {
        daemon.options.gso = first.gso;
        report::print(&report::start(
            daemon.options,
            daemon.loaded.as_deref().map(load::requirement),
            first.receive_buffer,
            report::time(),
        ));
    }
    supervise(&mut daemon, &signals);
    let failed = worker::workers_stop(&mut daemon.workers);
    Ok(finish(&mut daemon, failed))
}
