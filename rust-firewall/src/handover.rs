// SPDX-License-Identifier: GPL-2.0-or-later
//! One firewall takes the place of another, of either twin, and no packet is lost.
//!
//! Theory of operation: the new process does what can fail (its policy is read and compiled) and then
//! asks the old one by its control socket (docs/CONTROL.md, `upgrade`). The old one stops its workers
//! between two batches; from now on packets wait in the sockets of the queues. It says what it
//! counted, gives the sockets away (queue_adopt tells how they go on) and waits. The new one adopts
//! them, starts its workers - here the pause ends - and says "taken"; the old one says that it heard,
//! and ends without unbinding anything. It is the old one that decides: until it has heard "taken" it
//! goes on by itself if anything is wrong with the new one (it ends, is silent, is no firewall), and a
//! new one that is not told that it was heard ends, and leaves the queues alone.
//!
//! All waiting is bounded by GIVE_MS and TAKE_MS, from the request to the end.
// seccomp: getpid kill

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process;
use std::sync::atomic::Ordering;

use nix::errno::Errno;
use nix::sys::signal::{kill, Signal};
use nix::unistd::getpid;
use serde_json::Value;

use crate::carry::{self, CarrySide};
use crate::counts::{self, Count};
use crate::flow::FlowCounter;
use crate::handover_channel::{self, HandoverChannel};
use crate::handover_state;
use crate::log::{self, failure_set, failure_set_running, Failure, LogExit};
use crate::options::{self, Options};
use crate::queue::QueueKind;
use crate::queue_adopt::{self, QueueGiven};
use crate::state::{self, State, StateInner};
use crate::stats::{self, Stats};
use crate::wait;
use crate::worker;
use crate::workers::Workers;

/// That the old one waits for the new one.
pub const GIVE_MS: u32 = 5000;
/// The other way round: it may have to wait for another that hangs.
pub const TAKE_MS: u32 = 10000;
/// Of what they say.
pub const VERSION: i64 = 1;

const TAKEN: &str = "{\"command\":\"taken\"}\n";
const HEARD: &str = "{\"ok\":true}\n";
const NS_PER_US: u64 = 1000;

/// Descriptors beside those of queues, called as the options are that they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverFd {
    Control,
    Metrics,
    Events,
}

pub const FD_COUNT: usize = HandoverFd::Events as usize + 1;

/// A queue.
#[derive(Debug, Default)]
pub struct HandoverQueue {
    /// Of its worker.
    pub stats: Stats,
    pub number: u16,
    /// Packets that the guard answered.
    pub stalled: u64,
    pub given: QueueGiven,
    /// The bound netlink socket.
    pub fd: Option<OwnedFd>,
}

/// What one process tells another, and what the other has of it.
#[derive(Default)]
pub struct Handover {
    /// Of the old one.
    pub pid: i64,
    /// Of its policy; 0 = none.
    pub generation: u32,
    pub counts: [u64; counts::ALL.len()],
    pub queues: Vec<HandoverQueue>,
    /// The rules of its policy with their state, for carry::begin and carry::end, which take counters
    /// and logs from here.
    pub side: CarrySide,
    pub counters: Vec<FlowCounter>,
    pub logged: Vec<u64>,
    /// What the options of these names say at the old one.
    pub options: [Option<String>; FD_COUNT],
    /// None also if it is of no use, as our option says something else.
    pub fds: [Option<OwnedFd>; FD_COUNT],
    /// To the old one.
    channel: Option<HandoverChannel>,
    /// Of wait::clock, when the old one was asked.
    asked_ns: u64,
}

fn fail_classic() -> Failure {
    failure_set(
        LogExit::Usage,
        "the backend classic cannot take a queue over, as libnetfilter_queue opens sockets of its \
         own only: start the new firewall with --backend raw or mnl",
    )
}

/// Whether a line says so under a key.
fn says(line: &[u8], key: &str, value: &Value) -> bool {
    let object = serde_json::from_slice::<Value>(line);
    object.is_ok_and(|object| object.get(key) == Some(value))
}

fn fail_line(whose: &str) -> Failure {
    failure_set(
        LogExit::Call,
        format_args!("the {whose} firewall says what no firewall would: is it one of this kind?"),
    )
}

/// Stops the workers between two batches. Fails if one had ended by itself.
fn pause_workers(workers: &mut Workers) -> Result<(), Failure> {
    for worker in &workers.all {
        worker::stop(worker, true);
    }
    let mut failed = None;
    for worker in &mut workers.all {
        failed = failed.or(worker::join(worker));
    }
    match failed {
        Some(failed) => Err(failure_set_running(failed.failed_call, failed.error)),
        None => Ok(()),
    }
}

/// Starts them again. What can't be started ends the process, as a worker does that fails.
fn start_workers(workers: &mut Workers) {
    for worker in &mut workers.all {
        if let Err(failure) = worker::start(worker) {
            log::error(&failure.text);
            let _ = kill(getpid(), Signal::SIGTERM); // it can't fail
        }
    }
}

fn release_queues(workers: &mut Workers) {
    for worker in &mut workers.all {
        worker::release(worker);
    }
}

/// Fills in what was counted, now that the workers have stopped.
fn describe(inner: &mut StateInner, given: &mut Handover) {
    for ((count, _), counted) in counts::ALL.iter().zip(&mut given.counts) {
        *counted = counts::get(*count);
    }
    for worker in &mut inner.workers.all {
        given.queues.push(HandoverQueue {
            stats: stats::snapshot(&worker.shared.stats),
            number: worker.shared.settings.number,
            stalled: worker.shared.stalled.load(Ordering::Relaxed),
            given: worker::give(worker),
            fd: None,
        });
    }
    if let Some(tally) = state::tally(inner) {
        (given.counters, given.logged) = (tally.counters, tally.logged);
    }
}

fn send_fds(
    channel: &HandoverChannel,
    workers: &Workers,
    fds: &[Option<BorrowedFd>; FD_COUNT],
) -> Result<(), Failure> {
    for worker in &workers.all {
        let line = format!("{{\"fd\":\"queue:{}\"}}\n", worker.shared.settings.number);
        handover_channel::send(channel, &line, worker::queue_fd(worker))?;
    }
    for (name, fd) in handover_state::fds().map(handover_state::fd_name).zip(fds) {
        if fd.is_some() {
            handover_channel::send(channel, &format!("{{\"fd\":\"{name}\"}}\n"), *fd)?;
        }
    }
    handover_channel::send(channel, "{\"fd\":null}\n", None)
}

/// Tells all, and waits until the new one has taken it.
fn tell(
    given: &Handover,
    channel: &mut HandoverChannel,
    workers: &Workers,
    fds: &[Option<BorrowedFd>; FD_COUNT],
) -> Result<(), Failure> {
    handover_channel::send(channel, &handover_state::print(given), None)?;
    send_fds(channel, workers, fds)?;
    if !says(handover_channel::line(channel)?, "command", &"taken".into()) {
        return Err(fail_line("new"));
    }
    // The last that can fail: from here on the new one alone filters.
    handover_channel::send(channel, HEARD, None)
}

/// Gives everything to a new process: to be called by the main thread.
/// - client: the connection on which it asked; nothing has been said there.
/// - kind: its backend.
/// - fds: ours, by HandoverFd.
/// - Returns whether the new one runs. Then the workers are stopped and their queues released, and
///   this process has to end without touching what it gave. Otherwise they run as before, and stderr
///   and Count::UpgradesFailed tell why.
/// - Fails if nothing was said.
pub fn give(
    state: &State,
    client: OwnedFd,
    kind: QueueKind,
    fds: [Option<BorrowedFd>; FD_COUNT],
) -> Result<bool, Failure> {
    if !queue_adopt::can_adopt(kind) {
        return Err(fail_classic());
    }
    let mut inner = state::lock(state);
    let loaded = inner.loaded.clone();
    let options = &state.options;
    let mut given = Handover {
        pid: process::id().into(),
        generation: loaded.as_ref().map_or(0, |loaded| loaded.generation),
        side: loaded.as_deref().map(carry::side_make).unwrap_or_default(),
        options: [&options.control, &options.metrics, &options.events].map(Clone::clone),
        ..Handover::default()
    };
    let mut channel = handover_channel::open(client, "new", GIVE_MS);
    let result = pause_workers(&mut inner.workers).and_then(|()| {
        describe(&mut inner, &mut given);
        tell(&given, &mut channel, &inner.workers, &fds)
    });
    match &result {
        Ok(()) => {
            release_queues(&mut inner.workers);
            log::info("upgrade: the new firewall filters, this one ends");
        }
        Err(failure) => {
            start_workers(&mut inner.workers);
            counts::add(Count::UpgradesFailed, 1);
            log::warn(format_args!(
                "upgrade: this firewall goes on: {}",
                failure.text
            ));
        }
    }
    Ok(result.is_ok())
}

/// Connects to the old process.
fn connect_to(path: &str) -> Result<OwnedFd, Failure> {
    let errno = |error: &io::Error| error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw);
    match UnixStream::connect(path) {
        Ok(stream) => Ok(stream.into()),
        Err(error) => Err(failure_set(
            LogExit::Call,
            format_args!(
                "no firewall can be asked at {path}: {}: start without --take-over, or give it the \
                 path of a running firewall's --control",
                log::strerror(errno(&error))
            ),
        )),
    }
}

/// Puts a descriptor to where it belongs by its name. One that is not known is closed.
fn place_fd(taken: &mut Handover, name: &str, fd: OwnedFd) {
    let queue = taken
        .queues
        .iter_mut()
        .find(|queue| format!("queue:{}", queue.number) == name)
        .map(|queue| &mut queue.fd);
    let other = handover_state::fds()
        .zip(&mut taken.fds)
        .find(|(fd, _)| handover_state::fd_name(*fd) == name)
        .map(|(_, place)| place);
    if let Some(place) = queue.or(other) {
        place.get_or_insert(fd);
    }
}

/// Receives descriptors until there are no more.
fn receive_fds(taken: &mut Handover, channel: &mut HandoverChannel) -> Result<(), Failure> {
    loop {
        let line = handover_channel::line(channel)?;
        let object = serde_json::from_slice::<Value>(line).unwrap_or_default();
        match object.get("fd") {
            Some(Value::Null) => return Ok(()),
            Some(Value::String(name)) => {
                let fd = handover_channel::claim(channel).ok_or_else(|| fail_line("old"))?;
                place_fd(taken, name, fd);
            }
            _ => return Err(fail_line("old")),
        }
    }
}

/// Looks whether the queues are those of our options, and whether their sockets came.
fn check_queues(options: &Options, taken: &Handover) -> Result<(), Failure> {
    let mut theirs = taken.queues.iter().map(|queue| queue.number);
    if !theirs.clone().eq(options.queue_first..=options.queue_last) {
        let first = theirs.clone().next().unwrap_or_default();
        let last = theirs.next_back().unwrap_or_default();
        return Err(failure_set(
            LogExit::Usage,
            format_args!(
                "the old firewall has the queues {first}:{last} and not {}:{}: start with --queue \
                 {first}:{last}",
                options.queue_first, options.queue_last
            ),
        ));
    }
    match taken.queues.iter().all(|queue| queue.fd.is_some()) {
        true => Ok(()),
        false => Err(fail_line("old")),
    }
}

/// Closes what another option of ours makes useless.
fn drop_others(options: &Options, taken: &mut Handover) {
    let ours = [&options.control, &options.metrics, &options.events];
    for ((ours, theirs), fd) in ours.into_iter().zip(&taken.options).zip(&mut taken.fds) {
        if ours.is_none() || ours != theirs {
            *fd = None;
        }
    }
}

/// Asks the process at options.take_over, `path`, for everything. Its workers stop; until `taken` it
/// takes them up again when the connection ends. Fails, with everything closed: nobody answers, or a
/// stranger, or one whose queues are others than options says.
pub fn take(path: &str, options: &Options) -> Result<Handover, Failure> {
    if !queue_adopt::can_adopt(options.backend) {
        return Err(fail_classic());
    }
    let mut taken = Handover::default();
    let mut channel = handover_channel::open(connect_to(path)?, "old", TAKE_MS);
    let backend = options::backend_name(options.backend);
    let request =
        format!("{{\"command\":\"upgrade\",\"version\":{VERSION},\"backend\":\"{backend}\"}}\n");
    taken.asked_ns = wait::clock();
    handover_channel::send(&channel, &request, None)?;
    handover_state::parse(handover_channel::line(&mut channel)?, &mut taken)?;
    receive_fds(&mut taken, &mut channel)?;
    check_queues(options, &taken)?;
    drop_others(options, &mut taken);
    taken.channel = Some(channel);
    Ok(taken)
}

/// Tells the old process that the workers run, and waits until it lets go. Fails if the old process
/// goes on, so that this one has to end.
pub fn taken(taken: &mut Handover) -> Result<(), Failure> {
    let waited_us = (wait::clock() - taken.asked_ns) / NS_PER_US;
    let Some(mut channel) = taken.channel.take() else {
        return Err(fail_line("old")); // can't be: take made it
    };
    handover_channel::send(&channel, TAKEN, None)?;
    if !says(handover_channel::line(&mut channel)?, "ok", &true.into()) {
        return Err(fail_line("old"));
    }
    for ((count, _), counted) in counts::ALL.iter().zip(taken.counts) {
        counts::add(*count, counted);
    }
    counts::add(Count::Upgrades, 1);
    log::info(format_args!(
        "upgrade: took over from pid {}, packets waited for {waited_us} microseconds at most",
        taken.pid
    ));
    Ok(())
}
