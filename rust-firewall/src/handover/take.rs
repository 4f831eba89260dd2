// SPDX-License-Identifier: GPL-2.0-or-later
//! The new firewall's side of an upgrade (handover). Its functions are called in this order: `take`, `prepare`,
//! `commit`, start of the workers, `running`, `taken`.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use serde_json::Value;

use crate::base::counts::{self, Count};
use crate::base::log::{self, failure_set, Failure, LogExit};
use crate::connection::{lifetime, table};
use crate::control::request::VERSION;
use crate::engine::compiled::Compiled;
use crate::handover;
use crate::handover::channel::HandoverChannel;
use crate::handover::connections::ConnectionsTaken;
use crate::handover::{
    fail_classic, fail_line, Handover, COMMIT, CONNECTIONS, LEARNED, PAUSE_MS, PREPARE_MS, RULES,
    STATES, SUMS, TAKEN,
};
use crate::options::{self, Options};
use crate::queue;
use crate::ruleset::load::{self, Loaded};
use crate::ruleset::migration;
use crate::state::{self, State, StateInner};
use crate::worker;
use crate::worker::wait;
use crate::worker::Worker;

const NS_PER_US: u64 = 1000;
/// Divisor for the additional connections for which a table's memory is touched: 1/SPARE of the old connections. These
/// may begin before the old firewall stops.
const SPARE: u32 = 8;

/// Returns the inherited connection to the old process, if there is one. Otherwise connects to `path`.
fn connect_to(path: &str) -> Result<OwnedFd, Failure> {
    let errno = |error: &io::Error| error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw);
    if let Some(given) = handover::channel::inherited() {
        return Ok(given);
    }
    match UnixStream::connect(path) {
        Ok(stream) => Ok(stream.into()),
        Err(error) => Err(failure_set(
            LogExit::Call,
            format_args!(
                "no firewall can be reached at {path}: {}: start without --take-over, or give it \
                 the path of a running firewall's --control",
                log::strerror(errno(&error))
            ),
        )),
    }
}

/// Stores a received descriptor in the field for its name. A descriptor with an unknown name, or a second descriptor
/// with the same name, is closed.
fn place_fd(taken: &mut Handover, name: &str, fd: OwnedFd) {
    let queue = taken
        .queues
        .iter_mut()
        .find(|queue| format!("queue:{}", queue.number) == name)
        .map(|queue| &mut queue.fd);
    let other = handover::state::fds()
        .zip(&mut taken.fds)
        .find(|(fd, _)| handover::state::fd_name(*fd) == name)
        .map(|(_, place)| place);
    let rules = Some(&mut taken.rules).filter(|_| name == RULES);
    if let Some(place) = queue.or(other).or(rules) {
        place.get_or_insert(fd);
    }
}

/// Receives a line with the name of a descriptor, and the descriptor. Returns None if the line has no name: it is the
/// last line about descriptors.
fn receive_fd(channel: &mut HandoverChannel) -> Result<Option<(String, OwnedFd)>, Failure> {
    let line = handover::channel::line(channel)?;
    let mut object = serde_json::from_slice::<Value>(line).unwrap_or_default();
    match object.get_mut("fd").map(Value::take) {
        Some(Value::Null) => Ok(None),
        Some(Value::String(name)) => match handover::channel::claim(channel) {
            Some(fd) => Ok(Some((name, fd))),
            None => Err(fail_line("old")),
        },
        _ => Err(fail_line("old")),
    }
}

/// Receives and stores descriptors until the last line about descriptors.
fn receive_fds(channel: &mut HandoverChannel, taken: &mut Handover) -> Result<(), Failure> {
    while let Some((name, fd)) = receive_fd(channel)? {
        place_fd(taken, &name, fd);
    }
    Ok(())
}

/// Checks that the old firewall's queues are those of the options, and that a socket was received for each queue.
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

/// Reads the old policy's rules from the received memory file.
fn decode_rules(taken: &mut Handover) -> Result<(), Failure> {
    let fd = taken.rules.take().ok_or_else(|| fail_line("old"))?;
    let bytes = handover::memory::open(fd, handover::rules::BYTES_MAX)
        .and_then(|sealed| handover::memory::read(&sealed));
    let side = bytes.ok().and_then(|bytes| handover::rules::parse(&bytes));
    taken.side = side.ok_or_else(|| handover::state::fail_part(RULES))?;
    Ok(())
}

/// Closes the received descriptors whose option has another value in this process.
fn drop_others(options: &Options, taken: &mut Handover) {
    let ours = handover::values(options);
    for ((ours, theirs), fd) in ours.iter().zip(&taken.options).zip(&mut taken.fds) {
        if ours.is_none() || ours != theirs {
            *fd = None;
        }
    }
}

/// Proves that this process may take over, requests the upgrade, and receives and checks the old process's state,
/// descriptors and rules.
fn ask(
    options: &Options,
    channel: &mut HandoverChannel,
    taken: &mut Handover,
) -> Result<(), Failure> {
    let backend = options::backend_name(options.backend);
    let request =
        format!("{{\"command\":\"upgrade\",\"version\":{VERSION},\"backend\":\"{backend}\"}}\n");
    handover::proof::give(channel)?;
    handover::channel::send(channel, &request, None)?;
    handover::state::parse(handover::channel::line(channel)?, taken)?;
    receive_fds(channel, taken)?;
    check_queues(options, taken)?;
    decode_rules(taken)
}

/// Requests the upgrade from the process at `path` (--take-over), and receives its state and descriptors. The old
/// process continues to filter. Fails, with everything closed, if no firewall answers, if the old process refuses, or
/// if its queues differ from the options.
pub fn take(path: &str, options: &Options) -> Result<Handover, Failure> {
    if !queue::adopt::can_adopt(options.backend) {
        return Err(fail_classic());
    }
    let mut taken = Handover::default();
    let mut channel = handover::channel::open(connect_to(path)?, "old", PREPARE_MS);
    ask(options, &mut channel, &mut taken)?;
    drop_others(options, &mut taken);
    taken.channel = Some(channel);
    Ok(taken)
}

/// Pairs the rules of the new policy with those of the old policy.
pub fn prepare(taken: &mut Handover, loaded: &Loaded) {
    taken.migration = migration::pair(&taken.side.rules, &migration::rules(loaded));
    taken.side.rules = Vec::new();
}

/// Receives the descriptor of the memory with the name `expected`.
fn receive_named(channel: &mut HandoverChannel, expected: &str) -> Result<OwnedFd, Failure> {
    match receive_fd(channel)? {
        Some((name, fd)) if name == expected => Ok(fd),
        _ => Err(fail_line("old")),
    }
}

/// Receives the memory with the name `expected` and reads it. Fails unless its size is `bytes`.
fn receive_memory(
    channel: &mut HandoverChannel,
    expected: &str,
    bytes: u64,
) -> Result<Vec<u8>, Failure> {
    let fd = receive_named(channel, expected)?;
    let sealed = handover::memory::open(fd, bytes).ok();
    let sealed = sealed.filter(|sealed| sealed.size == bytes);
    let read = sealed.and_then(|sealed| handover::memory::read(&sealed).ok());
    read.ok_or_else(|| handover::state::fail_part(expected))
}

/// Reads the connections of an old worker into a new worker's table. Fails with the name of the invalid part.
fn decode_connections(fd: OwnedFd, worker: &mut Worker) -> Result<ConnectionsTaken, &'static str> {
    let bytes = handover::memory::open(fd, handover::connections::BYTES_MAX)
        .and_then(|sealed| handover::memory::read(&sealed))
        .map_err(|_| "memory")?;
    match worker::connections(worker) {
        Some(ours) => handover::connections::parse(&bytes, ours, wait::clock()),
        // Not reached: commit has checked that the policy reads names.
        None => Ok(ConnectionsTaken::default()),
    }
}

/// Touches the memory of each worker's connection table, so that no page faults occur while packets wait: for
/// `connections` connections, and for 1/SPARE more, which may begin before the old firewall stops.
fn warm(inner: &mut StateInner, connections: u32) {
    for ours in inner.workers.all.iter_mut().filter_map(worker::connections) {
        table::warm(
            &mut ours.table,
            connections.saturating_add(connections / SPARE),
        );
    }
}

/// Receives the old workers' connections into the tables of the new workers. If any connection is invalid, all tables
/// are emptied: existing connections are then unknown, as if they had begun before the firewall.
fn receive_connections(taken: &mut Handover, inner: &mut StateInner) -> Result<(), Failure> {
    for worker in &mut inner.workers.all {
        let fd = receive_named(channel_of(taken)?, CONNECTIONS)?;
        if taken.refused.is_some() {
            continue;
        }
        match decode_connections(fd, worker) {
            Ok(followed) => {
                taken.followed.taken += followed.taken;
                taken.followed.left_out += followed.left_out;
            }
            Err(part) => taken.refused = Some(part),
        }
    }
    if taken.refused.is_some() {
        let workers = inner.workers.all.iter_mut();
        workers
            .filter_map(worker::connections)
            .for_each(lifetime::forget_all);
    }
    Ok(())
}

/// Receives the addresses that the old policy's sets have learned into the new policy's sets. If any address is
/// invalid, the sets are emptied and learn anew.
fn receive_learned(taken: &mut Handover, compiled: &Compiled) -> Result<(), Failure> {
    let fd = receive_named(channel_of(taken)?, LEARNED)?;
    let read = handover::memory::open(fd, handover::learned::BYTES_MAX)
        .and_then(|sealed| handover::memory::read(&sealed));
    let learned = match read {
        Ok(bytes) => handover::learned::parse(&bytes, compiled, wait::clock()),
        Err(_) => Err("memory"),
    };
    match learned {
        Ok(learned) => {
            counts::add(Count::LearnedEvicted, learned.left_out);
            taken.learned = learned;
        }
        Err(part) => taken.unlearned = Some(part),
    }
    Ok(())
}

fn channel_of(taken: &mut Handover) -> Result<&mut HandoverChannel, Failure> {
    taken.channel.as_mut().ok_or_else(|| fail_line("old")) // not reached: take has set it
}

/// Sends "commit" when everything but the workers is ready, and stores the old process's states, connections and
/// addresses. Packets wait until the workers run. Fails if the old process sends no valid states, or does not send
/// everything in time. If any connection is invalid, all connections are discarded; the same holds for addresses.
pub fn commit(taken: &mut Handover, state: &State) -> Result<(), Failure> {
    let bytes = handover::counted::states_bytes(taken);
    let mut inner = state::lock(state);
    let loaded = inner.loaded.as_deref().map(load::requirement);
    let reads_names = loaded.is_some_and(|requirement| requirement.names);
    taken.connections = taken.connections.filter(|_| reads_names);
    taken.learns = taken.learns && loaded.is_some_and(|requirement| requirement.learns);
    if let Some(most) = taken.connections {
        warm(&mut inner, most);
    }
    let connections = match taken.connections {
        Some(_) => ",\"connections\":true",
        None => "",
    };
    let learned = if taken.learns {
        ",\"learned\":true"
    } else {
        ""
    };
    let commit = format!("{{\"command\":\"{COMMIT}\"{connections}{learned}}}\n");
    taken.committed_ns = wait::clock();
    let channel = channel_of(taken)?;
    // The timeout is twice that of the old process, because the old process may itself wait for a third process that
    // hangs.
    handover::channel::extend(channel, 2 * PAUSE_MS);
    handover::channel::send(channel, &commit, None)?;
    let read = receive_memory(channel, STATES, bytes)?;
    handover::counted::parse_states(&read, taken).map_err(handover::state::fail_part)?;
    if taken.connections.is_some() {
        receive_connections(taken, &mut inner)?;
    }
    if let Some(loaded) = inner.loaded.as_ref().filter(|_| taken.learns) {
        receive_learned(taken, &loaded.compiled)?;
    }
    for (worker, queue) in inner.workers.all.iter().zip(&taken.queues) {
        worker::go_on(&worker.shared, &queue.stats, queue.stalled);
    }
    if let Some(loaded) = &inner.loaded {
        let sizes = &taken.side.limit_sizes;
        migration::refill(
            &taken.migration,
            sizes,
            &taken.states,
            loaded,
            wait::clock(),
        );
    }
    Ok(())
}

/// Receives the old process's sums (totals of log and counter statements, handover/counted). They become the initial
/// values of the corresponding statements of the new policy. Must be called immediately after the workers start.
pub fn running(taken: &mut Handover, state: &State) -> Result<(), Failure> {
    taken.waited_ns = wait::clock() - taken.committed_ns;
    let bytes = handover::counted::sums_bytes(taken);
    let read = receive_memory(channel_of(taken)?, SUMS, bytes)?;
    let (counters, logged) = handover::counted::parse_sums(&read, taken);
    if let Some(loaded) = &state::lock(state).loaded {
        migration::end(&taken.migration, &counters, &logged, loaded);
    }
    Ok(())
}

/// Logs the number of transferred connections, or why they were refused.
fn tell_connections(taken: &Handover) {
    match taken.refused {
        Some(part) => log::warn(format_args!(
            "upgrade: the old firewall's connections have an invalid \"{part}\": existing \
             connections are unknown to this firewall"
        )),
        None => log::info(format_args!(
            "upgrade: {} connections were transferred, {} had no room",
            taken.followed.taken, taken.followed.left_out
        )),
    }
}

/// Logs the number of transferred addresses, or why they were refused.
fn tell_learned(taken: &Handover) {
    match taken.unlearned {
        Some(part) => log::warn(format_args!(
            "upgrade: the old firewall's learned addresses have an invalid \"{part}\": this \
             firewall learns them anew"
        )),
        None => log::info(format_args!(
            "upgrade: {} learned addresses were transferred, {} had no room, {} belong to sets \
             that this policy does not have",
            taken.learned.taken, taken.learned.left_out, taken.learned.other
        )),
    }
}

/// Sends "taken" to the old process when the workers run, and waits for its confirmation. Fails if the old process
/// continues to filter; then this process must end.
pub fn taken(taken: &mut Handover) -> Result<(), Failure> {
    let channel = channel_of(taken)?;
    handover::channel::send(channel, &format!("{{\"command\":\"{TAKEN}\"}}\n"), None)?;
    let heard = serde_json::from_slice::<Value>(handover::channel::last_line(channel)?);
    if !heard.is_ok_and(|heard| heard.get("ok") == Some(&Value::Bool(true))) {
        return Err(fail_line("old"));
    }
    for ((count, _), counted) in counts::ALL.iter().zip(taken.counts) {
        counts::add(*count, counted);
    }
    counts::add(Count::Upgrades, 1);
    log::info(format_args!(
        "upgrade: took over from pid {}, packets waited for {} microseconds at most",
        taken.pid,
        taken.waited_ns / NS_PER_US
    ));
    if taken.connections.is_some() {
        tell_connections(taken);
    }
    if taken.learns {
        tell_learned(taken);
    }
    Ok(())
}
