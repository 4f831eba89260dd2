// SPDX-License-Identifier: GPL-2.0-or-later
//! The old firewall's side of an upgrade (handover). Only the main thread calls these functions; until the new firewall
//! sends "commit", this thread does its other work in between.
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
use crate::control;
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

/// State of an upgrade in the old firewall, from the request to the end of the transfer.
pub struct HandoverGiving {
    channel: HandoverChannel,
    /// Values of --control and --events with absolute paths.
    values: [Option<String>; FD_COUNT],
    rules: HandoverRules,
    /// True if the state, the descriptors and the rules were sent; the rest can only be sent after the workers have
    /// stopped.
    told: bool,
    /// Reserved memory for the states and the sums (handover/counted).
    states: HandoverMemory,
    sums: HandoverMemory,
    /// True if the new firewall requests the workers' connections.
    connections: bool,
    /// True if the new firewall requests the learned addresses.
    learned: bool,
}

/// Returns true if a line is a JSON object that has the given value at the key "command".
fn says(line: &[u8], command: &str) -> bool {
    let object = serde_json::from_slice::<Value>(line);
    object.is_ok_and(|object| object.get("command").and_then(Value::as_str) == Some(command))
}

/// Returns true if a commit command requests connections.
fn wants_connections(line: &[u8]) -> bool {
    let object = serde_json::from_slice::<Value>(line);
    object.is_ok_and(|object| object.get(CONNECTIONS) == Some(&Value::Bool(true)))
}

/// Returns true if a commit command requests the learned addresses.
fn wants_learned(line: &[u8]) -> bool {
    let object = serde_json::from_slice::<Value>(line);
    object.is_ok_and(|object| object.get(LEARNED) == Some(&Value::Bool(true)))
}

fn fail_memory(error: Errno) -> Failure {
    failure_set_running("memfd_create", error)
}

/// Makes this firewall the listener at the control socket again, logs that it continues to filter, with the reason, and
/// counts the failed upgrade.
/// - listener: control socket, at which the new firewall may have listened; None without --control.
pub fn stay(failure: &Failure, listener: Option<BorrowedFd>) {
    if let Some(listener) = listener {
        control::socket::listen_again(listener);
    }
    counts::add(Count::UpgradesFailed, 1);
    log::warn(format_args!(
        "upgrade: this firewall goes on: {}",
        failure.text
    ));
}

/// Returns the numbers of counters, logs, limits and quotas in a policy, indexed by MigrationKind.
fn count_totals(loaded: &Loaded) -> [u32; KIND_COUNT] {
    let compiled = &loaded.compiled;
    let mut totals = [0; KIND_COUNT];
    totals[MigrationKind::Counters as usize] = compile::counters(compiled);
    totals[MigrationKind::Logs as usize] = compile::logs(compiled);
    totals[MigrationKind::Limits as usize] = compiled.limits.len() as u32;
    totals[MigrationKind::Quotas as usize] = compiled.quotas.len() as u32;
    totals
}

/// Returns the largest number of connections that a worker follows.
fn most_followed(workers: &Workers) -> u32 {
    let all = workers.all.iter();
    let followed = all.map(|worker| worker.shared.followed.load(Ordering::Relaxed));
    followed.max().unwrap_or(0)
}

/// Returns the part of the state that is sent before the workers stop.
fn describe(inner: &StateInner) -> Handover {
    let queue = |worker: &worker::Worker| WorkerHandover {
        number: worker.shared.settings.number,
        handover: worker.handover,
        ..WorkerHandover::default()
    };
    let mut described = handover::state::make(inner.workers.all.iter().map(queue).collect());
    described.pid = process::id().into();
    if let Some(loaded) = &inner.loaded {
        described.generation = loaded.generation;
        let names = load::requirement(loaded).names;
        described.connections = names.then(|| most_followed(&inner.workers));
        described.learns = load::requirement(loaded).learns;
        described.side.totals = count_totals(loaded);
    }
    described
}

/// Creates a memory file, and reserves `bytes` bytes in it.
fn make_room(bytes: u64) -> Result<HandoverMemory, Errno> {
    let mut memory = handover::memory::make()?;
    handover::memory::reserve(&mut memory, bytes)?;
    Ok(memory)
}

fn send_fd(channel: &HandoverChannel, name: &str, fd: BorrowedFd) -> Result<(), Failure> {
    handover::channel::send(channel, &format!("{{\"fd\":\"{name}\"}}\n"), Some(fd))
}

/// Sends the state as a line of JSON, and all descriptors: the queues' sockets, those that options opened, and the
/// memory file with the rules. Called before the workers stop.
fn tell(
    state: &State,
    giving: &mut HandoverGiving,
    fds: &[Option<BorrowedFd>; FD_COUNT],
) -> Result<(), Failure> {
    let inner = state::lock(state);
    let mut described = describe(&inner);
    described.options = giving.values.clone();
    let channel = &mut giving.channel;
    let due_ns = handover::channel::due_ns(channel);
    // A client that does not read blocks the main thread for at most PAUSE_MS.
    handover::channel::extend(channel, PAUSE_MS);
    handover::channel::send(channel, &handover::state::print(&described), None)?;
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

/// Begins the transfer to a new process. The policy must stay loaded until `commit`, or until the returned value is
/// dropped.
/// - values: values of --control and --events, as returned by `handover::values`.
/// - client: connection on which the new process requested the upgrade; closed on failure.
/// - kind: backend of the new process.
pub fn prepare(
    state: &State,
    values: &[Option<String>; FD_COUNT],
    client: OwnedFd,
    kind: QueueKind,
) -> Result<HandoverGiving, Failure> {
    if !queue::adopt::can_adopt(kind) {
        return Err(fail_classic());
    }
    let inner = state::lock(state);
    let described = describe(&inner);
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
        values: values.clone(),
        rules,
        told: false,
        states,
        sums,
        connections: false,
        learned: false,
    })
}

/// Returns the descriptor to poll for reading. `go_on` must be called when it is readable, and at `due_ns` at the
/// latest.
pub fn fd(giving: &HandoverGiving) -> BorrowedFd<'_> {
    handover::channel::fd(&giving.channel)
}

/// Returns the time by which `go_on` must be called (wait::clock); 0 = at once.
pub fn due_ns(giving: &HandoverGiving) -> u64 {
    match giving.told {
        true => handover::channel::due_ns(&giving.channel),
        false => 0,
    }
}

/// Does the next step of the preparation. After the last step, checks for "commit", and returns true if the new
/// firewall has sent it. Fails if the new firewall has closed the connection, is late, or sends a line other than
/// "commit".
/// - fds: descriptors of the options, indexed by HandoverFd; None if the option has no descriptor to send.
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

/// Stops the workers between two batches, and prepares their queues for the adoption by the new firewall. Fails if a
/// worker has ended with an error.
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

/// Starts the workers again. If a worker can't be started, the process ends, as after an error of a worker.
fn start_workers(workers: &mut Workers) {
    for worker in &mut workers.all {
        if let Err(failure) = worker::start(worker) {
            log::error(&failure.text);
            let _ = kill(getpid(), Signal::SIGTERM); // a signal to the own process can't fail
        }
    }
}

/// Seals a memory file and sends its descriptor.
/// - name: name that is sent with the descriptor.
/// - written: result of writing the memory.
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

/// Sends a worker's connections.
/// - room: maximum size of the connections, in bytes.
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

/// Sends the connections of all workers, if the new firewall requested them.
fn pass_connections(inner: &mut StateInner, giving: &HandoverGiving) -> Result<(), Failure> {
    let room = handover::connections::BYTES_MAX / inner.workers.all.len().max(1) as u64;
    let workers = inner.workers.all.iter_mut().filter(|_| giving.connections);
    for connections in workers.filter_map(worker::connections) {
        pass_table(&giving.channel, connections, room)?;
    }
    Ok(())
}

/// Sends the addresses that the policy's sets have learned, if the new firewall requested them.
fn pass_learned(inner: &StateInner, giving: &HandoverGiving) -> Result<(), Failure> {
    let Some(loaded) = inner.loaded.as_ref().filter(|_| giving.learned) else {
        return Ok(());
    };
    let mut memory = handover::memory::make().map_err(fail_memory)?;
    let written = handover::learned::write(&mut memory, &loaded.compiled, wait::clock());
    pass_on(&giving.channel, LEARNED, &mut memory, written)
}

/// Stops the workers, sends states, connections, learned addresses and sums, waits for "taken", and confirms it.
fn hand_over(inner: &mut StateInner, giving: &mut HandoverGiving) -> Result<(), Failure> {
    pause_workers(&mut inner.workers)?;
    let states = &mut giving.states;
    let written = handover::counted::write_states(states, inner, wait::clock());
    pass_on(&giving.channel, STATES, states, written)?;
    pass_connections(inner, giving)?;
    pass_learned(inner, giving)?;
    // Meanwhile the new firewall starts its workers.
    let sums = &mut giving.sums;
    let written = handover::counted::write_sums(sums, inner);
    pass_on(&giving.channel, SUMS, sums, written)?;
    if !says(handover::channel::line(&mut giving.channel)?, TAKEN) {
        return Err(fail_line("new"));
    }
    // Last step that can fail: after it only the new firewall filters.
    handover::channel::send(&giving.channel, HEARD, None)
}

/// Transfers everything to the new process, which is ready.
/// - listener: control socket; None without --control.
/// - Returns true if the new process filters. Then the workers are stopped and their queues released, and this process
///   must end without using the descriptors that it sent. Otherwise its workers run again; the log and
///   Count::UpgradesFailed show the failure.
pub fn commit(state: &State, mut giving: HandoverGiving, listener: Option<BorrowedFd>) -> bool {
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
            stay(failure, listener);
        }
    }
    result.is_ok()
}
