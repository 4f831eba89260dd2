// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close
//! The firewall as it runs: how it starts and ends.
//!
//! Theory of operation: what can fail comes first, what needs rights before they are given up,
//! threads last. With --take-over the packets of the old firewall wait from handover::take on, so
//! that what takes long comes before it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::prctl::set_timerslack;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::contract::{self, ContractFacts};
use crate::control::{self, Control};
use crate::events::{self, EventsFacts, EventsKind};
use crate::feed::{self, Feed};
use crate::guard::{self, Guard};
use crate::handover::{self, Handover, HandoverFd};
use crate::load::{self, Loaded};
use crate::log::{self, failure_set_running, failure_set_start, Failure, LogExit};
use crate::metrics::{self, Metrics};
use crate::notify;
use crate::options::Options;
use crate::privilege;
use crate::queue_proc;
use crate::report::{self, ReportReason};
use crate::state::{self, State};
use crate::supervise;
use crate::worker::{self, WorkerError};
use crate::workers;

/// All that runs, but for the control socket, whose clients act on it.
pub struct Daemon {
    pub state: Arc<State>,
    /// With --metrics.
    pub metrics: Option<Metrics>,
    /// Of the control socket, to be handed over.
    pub control_listener: Option<OwnedFd>,
    pub guard: Guard,
    pub signals: SignalFd,
    /// Of wait::clock: when a drain ends at the latest; u64::MAX = none.
    pub drain_end_ns: u64,
    /// The end has come.
    pub stopped: bool,
    /// All is another firewall's, which takes over or goes on.
    pub given: bool,
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

/// A descriptor that another firewall gave, if there is one.
fn inherit(taken: &mut Option<Handover>, which: HandoverFd) -> Option<OwnedFd> {
    taken.as_mut()?.fds.get_mut(which as usize)?.take()
}

fn open_control(
    options: &Options,
    listener: Option<OwnedFd>,
) -> Result<(Option<Control>, Option<OwnedFd>), Failure> {
    let Some(path) = &options.control else {
        return Ok((None, None));
    };
    let control = control::open(path, options, listener)?;
    let listener = control::listener(&control).try_clone_to_owned();
    let listener = listener.map_err(|_| failure_set_start("fcntl", Errno::last()))?;
    Ok((Some(control), Some(listener)))
}

fn open_metrics(options: &Options, listener: Option<OwnedFd>) -> Result<Option<Metrics>, Failure> {
    let endpoint = options.metrics.as_deref();
    endpoint
        .map(|endpoint| metrics::open(endpoint, listener))
        .transpose()
}

fn start_guard(state: &State) -> Result<Guard, Failure> {
    let inner = state::lock(state);
    let workers = &inner.workers.all;
    let fds: Vec<_> = workers.iter().filter_map(worker::queue_fd).collect();
    let numbers = workers.iter().map(|worker| worker.shared.settings.number);
    guard::start(&state.options, &fds, &numbers.collect::<Vec<_>>())
}

/// What will happen when something fails.
fn make_contract(state: &State, feed: &Feed) {
    let mut inner = state::lock(state);
    let Some(first) = inner.workers.all.first() else {
        return; // can't be: there is a queue
    };
    let settings = &first.shared.settings;
    let facts = ContractFacts {
        receive_buffer: settings.receive_buffer,
        figures: queue_proc::figures(settings.number).is_ok(),
    };
    inner.contract = Arc::new(contract::make(&state.options, feed, &facts));
}

/// Opens all, gives up what is not needed any more, and starts the threads.
fn open_and_start(
    options: Options,
    loaded: Option<Loaded>,
    feed: &Feed,
    signals: SignalFd,
    taken: &mut Option<Handover>,
) -> Result<(Daemon, Option<Control>), Failure> {
    let events = Arc::new(events::open(&options, inherit(taken, HandoverFd::Events))?);
    let metrics = open_metrics(&options, inherit(taken, HandoverFd::Metrics))?;
    let (control, control_listener) = open_control(&options, inherit(taken, HandoverFd::Control))?;
    let state = Arc::new(state::open(options, loaded, &events, taken.as_mut())?);
    // Only root may open it. Without it ledgers lack the kernel's figures, and say so.
    let _ = queue_proc::open();
    make_contract(&state, feed);
    let mut daemon = Daemon {
        guard: start_guard(&state)?,
        state,
        metrics,
        control_listener,
        signals,
        drain_end_ns: u64::MAX,
        stopped: false,
        given: taken.is_some(),
    };
    match start_threads(&mut daemon) {
        Ok(()) => Ok((daemon, control)),
        Err(failure) => {
            stop(&mut daemon, control);
            Err(failure)
        }
    }
}

/// Gives up what is not needed any more, and starts the threads.
fn start_threads(daemon: &mut Daemon) -> Result<(), Failure> {
    let state = &daemon.state;
    let loaded = state::lock(state).loaded.clone();
    privilege::drop(&state.options, loaded.as_deref())?;
    events::start(&state.events)?;
    if let Some(metrics) = &mut daemon.metrics {
        metrics::start(metrics, state)?;
    }
    workers::start(&mut state::lock(state).workers)
}

/// Starts all.
fn start(mut options: Options) -> Result<(Daemon, Option<Control>), Failure> {
    let signals = open_signals()?;
    let loaded = load::load(&mut options)?;
    let feed = feed::read(&options);
    let mut taken = match &options.take_over {
        Some(path) => Some(handover::take(path, &options)?),
        None => {
            guard::relieve(&options);
            None
        }
    };
    let (mut daemon, control) = open_and_start(options, loaded, &feed, signals, &mut taken)?;
    if let Some(Err(failure)) = taken.as_mut().map(handover::taken) {
        stop(&mut daemon, control);
        return Err(failure);
    }
    daemon.given = false;
    guard::hold(&daemon.guard, false);
    Ok((daemon, control))
}

/// Ends what runs. Returns the error of the first worker whose loop ended by one.
fn stop(daemon: &mut Daemon, control: Option<Control>) -> Option<WorkerError> {
    let state = &daemon.state;
    let failed = workers::stop(&mut state::lock(state).workers);
    events::tell(&state.events, EventsKind::Stopped, &EventsFacts::default());
    events::stop(&state.events);
    if let Some(metrics) = daemon.metrics.take() {
        metrics::stop(metrics);
    }
    guard::end(&mut daemon.guard);
    if let Some(control) = control {
        control::close(control, !daemon.given);
    }
    failed
}

/// Prints the last ledgers and says what is wrong, if anything. Returns the exit code.
fn finish(daemon: &Daemon, failed: Option<WorkerError>) -> LogExit {
    let difference = supervise::print_ledgers(daemon, ReportReason::Exit);
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
        &inner.contract,
        report::time(),
    ));
}

/// Filters until a signal says to stop.
pub fn run(options: Options) -> Result<LogExit, Failure> {
    // A nanosecond: the coalescing sleep is short; threads inherit it. It can't fail.
    let _ = set_timerslack(1);
    log::set_level(options.log_level);
    let (mut daemon, mut control) = start(options)?;
    print_start(&daemon.state);
    let began = match daemon.state.options.take_over {
        Some(_) => EventsKind::Upgrade,
        None => EventsKind::Started,
    };
    events::tell(&daemon.state.events, began, &EventsFacts::default());
    notify::ready();
    supervise::supervise(&mut daemon, &mut control);
    if !daemon.given {
        notify::stopping();
    }
    let failed = stop(&mut daemon, control);
    Ok(finish(&daemon, failed))
}
