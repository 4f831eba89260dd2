// SPDX-License-Identifier: GPL-2.0-or-later
//! The control socket (docs/CONTROL.md), served within the main thread's poll loop.
//!
//! Theory of operation: the main loop asks for the descriptors to poll and for the timeout, polls,
//! and passes the result back. Nothing here waits for a client. A client has one buffer for its requests
//! and at most one answer; until it has read the answer, nothing more is received from it. So the
//! limit CLIENTS_MAX bounds the memory, and a client that sends too much or reads too little delays
//! only itself.
// seccomp: accept4 getuid ioctl

use std::io::ErrorKind;
use std::iter;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::libc::uid_t;
use nix::poll::PollFlags;
use nix::sys::socket::{send, MsgFlags};
use nix::unistd::getuid;

use crate::base::counts::{self, Count};
use crate::base::log::{self, failure_set, failure_set_running, Failure, LogExit};
use crate::control;
use crate::control::client::{ControlClient, ControlLine};
use crate::control::process::ControlSelf;
use crate::control::proof::{ControlProof, Proof};
use crate::control::request::{ControlCommand, ControlRequest};
use crate::control::socket::ControlSocket;
use crate::options::{self, Options};
use crate::state::reload::ReloadResult;
use crate::state::snapshot::Snapshot;
use crate::worker::wait;
use crate::worker::workers::Listing;

/// Maximum number of clients at a time.
pub const CLIENTS_MAX: usize = 16;
/// Maximum number of clients of all users other than root.
pub const OTHERS_MAX: usize = 12;
/// Maximum number of clients of one user other than root.
pub const USER_MAX: usize = 8;

const NS_PER_MS: u64 = 1000 * 1000;
/// Time without accepting clients after the system had no more file descriptors or memory, in
/// milliseconds.
const PAUSE_MS: u64 = 1000;

/// Actions that requests trigger, supplied by the daemon; `serve` calls them.
pub trait ControlActions {
    /// Returns a snapshot of the running firewall (snapshot::take).
    fn snapshot(&mut self, with_rules: bool) -> Snapshot;
    /// Returns the ledger as a line of JSON, as report::ledger makes it with --json, with
    /// "reason":"control".
    fn stats(&mut self) -> String;
    /// Returns a page of the connection listing (workers::list). Fails if the position's worker
    /// does not exist or does not answer.
    /// - from: position at which the page begins.
    /// - undecided: true for only the connections whose names are undecided.
    fn connections(&mut self, from: u64, undecided: bool) -> Result<Listing, Errno>;
    /// Reloads the policy (reload::reload).
    fn reload(&mut self) -> Result<ReloadResult, Failure>;
    /// Ends the process like SIGTERM, as soon as no packet waits, or after `seconds`. Returns at
    /// once.
    fn drain(&mut self, seconds: u32);
    /// Begins an upgrade: the hand-over to the process at the other end of the connection `client`.
    /// The request `upgrade` has no answer yet. The main loop continues the hand-over. The control
    /// socket keeps its own descriptor of the connection only if this fails.
    /// - backend: name of the new firewall's packet backend.
    fn upgrade(&mut self, client: OwnedFd, backend: &str) -> Result<(), Failure>;
    /// Adds a client to the receivers of events. The first line that it receives is {"ok":true}.
    /// Fails with EBUSY if there are too many receivers.
    /// - verdicts: wanted packets, by the bits 1 << Verdict.
    /// - packets: true if the events include the packets' bytes.
    fn tail(&mut self, client: OwnedFd, verdicts: u32, packets: bool) -> Result<(), Errno>;
}

pub struct Control {
    socket: ControlSocket,
    own: ControlSelf,
    proof: ControlProof,
    /// Number of clients accepted so far; it becomes the number of the newest client's connection.
    connections: u64,
    /// Time until which no client is accepted (monotonic, in milliseconds).
    paused_ms: u64,
    clients: Vec<ControlClient>,
}

fn now_ms() -> u64 {
    wait::clock() / NS_PER_MS
}

/// Opens the socket at `path` (options.control). A new socket's file has its mode and owner before a
/// client can connect. Must be called before the program drops its privileges and starts threads.
/// - listener: listening socket of options.control that was taken over from another process.
pub fn open(path: &str, options: &Options, listener: Option<OwnedFd>) -> Result<Control, Failure> {
    let own = control::process::read();
    let proof = control::proof::open()?;
    let socket = control::socket::open(path, options, listener)?;
    Ok(Control {
        socket,
        own,
        proof,
        connections: 0,
        paused_ms: 0,
        clients: Vec::with_capacity(CLIENTS_MAX),
    })
}

/// Returns the descriptors to poll with their events; at most 1 + CLIENTS_MAX.
pub fn poll(control: &Control) -> Vec<(BorrowedFd<'_>, PollFlags)> {
    let accepting = match now_ms() < control.paused_ms {
        true => PollFlags::empty(),
        false => PollFlags::POLLIN,
    };
    let clients = control.clients.iter();
    let clients =
        clients.map(|client| (control::client::fd(client), control::client::events(client)));
    [(listener(control), accepting)]
        .into_iter()
        .chain(clients)
        .collect()
}

/// Returns the maximum time that the main loop may sleep, in milliseconds; None: no limit.
pub fn timeout(control: &Control) -> Option<u64> {
    let now = now_ms();
    let paused = (now < control.paused_ms).then(|| control.paused_ms - now);
    let clients = control.clients.iter();
    let clients = clients.filter_map(|client| control::client::timeout(client, now));
    clients.chain(paused).min()
}

/// Sends the reason to a client that is not served, as far as possible without blocking, and closes
/// the connection.
fn turn_away(fd: OwnedFd, text: &str) {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let answer = control::answer::error(text);
    let _ = send(fd.as_raw_fd(), answer.as_bytes(), flags); // a failure doesn't matter: the connection is closed anyway
}

/// Fails if the limit of clients is reached for a user. Some of the CLIENTS_MAX places are reserved
/// for root, so that other users can't lock it out.
fn check_place(control: &Control, uid: uid_t) -> Result<(), Failure> {
    let number = |is_it: &dyn Fn(uid_t) -> bool| {
        let clients = control.clients.iter();
        clients.filter(|client| is_it(client.uid)).count()
    };
    let (max, of) = match uid {
        0 => (CLIENTS_MAX, ""),
        _ if number(&|other| other == uid) >= USER_MAX => (USER_MAX, " of this user"),
        _ if number(&|other| other != 0) >= OTHERS_MAX => (OTHERS_MAX, " of users other than root"),
        _ => (CLIENTS_MAX, ""),
    };
    if max == CLIENTS_MAX && control.clients.len() < CLIENTS_MAX {
        return Ok(());
    }
    Err(failure_set(
        LogExit::Capability,
        format_args!("{max} clients{of} are being served: close one, or try again later"),
    ))
}

/// Adds a client for a new connection, or sends the reason for the refusal and closes the
/// connection.
fn welcome(control: &mut Control, fd: OwnedFd) {
    let peer = control::peer::read(&fd).unwrap_or(control::peer::UNKNOWN);
    if !control::peer::may_ask(&peer, &control.socket.access, getuid().as_raw()) {
        counts::add(Count::ControlRefused, 1);
        let uid = peer.uid;
        let text = format!(
            "user {uid} may not use the control socket: ask as root, or see \
             --control-owner and --control-mode"
        );
        turn_away(fd, &text);
    } else if let Err(failure) = check_place(control, peer.uid) {
        counts::add(Count::ControlTooMany, 1);
        turn_away(fd, &failure.text);
    } else {
        counts::add(Count::ControlClients, 1);
        control.connections += 1;
        let proof = Proof {
            pid: peer.pid,
            number: control.connections,
        };
        let client = control::client::make(fd, peer.uid, proof);
        control.clients.push(client);
    }
}

/// Accepts up to CLIENTS_MAX waiting connections; further connections wait for the next call.
fn accept_clients(control: &mut Control) {
    for _ in 0..CLIENTS_MAX {
        let accepted = control.socket.listener.accept();
        let accepted =
            accepted.and_then(|(stream, _)| stream.set_nonblocking(true).map(|()| stream));
        match accepted {
            Ok(stream) => welcome(control, OwnedFd::from(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => {
                let full = [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::ENOBUFS];
                if Errno::try_from(error).is_ok_and(|error| full.contains(&error)) {
                    // The socket stays readable, so without a pause the loop would spin.
                    control.paused_ms = now_ms() + PAUSE_MS;
                    return;
                }
            }
        }
    }
}

fn answer_status(control: &mut Control, actions: &mut dyn ControlActions) -> String {
    let snapshot = actions.snapshot(false);
    let counts = counts::ALL.map(|(count, _)| counts::get(count));
    control.own.uid = getuid().as_raw();
    control::answer::status(&control.own, &snapshot, log::level(), &counts)
}

fn answer_reload(actions: &mut dyn ControlActions) -> String {
    match actions.reload() {
        Ok(result) => control::answer::reload(&result),
        Err(failure) => control::answer::error(&failure.text),
    }
}

fn answer_connections(actions: &mut dyn ControlActions, request: &ControlRequest) -> String {
    match actions.connections(request.from, request.undecided) {
        Ok(listing) => control::answer::connections(&listing),
        Err(_) => control::answer::error("a queue's worker does not answer: try again later"),
    }
}

fn answer_log(request: &ControlRequest) -> String {
    let was = log::level();
    if let Some(level) = request.level {
        log::set_level(level);
    }
    control::answer::log(log::level(), was)
}

fn answer_drain(actions: &mut dyn ControlActions, request: &ControlRequest) -> String {
    let snapshot = actions.snapshot(false);
    let waiting = snapshot.ledgers.iter().map(|ledger| ledger.waiting).sum();
    actions.drain(request.seconds);
    control::answer::drain(request.seconds, waiting)
}

/// Duplicates the descriptor of a client's connection for another owner. The client's own
/// descriptor stays open.
fn second(client: &ControlClient) -> Result<OwnedFd, Errno> {
    let fd = control::client::fd(client).try_clone_to_owned();
    fd.map_err(|error| Errno::try_from(error).unwrap_or(Errno::EIO))
}

/// Adds a client's connection to the receivers of events. Returns the error answer if that failed.
fn hand_to_tail(
    actions: &mut dyn ControlActions,
    client: &mut ControlClient,
    request: &ControlRequest,
) -> Option<String> {
    let taken = second(client).and_then(|fd| actions.tail(fd, request.verdicts, request.packets));
    let error = taken.err()?;
    client.closing = true;
    Some(match error {
        Errno::EBUSY => control::answer::error(
            "too many clients follow the events: close one, or try again later",
        ),
        error => control::answer::error(&failure_set_running("tail", error).text),
    })
}

/// Fails if a client is not allowed to take over the firewall.
fn check_taker(control: &mut Control, client: &ControlClient) -> Result<(), Failure> {
    let (uid, pid) = (client.uid, client.proof.pid);
    if !control::peer::may_take_over(uid, getuid().as_raw()) {
        return Err(failure_set(
            LogExit::Capability,
            format_args!(
                "user {uid} may not take over: start the new firewall as root or as this \
                 firewall's user; being in the socket's group is not enough"
            ),
        ));
    }
    if !control::proof::has_come(&mut control.proof, client.proof) {
        return Err(failure_set(
            LogExit::Capability,
            format_args!(
                "pid {pid} has not shown CAP_NET_ADMIN: start a firewall with --take-over, which does"
            ),
        ));
    }
    Ok(())
}

/// Begins an upgrade with the client's connection. Returns the error answer if that failed.
fn hand_to_upgrade(
    control: &mut Control,
    actions: &mut dyn ControlActions,
    client: &mut ControlClient,
    request: &ControlRequest,
) -> Option<String> {
    if let Err(failure) = check_taker(control, client) {
        counts::add(Count::ControlRefused, 1);
        return Some(control::answer::error(&failure.text));
    }
    let backend = options::backend_name(request.backend);
    let fd = second(client).map_err(|error| failure_set_running("fcntl", error));
    match fd.and_then(|fd| actions.upgrade(fd, backend)) {
        Ok(()) => None,
        Err(failure) => Some(control::answer::error(&failure.text)),
    }
}

/// Executes a request. Returns the answer; None if the client's connection has another owner now.
fn answer(
    control: &mut Control,
    actions: &mut dyn ControlActions,
    client: &mut ControlClient,
    request: &ControlRequest,
) -> Option<String> {
    match request.command {
        ControlCommand::Status => Some(answer_status(control, actions)),
        ControlCommand::Stats => Some(control::answer::stats(&actions.stats())),
        ControlCommand::Rules => Some(control::answer::rules(&actions.snapshot(true))),
        ControlCommand::Reload => Some(answer_reload(actions)),
        ControlCommand::Log => Some(answer_log(request)),
        ControlCommand::Drain => Some(answer_drain(actions, request)),
        ControlCommand::Tail => hand_to_tail(actions, client, request),
        ControlCommand::Proof => Some(control::answer::proof(
            control.proof.port,
            client.proof.number,
        )),
        ControlCommand::Connections => Some(answer_connections(actions, request)),
        ControlCommand::Upgrade => hand_to_upgrade(control, actions, client, request),
    }
}

fn answer_line(
    control: &mut Control,
    actions: &mut dyn ControlActions,
    client: &mut ControlClient,
    line: &[u8],
) -> Option<String> {
    match control::request::parse(line) {
        Ok(request) => {
            counts::add(Count::ControlRequests, 1);
            answer(control, actions, client, &request)
        }
        Err(failure) => {
            counts::add(Count::ControlBad, 1);
            Some(control::answer::error(&failure.text))
        }
    }
}

/// Serves the first request in a client's buffer. The client must have received its last answer
/// completely. Returns true if the client stays.
fn serve_line(
    control: &mut Control,
    actions: &mut dyn ControlActions,
    client: &mut ControlClient,
) -> bool {
    let reply = match control::client::line(client) {
        ControlLine::None => return !client.ended,
        ControlLine::Cut => {
            counts::add(Count::ControlBad, 1);
            return false;
        }
        ControlLine::TooLong => {
            counts::add(Count::ControlBad, 1);
            client.closing = true;
            let text = "the line has more than 65536 bytes: send a shorter one";
            Some(control::answer::error(text))
        }
        ControlLine::Whole(line) => answer_line(control, actions, client, &line),
    };
    let Some(reply) = reply else {
        return false;
    };
    control::client::answer(client, reply, now_ms());
    true
}

/// Serves a client: at most one request, so that clients take turns. Returns true if the client
/// stays.
fn serve_client(
    control: &mut Control,
    actions: &mut dyn ControlActions,
    client: &mut ControlClient,
    ready: PollFlags,
) -> bool {
    let readable = PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR;
    if ready.intersects(readable) && control::client::receive(client).is_err() {
        return false;
    }
    if !control::client::is_answered(client) && !serve_line(control, actions, client) {
        return false;
    }
    let result = control::client::send_answer(client, now_ms());
    if result == Err(Errno::ETIMEDOUT) {
        counts::add(Count::ControlSlow, 1);
    }
    result.is_ok() && (control::client::is_answered(client) || !client.closing)
}

/// Serves all clients without waiting for them, and accepts new clients. Called after every poll,
/// also after a timeout.
/// - ready: events that poll returned, in the order of the descriptors from `poll`.
pub fn serve(control: &mut Control, ready: &[PollFlags], actions: &mut dyn ControlActions) {
    let of_clients = ready.iter().skip(1).copied();
    let of_clients = of_clients.chain(iter::repeat(PollFlags::empty()));
    let clients = mem::take(&mut control.clients);
    for (mut client, ready) in clients.into_iter().zip(of_clients) {
        if serve_client(control, actions, &mut client, ready) {
            control.clients.push(client);
        }
    }
    let knocks = ready.first();
    if knocks.is_some_and(|ready| ready.contains(PollFlags::POLLIN)) {
        accept_clients(control);
    }
}

/// Returns the listening socket, for the hand-over.
pub fn listener(control: &Control) -> BorrowedFd<'_> {
    control.socket.listener.as_fd()
}

/// Closes the socket and its clients.
/// - unlink: removes the socket's file, if it still belongs to this socket and the process still
///   has the rights.
pub fn close(control: Control, unlink: bool) {
    control::socket::close(control.socket, unlink);
}
