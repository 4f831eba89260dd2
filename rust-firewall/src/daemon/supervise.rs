// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: poll read getsockopt close
//! Loop of the main thread while the workers filter: it waits for signals, clients of the control socket, the guard and
//! deadlines, and handles them one after another.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::Signal;
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Pid;

use crate::base::clock;
use crate::base::counts::{self, Count};
use crate::base::log::{self, failure_set, Failure, LogExit};
use crate::base::output;
use crate::control::{self, Control, ControlActions};
use crate::daemon::types::Daemon;
use crate::events::{self, EventsFacts, EventsKind};
use crate::guard::{self, GuardNote};
use crate::handover::give::HandoverGiving;
use crate::handover::{self, HandoverFd};
use crate::options::{self, Options, OptionsConntrack};
use crate::privilege::notify;
use crate::queue;
use crate::queue::QueueKind;
use crate::ruleset::load;
use crate::state::reload::{self, ReloadResult};
use crate::state::report::{self, ReportReason};
use crate::state::snapshot::{self, Snapshot};
use crate::state::{self, State, StateInner};
use crate::worker;
use crate::worker::stats;
use crate::worker::tracked::{self, Tracked, TrackedWatch};
use crate::worker::wait;
use crate::worker::workers::{self, Listing, Workers};

const NS_PER_SECOND: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;
/// Time between checks for waiting packets during a drain.
const DRAIN_LOOK_NS: u64 = 10 * NS_PER_MS;
/// Time between checks for lost packets.
const OVERLOAD_LOOK_NS: u64 = NS_PER_SECOND;
/// Time between checks whether packets have a connection state.
const TRACKED_LOOK_NS: u64 = NS_PER_SECOND;
const NEVER: u64 = u64::MAX;

/// Times of the main loop's next checks (wait::clock; NEVER = none), and the state of these checks.
struct Times {
    stats_ns: u64,
    overload_ns: u64,
    tracked_ns: u64,
    tracked: TrackedWatch,
    /// Number of lost packets of each queue at the last check.
    lost: Vec<u32>,
}

/// Prints the ledgers of all queues. Returns the number of packets that they leave unaccounted for.
pub fn print_ledgers(daemon: &Daemon, reason: ReportReason) -> u64 {
    let state = &daemon.state;
    let inner = state::lock(state);
    let ledgers = workers::ledgers(&inner.workers);
    let tally = state::tally(&inner);
    output::print(&report::ledger(
        &state.options,
        reason,
        clock::unix_ms(),
        &ledgers,
        tally.as_ref(),
    ));
    ledgers.iter().map(|ledger| ledger.difference).sum()
}

/// Returns the failure of a request that must wait until an upgrade is over.
/// - cure: verb for the client's action after the upgrade, such as "reload".
fn fail_giving(cure: &str) -> Failure {
    failure_set(
        LogExit::Usage,
        format_args!(
            "another firewall is about to take over: {cure} when that is done or has failed"
        ),
    )
}

/// Notifies systemd that the firewall is ready and decides packets. The status text shows the policy's generation, file
/// and number of rules, or that there is no policy; and whether the last reload failed.
pub fn tell_ready(state: &State) {
    let inner = state::lock(state);
    let file = state.options.policy.as_deref().unwrap_or_default();
    let mut status = match &inner.loaded {
        Some(loaded) => format!(
            "generation {} of {file}, rules: {}",
            loaded.generation,
            loaded.compiled.rules.len()
        ),
        None => "no policy: --default decides".to_owned(),
    };
    if inner.reload_error.is_some() {
        status.push_str("; the last reload failed");
    }
    notify::ready(&status);
}

fn backend_of(name: &str) -> Option<QueueKind> {
    let all = [QueueKind::Classic, QueueKind::Mnl, QueueKind::Raw];
    all.into_iter()
        .find(|kind| options::backend_name(*kind) == name)
}

impl ControlActions for Daemon {
    fn snapshot(&mut self, with_rules: bool) -> Snapshot {
        snapshot::take(&self.state, with_rules)
    }

    fn stats(&mut self) -> String {
        let mut options = (*self.state.options).clone();
        options.json = true;
        let inner = state::lock(&self.state);
        let ledgers = workers::ledgers(&inner.workers);
        let tally = state::tally(&inner);
        report::ledger(
            &options,
            ReportReason::Control,
            clock::unix_ms(),
            &ledgers,
            tally.as_ref(),
        )
    }

    fn connections(&mut self, from: u64, undecided: bool) -> Result<Listing, Errno> {
        let inner = state::lock(&self.state);
        workers::list(&inner.workers, from, undecided)
    }

    fn reload(&mut self) -> Result<ReloadResult, Failure> {
        if self.giving.is_some() {
            let failure = fail_giving("reload");
            reload::refuse(&self.state, &failure);
            return Err(failure);
        }
        notify::reloading();
        let result = reload::reload(&self.state);
        tell_ready(&self.state);
        result
    }

    fn drain(&mut self, seconds: u32) {
        self.drain_end_ns = wait::clock() + u64::from(seconds) * NS_PER_SECOND;
    }

    fn upgrade(&mut self, client: OwnedFd, backend: &str) -> Result<(), Failure> {
        let Some(kind) = backend_of(backend) else {
            return Err(failure_set(
                LogExit::Usage,
                "there is no backend of this name: say raw or mnl",
            ));
        };
        if self.giving.is_some() {
            return Err(fail_giving("try again"));
        }
        let giving = handover::give::prepare(&self.state, &self.values, client, kind)?;
        self.giving = Some(giving);
        Ok(())
    }

    fn tail(&mut self, client: OwnedFd, verdicts: u32, packets: bool) -> Result<(), Errno> {
        events::tail(&self.state.events, client, verdicts, packets).map_err(|(_, error)| error)
    }
}

/// Hands the queues over to a new firewall that is ready, and stops this firewall. If that fails, this firewall
/// continues.
fn give(daemon: &mut Daemon, giving: HandoverGiving) {
    let peer = getsockopt(&handover::give::fd(&giving), sockopt::PeerCredentials);
    guard::hold(&daemon.guard, true);
    let listener = daemon.control_listener.as_ref().map(AsFd::as_fd);
    daemon.handed_over = handover::give::commit(&daemon.state, giving, listener);
    if !daemon.handed_over {
        guard::hold(&daemon.guard, false);
        return;
    }
    if let Ok(peer) = peer {
        notify::main_pid(Pid::from_raw(peer.pid()));
    }
    daemon.stopped = true;
}

/// Continues the hand-over to a new firewall, if one has begun.
fn keep_giving(daemon: &mut Daemon) {
    let Some(mut giving) = daemon.giving.take() else {
        return;
    };
    let events = events::fd(&daemon.state.events);
    let listener = daemon.control_listener.as_ref().map(AsFd::as_fd);
    let mut fds = [None; handover::FD_COUNT];
    fds[HandoverFd::Control as usize] = listener;
    fds[HandoverFd::Events as usize] = events.as_ref().map(AsFd::as_fd);
    match handover::give::go_on(&daemon.state, &mut giving, &fds) {
        Ok(true) => give(daemon, giving),
        Ok(false) => daemon.giving = Some(giving),
        Err(failure) => handover::give::stay(&failure, listener),
    }
}

fn handle_signal(daemon: &mut Daemon, signal: u32) {
    match Signal::try_from(signal as i32) {
        Ok(Signal::SIGHUP) => {
            let _ = daemon.reload(); // `reload` logs the outcome
        }
        Ok(Signal::SIGUSR1) => {
            print_ledgers(daemon, ReportReason::Signal);
        }
        Ok(Signal::SIGUSR2) => events::rotate(&daemon.state.events),
        _ => daemon.stopped = true, // SIGINT or SIGTERM
    }
}

fn read_signals(daemon: &mut Daemon) {
    while !daemon.stopped {
        match daemon.signals.read_signal() {
            Ok(Some(signal)) => handle_signal(daemon, signal.ssi_signo),
            Ok(None) | Err(_) => break,
        }
    }
}

fn handle_note(daemon: &Daemon, note: &GuardNote) {
    let options = &daemon.state.options;
    let index = usize::from(note.queue.saturating_sub(options.queue_first));
    if let Some(worker) = state::lock(&daemon.state).workers.all.get(index) {
        worker::stalled(&worker.shared, note.packets, note.id);
    }
    counts::add(Count::StalledPackets, note.packets.into());
    if !note.begins {
        return;
    }
    counts::add(Count::Stalls, 1);
    let facts = EventsFacts {
        text: None,
        figures: &[note.queue.into(), note.packets.into()],
    };
    events::tell(&daemon.state.events, EventsKind::Stall, &facts);
}

fn read_guard(daemon: &mut Daemon) {
    let was_there = guard::fd(&daemon.guard).is_some();
    while let Some(note) = guard::read(&mut daemon.guard) {
        handle_note(daemon, &note);
    }
    if was_there && guard::fd(&daemon.guard).is_none() {
        let mut inner = state::lock(&daemon.state);
        inner.contract = Arc::clone(&inner.unguarded);
        inner.guard_ended = true;
    }
}

/// Returns the number of packets of a queue that the kernel has lost; `before` if the kernel's counters can't be read.
fn lost_of(number: u16, before: u32) -> u32 {
    queue::proc::figures(number).map_or(before, |figures| {
        figures.queue_full.wrapping_add(figures.user_drop)
    })
}

/// Reports an event for each queue that has lost packets since the last check.
fn look_for_overload(daemon: &Daemon, times: &mut Times) {
    let options = &daemon.state.options;
    for (number, before) in (options.queue_first..).zip(&mut times.lost) {
        let lost = lost_of(number, *before);
        let more = lost.wrapping_sub(*before);
        *before = lost;
        if more > 0 {
            let facts = EventsFacts {
                text: None,
                figures: &[number.into(), more.into()],
            };
            events::tell(&daemon.state.events, EventsKind::Overload, &facts);
        }
    }
}

/// Returns the generation of the current policy, and true if it needs the connection state; 0 and false without a
/// policy.
fn asks_ct_state(inner: &StateInner) -> (u32, bool) {
    inner.loaded.as_ref().map_or((0, false), |loaded| {
        let asks = load::requirement(loaded).conntrack_state;
        (loaded.generation, asks)
    })
}

fn warn_untracked(options: &Options) {
    if options.conntrack == OptionsConntrack::Mark {
        log::warn(
            "the policy asks for ct state, and no packet has one: no rule puts it into marks: \
             rules/load conntrack-host",
        );
    } else {
        log::warn(
            "the policy asks for ct state, and no packet has one: the kernel tracks no \
             connections until a rule of its own asks for them: \
             iptables -I INPUT -m conntrack --ctstate NEW, or \"ct state new counter\" in a \
             rule of nft",
        );
    }
}

/// Checks whether packets have the connection state (conntrack) that the policy needs, and sets the time of the next
/// check (NEVER once a packet has had the state). Logs a warning when the result becomes `Missing`.
fn look_for_tracked(daemon: &Daemon, times: &mut Times, now_ns: u64) {
    let mut inner = state::lock(&daemon.state);
    let (generation, asks) = asks_ct_state(&inner);
    let before = inner.tracked;
    let workers = inner.workers.all.iter();
    let stats = workers.map(|worker| &worker.shared.stats);
    let decided = stats.clone().map(stats::decided).sum();
    let without = stats.map(|stats| stats::get(&stats.without_ct_state)).sum();
    let now = tracked::look(&mut times.tracked, generation, asks, decided, without);
    times.tracked_ns = match asks && now != Tracked::Seen {
        true => now_ns + TRACKED_LOOK_NS,
        false => NEVER,
    };
    inner.tracked = now;
    drop(inner);
    if now == Tracked::Missing && before != Tracked::Missing {
        warn_untracked(&daemon.state.options);
    }
}

fn anything_waits(workers: &Workers) -> bool {
    workers.all.iter().any(|worker| {
        let figures = queue::proc::figures(worker.shared.settings.number);
        figures.is_ok_and(|figures| figures.waiting > 0)
    })
}

/// Executes the checks whose time has come. Stops the firewall if a drain is over.
fn keep_times(daemon: &mut Daemon, times: &mut Times) {
    let now_ns = wait::clock();
    if now_ns >= times.stats_ns {
        print_ledgers(daemon, ReportReason::Interval);
        times.stats_ns += u64::from(daemon.state.options.stats_s) * NS_PER_SECOND;
    }
    if now_ns >= times.overload_ns {
        look_for_overload(daemon, times);
        times.overload_ns = now_ns + OVERLOAD_LOOK_NS;
    }
    if now_ns >= times.tracked_ns
        || times.tracked.generation != asks_ct_state(&state::lock(&daemon.state)).0
    {
        look_for_tracked(daemon, times, now_ns);
    }
    if daemon.drain_end_ns != NEVER
        && (now_ns >= daemon.drain_end_ns || !anything_waits(&state::lock(&daemon.state).workers))
    {
        daemon.stopped = true;
    }
}

/// Returns poll's timeout: the time until the next check or deadline, rounded up to milliseconds; NONE = no limit.
fn timeout_of(daemon: &Daemon, control: Option<&Control>, times: &Times) -> PollTimeout {
    let now_ns = wait::clock();
    let mut due_ns = times.stats_ns.min(times.overload_ns).min(times.tracked_ns);
    if daemon.drain_end_ns != NEVER {
        due_ns = due_ns.min(now_ns + DRAIN_LOOK_NS);
    }
    if let Some(control_ms) = control.and_then(control::timeout) {
        due_ns = due_ns.min(now_ns + control_ms * NS_PER_MS);
    }
    if let Some(giving) = &daemon.giving {
        due_ns = due_ns.min(handover::give::due_ns(giving));
    }
    if due_ns == NEVER {
        return PollTimeout::NONE;
    }
    let left_ms = due_ns.saturating_sub(now_ns).div_ceil(NS_PER_MS);
    PollTimeout::try_from(left_ms).unwrap_or(PollTimeout::MAX)
}

fn begin_times(daemon: &Daemon) -> Times {
    let now_ns = wait::clock();
    let options = &daemon.state.options;
    let due = |wanted: bool, due_ns: u64| if wanted { due_ns } else { NEVER };
    Times {
        stats_ns: due(
            options.stats_s > 0,
            now_ns + u64::from(options.stats_s) * NS_PER_SECOND,
        ),
        overload_ns: due(options.events.is_some(), now_ns + OVERLOAD_LOOK_NS),
        tracked_ns: now_ns,
        tracked: TrackedWatch::default(),
        // Queues of an old firewall may have lost packets before.
        lost: (options.queue_first..=options.queue_last)
            .map(|number| lost_of(number, 0))
            .collect(),
    }
}

/// Waits for the next event or check. Returns the events of the control socket and its clients, in the order of
/// control::poll.
fn wait_for(daemon: &Daemon, control: Option<&Control>, times: &Times) -> Vec<PollFlags> {
    let mut sources = vec![PollFd::new(daemon.signals.as_fd(), PollFlags::POLLIN)];
    sources.extend(guard::fd(&daemon.guard).map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    sources.extend(
        daemon
            .giving
            .iter()
            .map(|giving| PollFd::new(handover::give::fd(giving), PollFlags::POLLIN)),
    );
    let own = sources.len();
    let clients = control.map(control::poll).unwrap_or_default();
    sources.extend(
        clients
            .into_iter()
            .map(|(fd, flags)| PollFd::new(fd, flags)),
    );
    let _ = poll(&mut sources, timeout_of(daemon, control, times));
    let ready = |source: &PollFd| source.revents().unwrap_or(PollFlags::empty());
    sources.iter().skip(own).map(ready).collect()
}

/// Runs the main thread's loop until daemon.stopped.
pub fn supervise(daemon: &mut Daemon, control: &mut Option<Control>) {
    let mut times = begin_times(daemon);
    while !daemon.stopped {
        let ready = wait_for(daemon, control.as_ref(), &times);
        // The ledger that a signal requests counts the packets that the guard has answered.
        read_guard(daemon);
        read_signals(daemon);
        if let Some(control) = control.as_mut().filter(|_| !daemon.stopped) {
            control::serve(control, &ready, daemon);
        }
        if !daemon.stopped {
            keep_giving(daemon);
        }
        if !daemon.stopped {
            keep_times(daemon, &mut times);
        }
    }
    if daemon.giving.take().is_some() {
        counts::add(Count::UpgradesFailed, 1);
        log::warn("upgrade: this firewall was told to end: start the new one without --take-over");
    }
}
