// SPDX-License-Identifier: GPL-2.0-or-later
//! The old firewall's side of an upgrade (handover). The main thread goes on with what it does until
//! the new one says "commit"; it alone calls what is here.
// seccomp: getpid kill

use std::os::fd::{BorrowedFd, OwnedFd};
use std::process;
use std::sync::atomic::Ordering;

use nix::errno::Errno;
use nix::sys::signal::{kill, Signal};
use nix::unistd::getpid;
use serde_json::Value;

use crate::base::counts::{self, Count};
use crate::base::log::{self, failure_set_running, Failure};
use crate::connection::Connections;
use crate::engine::compile;
use crate::handover;
use crate::handover::channel::HandoverChannel;
use crate::handover::memory::HandoverMemory;
use crate::handover::rules::HandoverRules;
use crate::handover::{
    fail_classic, fail_line, Handover, COMMIT, CONNECTIONS, FD_COUNT, HEARD, LEARNED, PAUSE_MS,
    PREPARE_MS, RULES, STATES, SUMS, TAKEN,
};
use crate::queue;
use crate::queue::QueueKind;
use crate::ruleset::load::{self, Loaded};
use crate::ruleset::migration::{MigrationKind, KIND_COUNT};
use crate::state::{self, State, StateInner};
use crate::worker::wait;
use crate::worker::workers::Workers;
use crate::worker::{self, WorkerHandover};

/// An upgrade that has begun: the new firewall prepares.
pub struct HandoverGiving {
    channel: HandoverChannel,
    rules: HandoverRules,
    /// Whether all has been told that can be told before anything stops.
    told: bool,
    /// Room for what will be written.
    states: HandoverMemory,
    sums: HandoverMemory,
    /// The new one wants to know the connections of the workers.
    connections: bool,
    /// And what sets have learnt.
    learned: bool,
}

/// Whether a line says a command.
fn says(line: &[u8], command: &str) -> bool {
    let object = serde_json::from_slice::<Value>(line);
    object.is_ok_and(|object| object.get("command").and_then(Value::as_str) == Some(command))
}

/// Whether a line that says COMMIT asks for connections.
fn wants_connections(line: &[u8]) -> bool {
    let object = serde_json::from_slice::<Value>(line);
    object.is_ok_and(|object| object.get(CONNECTIONS) == Some(&Value::Bool(true)))
}

/// Whether such a line asks for what sets have learnt.
fn wants_learned(line: &[u8]) -> bool {
    let object = serde_json::from_slice::<Value>(line);
    object.is_ok_and(|object| object.get(LEARNED) == Some(&Value::Bool(true)))
}

fn fail_memory(error: Errno) -> Failure {
    failure_set_running("memfd_create", error)
}

/// Says that this firewall stays, and why.
pub fn stay(failure: &Failure) {
    counts::add(Count::UpgradesFailed, 1);
    log::warn(format_args!(
        "upgrade: this firewall goes on: {}",
        failure.text
    ));
}

/// How many statements of each kind a policy has.
fn count_totals(loaded: &Loaded) -> [u32; KIND_COUNT] {
    let compiled = &loaded.compiled;
    let mut totals = [0; KIND_COUNT];
    totals[MigrationKind::Counters as usize] = compile::counters(compiled);
    totals[MigrationKind::Logs as usize] = compile::logs(compiled);
    totals[MigrationKind::Limits as usize] = compiled.limits.len() as u32;
    totals[MigrationKind::Quotas as usize] = compiled.quotas.len() as u32;
    totals
}

/// How many connections one of the workers knows at most.
fn most_followed(workers: &Workers) -> u32 {
    let all = workers.all.iter();
    let followed = all.map(|worker| worker.shared.followed.load(Ordering::Relaxed));
    followed.max().unwrap_or(0)
}

/// Messages that are sent before anything has stopped.
fn describe(state: &State, inner: &StateInner) -> Handover {
    let options = &state.options;
    let queue = |worker: &worker::Worker| WorkerHandover {
        number: worker.shared.settings.number,
        handover: worker.handover,
        ..WorkerHandover::default()
    };
    let mut described = handover::state::make(inner.workers.all.iter().map(queue).collect());
    described.pid = process::id().into();
    described.options = [&options.control, &options.events].map(Clone::clone);
    if let Some(loaded) = &inner.loaded {
        described.generation = loaded.generation;
        let names = load::requirement(loaded).names;
        described.connections = names.then(|| most_followed(&inner.workers));
        described.learns = load::requirement(loaded).learns;
        described.side.totals = count_totals(loaded);
    }
    described
}

/// Memory with room for so many bytes.
fn make_room(bytes: u64) -> Result<HandoverMemory, Errno> {
    let mut memory = handover::memory::make()?;
    handover::memory::reserve(&mut memory, bytes)?;
    Ok(memory)
}

fn send_fd(channel: &HandoverChannel, name: &str, fd: BorrowedFd) -> Result<(), Failure> {
    handover::channel::send(channel, &format!("{{\"fd\":\"{name}\"}}\n"), Some(fd))
}

/// Sends what is known before anything has stopped.
fn tell(
    state: &State,
    giving: &mut HandoverGiving,
    fds: &[Option<BorrowedFd>; FD_COUNT],
) -> Result<(), Failure> {
    let inner = state::lock(state);
    let channel = &mut giving.channel;
    let due_ns = handover::channel::due_ns(channel);
    // A client that does not read blocks the main thread no longer than in the pause.
    handover::channel::extend(channel, PAUSE_MS);
    handover::channel::send(
        channel,
        &handover::state::print(&describe(state, &inner)),
        None,
    )?;
    for worker in &inner.workers.all {
        let name = format!("queue:{}", worker.shared.settings.number);
        send_fd(channel, &name, worker::queue_fd(worker))?;
    }
    for (name, fd) in handover::state::fds()
        .map(handover::state::fd_name)
        .zip(fds)
    {
        if let Some(fd) = fd {
            send_fd(channel, name, *fd)?;
        }
    }
    send_fd(channel, RULES, handover::memory::fd(&giving.rules.memory))?;
    handover::channel::send(channel, "{\"fd\":null}\n", None)?;
    handover::channel::until(channel, due_ns);
    giving.told = true;
    Ok(())
}

/// Begins to hand over to a new process. The policy must stay until `commit`, or until what is returned
/// is dropped.
/// - client: the connection on which it asked.
/// - kind: its backend.
/// - Fails, with the connection closed for us.
pub fn prepare(state: &State, client: OwnedFd, kind: QueueKind) -> Result<HandoverGiving, Failure> {
    if !queue::adopt::can_adopt(kind) {
        return Err(fail_classic());
    }
    let inner = state::lock(state);
    let described = describe(state, &inner);
    let begin = || {
        let rules = handover::rules::begin(inner.loaded.as_deref())?;
        let states = make_room(handover::counted::states_bytes(&described))?;
        Ok((
            rules,
            states,
            make_room(handover::counted::sums_bytes(&described))?,
        ))
    };
    let (rules, states, sums) = begin().map_err(fail_memory)?;
    Ok(HandoverGiving {
        channel: handover::channel::open(client, "new", PREPARE_MS),
        rules,
        told: false,
        states,
        sums,
        connections: false,
        learned: false,
    })
}

/// Descriptors to poll for reading; there is also something to do by `due_ns`.
pub fn fd(giving: &HandoverGiving) -> BorrowedFd<'_> {
    handover::channel::fd(&giving.channel)
}

/// When `go_on` is to be called at the latest, by wait::clock.
pub fn due_ns(giving: &HandoverGiving) -> u64 {
    match giving.told {
        true => handover::channel::due_ns(&giving.channel),
        false => 0,
    }
}

/// Does a part of what there is to do before the new one can say "commit", or checks whether it has,
/// which is returned. Fails if it is gone, late or no firewall.
/// - fds: ours, by HandoverFd.
pub fn go_on(
    state: &State,
    giving: &mut HandoverGiving,
    fds: &[Option<BorrowedFd>; FD_COUNT],
) -> Result<bool, Failure> {
    if !giving.told {
        let loaded = state::lock(state).loaded.clone();
        let more = handover::rules::write(&mut giving.rules, loaded.as_deref());
        if !more.map_err(fail_memory)? {
            tell(state, giving, fds)?;
        }
        return Ok(false);
    }
    match handover::channel::line_if_any(&mut giving.channel)? {
        Some(line) if says(line, COMMIT) => {
            giving.connections = wants_connections(line);
            giving.learned = wants_learned(line);
            Ok(true)
        }
        Some(_) => Err(fail_line("new")),
        None => Ok(false),
    }
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
    for worker in &mut workers.all {
        worker::give(worker);
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

/// Seals what was written, and passes it on.
fn pass_on(
    channel: &HandoverChannel,
    name: &str,
    memory: &mut HandoverMemory,
    written: Result<(), Errno>,
) -> Result<(), Failure> {
    written
        .and_then(|()| handover::memory::seal(memory))
        .map_err(fail_memory)?;
    send_fd(channel, name, handover::memory::fd(memory))
}

/// Passes on a worker's connections.
fn pass_table(
    channel: &HandoverChannel,
    connections: &mut Connections,
    room: u64,
) -> Result<(), Failure> {
    let mut memory = handover::memory::make().map_err(fail_memory)?;
    let now_ns = wait::clock();
    let written = handover::connections::write(&mut memory, connections, room, now_ns);
    pass_on(channel, CONNECTIONS, &mut memory, written)
}

/// Passes on what the workers know of their connections, if the new one wants to know.
fn pass_connections(inner: &mut StateInner, giving: &HandoverGiving) -> Result<(), Failure> {
    let room = handover::connections::BYTES_MAX / inner.workers.all.len().max(1) as u64;
    let workers = inner.workers.all.iter_mut().filter(|_| giving.connections);
    for connections in workers.filter_map(worker::connections) {
        pass_table(&giving.channel, connections, room)?;
    }
    Ok(())
}

/// Passes on what sets have learnt, if the new one wants to know.
fn pass_learned(inner: &StateInner, giving: &HandoverGiving) -> Result<(), Failure> {
    let Some(loaded) = inner.loaded.as_ref().filter(|_| giving.learned) else {
        return Ok(());
    };
    let mut memory = handover::memory::make().map_err(fail_memory)?;
    let written = handover::learned::write(&mut memory, &loaded.compiled, wait::clock());
    pass_on(&giving.channel, LEARNED, &mut memory, written)
}

/// Passes on what was counted, and waits until the new one has taken it.
fn hand_over(inner: &mut StateInner, giving: &mut HandoverGiving) -> Result<(), Failure> {
    pause_workers(&mut inner.workers)?;
    let states = &mut giving.states;
    let written = handover::counted::write_states(states, inner, wait::clock());
    pass_on(&giving.channel, STATES, states, written)?;
    pass_connections(inner, giving)?;
    pass_learned(inner, giving)?;
    // By now the new one starts its workers.
    let sums = &mut giving.sums;
    let written = handover::counted::write_sums(sums, inner);
    pass_on(&giving.channel, SUMS, sums, written)?;
    if !says(handover::channel::line(&mut giving.channel)?, TAKEN) {
        return Err(fail_line("new"));
    }
    // The last that can fail: from here on the new one alone filters.
    handover::channel::send(&giving.channel, HEARD, None)
}

/// Passes everything to the new process, which is ready.
/// - Returns whether it runs. Then the workers are stopped and their queues released, and this process
///   has to end without touching what it gave. Otherwise they run as before, and stderr and
///   Count::UpgradesFailed tell why.
pub fn commit(state: &State, mut giving: HandoverGiving) -> bool {
    let mut inner = state::lock(state);
    handover::channel::extend(&mut giving.channel, PAUSE_MS);
    let result = hand_over(&mut inner, &mut giving);
    match &result {
        Ok(()) => {
            for worker in &mut inner.workers.all {
                worker::release(worker);
            }
            log::info("upgrade: the new firewall filters, this one ends");
        }
        Err(failure) => {
            start_workers(&mut inner.workers);
            stay(failure);
        }
    }
    result.is_ok()
}
