// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close
//! Start and end of the firewall.
//!
//! Theory of operation: steps that may fail come first, steps that need rights before these are given up, threads last.
//! With --take-over the old firewall's packets wait from handover::take::commit on, so that all slow steps come before
//! it.

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

/// Blocks the signals that the main thread reads, in this thread and in all threads started later. Opens the descriptor
/// to read the signals from (signalfd). (The runtime ignores SIGPIPE.)
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

/// Returns a descriptor that the old firewall has sent (for --events or --control), if there is one.
fn inherit(taken: &mut Option<Handover>, which: HandoverFd) -> Option<OwnedFd> {
    taken.as_mut()?.fds.get_mut(which as usize)?.take()
}

/// Opens the destination of events with the rights of the user that the firewall will become.
/// - file: open destination that the old firewall has sent, if there is one.
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

/// Creates two failure contracts (tables of the effect of each failure): for the time while the guard runs, and for the
/// time after its end.
fn make_contract(state: &State, queue_rules: &QueueRules) {
    let mut inner = state::lock(state);
    let Some(first) = inner.workers.all.first() else {
        return; // not reached: there is at least one queue
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

/// Pairs the policy's rules with those of the old firewall's policy, whose counters, limits and quotas they inherit.
/// Sets the policy's generation to the number after that of the old policy.
fn prepare(loaded: &mut Loaded, taken: &mut Handover) {
    loaded.generation = taken.generation.saturating_add(1);
    handover::take::prepare(taken, loaded);
}

/// Opens queues, sockets and events, starts the guard, and gives up the rights that are no longer needed.
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
    // Only root may open the kernel's file with the queues' figures. On failure, ledgers show that these figures are
    // missing.
    let _ = queue::proc::open();
    make_contract(&state, queue_rules);
    let mut daemon = Daemon {
        guard: start_guard(&state)?,
        watchdog: None,
        values: handover::values(&state.options),
        state,
        control_listener,
        signals,
        drain_end_ns: u64::MAX,
        started: false,
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

/// Starts the threads of events, workers and watchdog. In an upgrade, they replace those of the old firewall.
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

/// Starts the firewall, or takes over from a running firewall (--take-over).
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
    workers::confirm(&state::lock(&daemon.state).workers);
    guard::hold(&daemon.guard, false);
    queue_rules::warn(&queue_rules);
    Ok((daemon, control))
}

/// Stops the workers and ends the other threads, the guard and the control socket. Returns the error of the first
/// worker, in the order of the queues, that failed; None if no worker failed.
fn stop(daemon: &mut Daemon, control: Option<Control>) -> Option<WorkerError> {
    let state = &daemon.state;
    if let Some(watchdog) = daemon.watchdog.take() {
        watchdog::stop(watchdog);
    }
    let failed = workers::stop(&mut state::lock(state).workers);
    if daemon.started {
        events::tell(&state.events, EventsKind::Stopped, &EventsFacts::default());
    }
    events::stop(&state.events);
    guard::end(&mut daemon.guard);
    if let Some(control) = control {
        control::close(control, !daemon.handed_over);
    }
    failed
}

/// Prints the last ledgers, and logs unaccounted packets and a failed worker. Returns the exit code.
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
        return; // not reached: there is at least one queue
    };
    output::print(&report::start(
        &state.options,
        inner.loaded.as_deref().map(load::requirement),
        first.shared.settings.receive_buffer,
        &inner.contract,
        clock::unix_ms(),
    ));
}

/// Runs the firewall until a signal, a drain or an upgrade ends it.
pub fn run(options: Options) -> Result<LogExit, Failure> {
    // Sets the timer slack to one nanosecond, because the coalescing sleep is short; threads inherit it. This call
    // can't fail.
    let _ = set_timerslack(1);
    // A program that was executed by a descriptor, as in an upgrade, can have the descriptor's number as its name. This
    // call can't fail either.
    let _ = set_name(&CString::new(PROGRAM).unwrap_or_default());
    log::set_level(options.log_level);
    let (mut daemon, mut control) = start(options)?;
    print_start(&daemon.state);
    let began = match daemon.state.options.take_over {
        Some(_) => EventsKind::Upgrade,
        None => EventsKind::Started,
    };
    events::tell(&daemon.state.events, began, &EventsFacts::default());
    daemon.started = true;
    supervise::tell_ready(&daemon.state);
    supervise::supervise(&mut daemon, &mut control);
    if !daemon.handed_over {
        notify::stopping();
    }
    let failed = stop(&mut daemon, control);
    Ok(finish(&daemon, failed))
}
