// SPDX-License-Identifier: GPL-2.0-or-later
//! The new firewall's side of an upgrade (handover), in the order of its steps: `take`, `prepare`,
//! `commit`, the workers' start, `running`, `taken`.

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
/// This part more connections may come until the old one stops.
const SPARE: u32 = 8;

/// Connects to the old process.
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
                "no firewall can be asked at {path}: {}: start without --take-over, or give it the \
                 path of a running firewall's --control",
                log::strerror(errno(&error))
            ),
        )),
    }
}

/// Stores a descriptor by its name. One that is not known is closed.
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

/// Receives a line that names a descriptor, and what came with it. None: it says that there are no
/// more.
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

/// Receives descriptors until there are no more.
fn receive_fds(channel: &mut HandoverChannel, taken: &mut Handover) -> Result<(), Failure> {
    while let Some((name, fd)) = receive_fd(channel)? {
        place_fd(taken, &name, fd);
    }
    Ok(())
}

/// Checks whether the queues are those of our options, and whether their sockets came.
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

/// Reads the old one's rules.
fn read_rules(taken: &mut Handover) -> Result<(), Failure> {
    let fd = taken.rules.take().ok_or_else(|| fail_line("old"))?;
    let bytes = handover::memory::open(fd, handover::rules::BYTES_MAX)
        .and_then(|sealed| handover::memory::read(&sealed));
    let side = bytes.ok().and_then(|bytes| handover::rules::parse(&bytes));
    taken.side = side.ok_or_else(|| handover::state::fail_part(RULES))?;
    Ok(())
}

/// Closes what another option of ours makes useless.
fn drop_others(options: &Options, taken: &mut Handover) {
    let ours = [&options.control, &options.events];
    for ((ours, theirs), fd) in ours.into_iter().zip(&taken.options).zip(&mut taken.fds) {
        if ours.is_none() || ours != theirs {
            *fd = None;
        }
    }
}

/// Asks, and receives what can be prepared with.
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
    read_rules(taken)
}

/// Asks the process at options.take_over, `path`, for all that can be prepared with. It filters on.
/// Fails, with everything closed: nobody answers, or a stranger, or one whose queues are others than
/// options says.
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

/// Finds the rules of our policy among the old one's.
pub fn prepare(taken: &mut Handover, loaded: &Loaded) {
    taken.migration = migration::pair(&taken.side.rules, &migration::rules(loaded));
    taken.side.rules = Vec::new();
}

/// Receives the descriptor of a memory of this name.
fn receive_named(channel: &mut HandoverChannel, expected: &str) -> Result<OwnedFd, Failure> {
    match receive_fd(channel)? {
        Some((name, fd)) if name == expected => Ok(fd),
        _ => Err(fail_line("old")),
    }
}

/// Receives a memory of this name, which has to have so many bytes, and reads it.
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

/// Reads the connections of the old process' worker. Fails with the part that is not as it should be.
fn read_connections(fd: OwnedFd, worker: &mut Worker) -> Result<ConnectionsTaken, &'static str> {
    let bytes = handover::memory::open(fd, handover::connections::BYTES_MAX)
        .and_then(|sealed| handover::memory::read(&sealed))
        .map_err(|_| "memory")?;
    match worker::connections(worker) {
        Some(ours) => handover::connections::parse(&bytes, ours, wait::clock()),
        None => Ok(ConnectionsTaken::default()), // can't be: commit looked
    }
}

/// Makes the workers' tables ready for so many connections each, and some that come meanwhile.
fn warm(inner: &mut StateInner, connections: u32) {
    for ours in inner.workers.all.iter_mut().filter_map(worker::connections) {
        table::warm(
            &mut ours.table,
            connections.saturating_add(connections / SPARE),
        );
    }
}

/// Has our workers know the connections that the old one's know. If any is not as it should be they know none: each is
/// then unknown, as if it had begun before the firewall.
fn take_connections(taken: &mut Handover, inner: &mut StateInner) -> Result<(), Failure> {
    for worker in &mut inner.workers.all {
        let fd = receive_named(channel_of(taken)?, CONNECTIONS)?;
        if taken.refused.is_some() {
            continue;
        }
        match read_connections(fd, worker) {
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

/// Has the sets of our policy know what those of the old one have learnt. If any of it is not as it should be they know
/// nothing, and learn anew.
fn take_learned(taken: &mut Handover, compiled: &Compiled) -> Result<(), Failure> {
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
    taken.channel.as_mut().ok_or_else(|| fail_line("old")) // can't be: take made it
}

/// Asks the old process to stop, when everything is ready but the workers, and has ours go on where
/// its own ended. Packets wait until they run. Fails with what is wrong with the old one.
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
    // Longer than the old one waits: it may have to wait for another that hangs.
    handover::channel::extend(channel, 2 * PAUSE_MS);
    handover::channel::send(channel, &commit, None)?;
    let read = receive_memory(channel, STATES, bytes)?;
    handover::counted::parse_states(&read, taken).map_err(handover::state::fail_part)?;
    if taken.connections.is_some() {
        take_connections(taken, &mut inner)?;
    }
    if let Some(loaded) = inner.loaded.as_ref().filter(|_| taken.learns) {
        take_learned(taken, &loaded.compiled)?;
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

/// To be called as soon as the workers run: adds what had been counted.
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

/// Says what became of the old one's connections.
fn tell_connections(taken: &Handover) {
    match taken.refused {
        Some(part) => log::warn(format_args!(
            "upgrade: the old firewall's connections have no good \"{part}\": those that go on are unknown to \
             this one"
        )),
        None => log::info(format_args!(
            "upgrade: {} connections go on, {} had no room",
            taken.followed.taken, taken.followed.left_out
        )),
    }
}

/// Says what became of what the old one's sets have learnt.
fn tell_learned(taken: &Handover) {
    match taken.unlearned {
        Some(part) => log::warn(format_args!(
            "upgrade: the old firewall's learnt addresses have no good \"{part}\": this one learns them anew"
        )),
        None => log::info(format_args!(
            "upgrade: {} learnt addresses go on, {} had no room, {} are of other sets",
            taken.learned.taken, taken.learned.left_out, taken.learned.other
        )),
    }
}

/// Notifies the old process that the workers run, and waits until it lets go. Fails if the old process
/// goes on, so that this one has to end.
pub fn taken(taken: &mut Handover) -> Result<(), Failure> {
    let channel = channel_of(taken)?;
    handover::channel::send(channel, &format!("{{\"command\":\"{TAKEN}\"}}\n"), None)?;
    let heard = serde_json::from_slice::<Value>(handover::channel::line(channel)?);
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
