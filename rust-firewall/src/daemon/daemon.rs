// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close
//! The firewall as it runs: how it starts and ends.
//!
//! Theory of operation: what can fail comes first, what needs rights before they are given up,
//! threads last. With --take-over the packets of the old firewall wait from handover::take::commit on,
//! so that what takes long comes before it.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::prctl::{set_name, set_timerslack};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::base::clock;
use crate::base::log::{self, failure_set_running, failure_set_start, Failure, LogExit};
use crate::base::output;
use crate::control::{self, Control};
use crate::daemon::supervise;
use crate::daemon::types::Daemon;
use crate::daemon::watchdog;
use crate::events::{self, Events, EventsFacts, EventsKind};
use crate::guard::{self, Guard};
use crate::handover;
use crate::handover::{Handover, HandoverFd};
use crate::options::{self, Options, PROGRAM};
use crate::policy::requirement;
use crate::privilege;
use crate::privilege::notify;
use crate::queue;
use crate::ruleset::load::{self, Loaded};
use crate::state::contract::{self, ContractFacts};
use crate::state::queue_rules::{self, QueueRules};
use crate::state::report::{self, ReportReason};
use crate::state::reverse_path;
use crate::state::{self, State};
use crate::worker::workers;
use crate::worker::{self, WorkerError};

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

/// Opens where events go, as the user that the firewall will be.
fn open_events(options: &Options, file: Option<OwnedFd>) -> Result<Arc<Events>, Failure> {
    let lowered = privilege::lower(options)?;
    let events = events::open(options, file);
    privilege::raise(&lowered);
    events.map(Arc::new)
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

fn start_guard(state: &State) -> Result<Guard, Failure> {
    let inner = state::lock(state);
    let workers = &inner.workers.all;
    let fds: Vec<_> = workers.iter().map(worker::queue_fd).collect();
    let numbers = workers.iter().map(|worker| worker.shared.settings.number);
    guard::start(&state.options, &fds, &numbers.collect::<Vec<_>>())
}

/// Effects of each failure.
fn make_contract(state: &State, queue_rules: &QueueRules) {
    let mut inner = state::lock(state);
    let Some(first) = inner.workers.all.first() else {
        return; // can't be: there is a queue
    };
    let settings = &first.shared.settings;
    let facts = |guard| ContractFacts {
        receive_buffer: settings.receive_buffer,
        figures: queue::proc::figures(settings.number).is_ok(),
        guard,
    };
    let [guarded, unguarded] = [true, false]
        .map(|guard| Arc::new(contract::make(&state.options, queue_rules, &facts(guard))));
    inner.contract = guarded;
    inner.unguarded = unguarded;
}

/// Has our policy take the place of another firewall's.
fn prepare(loaded: &mut Loaded, taken: &mut Handover) {
    loaded.generation = taken.generation.saturating_add(1);
    handover::take::prepare(taken, loaded);
}

/// Opens all and gives up what is not needed any more.
fn open_all(
    options: Options,
    mut loaded: Option<Loaded>,
    queue_rules: &QueueRules,
    signals: SignalFd,
    taken: &mut Option<Handover>,
) -> Result<(Daemon, Option<Control>), Failure> {
    let events = open_events(&options, inherit(taken, HandoverFd::Events))?;
    let (control, control_listener) = open_control(&options, inherit(taken, HandoverFd::Control))?;
    if let (Some(loaded), Some(taken)) = (&mut loaded, taken.as_mut()) {
        prepare(loaded, taken);
    }
    let queues = taken.as_mut().map(|taken| taken.queues.as_mut_slice());
    let state = Arc::new(state::open(options, loaded, &events, queues)?);
    // Only root may open it. Without it ledgers lack the kernel's figures, and say so.
    let _ = queue::proc::open();
    make_contract(&state, queue_rules);
    let mut daemon = Daemon {
        guard: start_guard(&state)?,
        watchdog: None,
        state,
        control_listener,
        signals,
        drain_end_ns: u64::MAX,
        stopped: false,
        giving: None,
        handed_over: taken.is_some(),
    };
    let loaded = state::lock(&daemon.state).loaded.clone();
    match privilege::drop(&daemon.state.options, loaded.as_deref()) {
        Ok(()) => Ok((daemon, control)),
        Err(failure) => {
            stop(&mut daemon, control);
            Err(failure)
        }
    }
}

/// Starts the threads; where another firewall filters, in its place.
fn start_threads(daemon: &mut Daemon, taken: &mut Option<Handover>) -> Result<(), Failure> {
    let state = &daemon.state;
    events::start(&state.events)?;
    if let Some(taken) = taken {
        handover::take::commit(taken, state)?;
    }
    workers::start(&mut state::lock(state).workers)?;
    if let Some(taken) = taken {
        handover::take::running(taken, state)?;
    }
    daemon.watchdog = watchdog::start(&state::lock(state).workers)?;
    taken.as_mut().map_or(Ok(()), handover::take::taken)
}

/// Starts all.
fn start(mut options: Options) -> Result<(Daemon, Option<Control>), Failure> {
    privilege::check(&options)?;
    let signals = open_signals()?;
    let mut loaded = load::load(&options)?;
    if let Some(loaded) = &mut loaded {
        load::learn(loaded, &options, None);
    }
    if let Some(loaded) = &loaded {
        options::provide(&mut options, load::requirement(loaded));
    }
    let requirement = loaded.as_ref().map(load::requirement);
    if requirement.is_some_and(requirement::reads_names) {
        reverse_path::warn();
    }
    let queue_rules = queue_rules::read(&options);
    let mut taken = match &options.take_over {
        Some(path) => Some(handover::take::take(path, &options)?),
        None => {
            guard::relieve(&options);
            None
        }
    };
    let (mut daemon, control) = open_all(options, loaded, &queue_rules, signals, &mut taken)?;
    if let Err(failure) = start_threads(&mut daemon, &mut taken) {
        stop(&mut daemon, control);
        return Err(failure);
    }
    daemon.handed_over = false;
    guard::hold(&daemon.guard, false);
    queue_rules::warn(&queue_rules);
    Ok((daemon, control))
}

/// Ends what runs. Returns the error of the first worker whose loop ended by one.
fn stop(daemon: &mut Daemon, control: Option<Control>) -> Option<WorkerError> {
    let state = &daemon.state;
    if let Some(watchdog) = daemon.watchdog.take() {
        watchdog::stop(watchdog);
    }
    let failed = workers::stop(&mut state::lock(state).workers);
    events::tell(&state.events, EventsKind::Stopped, &EventsFacts::default());
    events::stop(&state.events);
    guard::end(&mut daemon.guard);
    if let Some(control) = control {
        control::close(control, !daemon.handed_over);
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
    output::print(&report::start(
        &state.options,
        inner.loaded.as_deref().map(load::requirement),
        first.shared.settings.receive_buffer,
        &inner.contract,
        clock::unix_ms(),
    ));
}

/// Filters until a signal says to stop.
pub fn run(options: Options) -> Result<LogExit, Failure> {
    // A nanosecond: the coalescing sleep is short; threads inherit it. It can't fail.
    let _ = set_timerslack(1);
    // Who was run by a descriptor, as in an upgrade, is called by its number. It can't fail either.
    let _ = set_name(&CString::new(PROGRAM).unwrap_or_default());
    log::set_level(options.log_level);
    let (mut daemon, mut control) = start(options)?;
    print_start(&daemon.state);
    let began = match daemon.state.options.take_over {
        Some(_) => EventsKind::Upgrade,
        None => EventsKind::Started,
    };
    events::tell(&daemon.state.events, began, &EventsFacts::default());
    supervise::tell_ready(&daemon.state);
    supervise::supervise(&mut daemon, &mut control);
    if !daemon.handed_over {
        notify::stopping();
    }
    let failed = stop(&mut daemon, control);
    Ok(finish(&daemon, failed))
}
