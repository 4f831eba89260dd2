// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp-guard: poll recvfrom recvmmsg sendto close
//! Main program of the guard's process.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::prctl::set_name;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{recv, send, MsgFlags};
use nix::unistd::{getpid, getppid, Pid};
use sys_bindings::{NF_ACCEPT, NF_DROP};

use crate::base::log::{self, failure_set_start, Failure, LogExit};
use crate::guard::watch::{GuardWatch, LOOKS};
use crate::guard::{self, GuardNote, ARGUMENTS, COMMAND, NAME, READY};
use crate::options;
use crate::options::arguments;
use crate::options::values;
use crate::packet::verdict::{VerdictBatch, VerdictRun};
use crate::privilege;
use crate::queue::proc::QueueFigures;
use crate::queue::{
    self, Queue, QueueKind, QueuePacket, QueueParsed, QueueReceived, QueueSettings,
};
use crate::worker::wait;

/// Maximum number of messages per receive call.
const BATCH: u32 = 64;
/// Number of bytes that are received of a message: enough for its ID.
const SLOT_BYTES: usize = 64;
const NS_PER_MS: u64 = 1_000_000;

/// A queue that the guard watches.
struct Watched {
    queue: Queue,
    watch: GuardWatch,
    /// Message about answered packets that was not sent to the firewall yet; its `packets` is 0 if there is no such
    /// message.
    untold: GuardNote,
    /// True if a stall has begun that is not logged yet.
    unsaid: bool,
}

struct Guarding {
    /// Deadline in milliseconds; 0 = only crashes are detected.
    deadline_ms: u64,
    /// True if the queues' counters in /proc can be read; without them stalls are not detected.
    figures: bool,
    stall_open: bool,
    crash_open: bool,
    /// True if the guard must check whether the first message in each queue's socket stays the same (`--fail
    /// overload=open`, see guard::watch).
    peeks: bool,
    sandbox: bool,
    /// User to change to; None = the default.
    user: Option<String>,
    firewall: Pid,
    all: Vec<Watched>,
    batch: Box<VerdictBatch>,
}

/// Sends a verdict for all packets of a queue up to an ID.
/// - accept: true to accept, false to drop them.
fn send_verdict(
    queue: &mut Queue,
    batch: &mut VerdictBatch,
    id: u32,
    accept: bool,
) -> Result<(), Errno> {
    batch.count = 1;
    batch.sent = 0;
    batch.runs[0] = VerdictRun {
        kernel: if accept { NF_ACCEPT } else { NF_DROP },
        last_id: id,
        count: 2, // more than one, so that a batch verdict is sent
        ..VerdictRun::default()
    };
    queue::verdict(queue, batch)
}

/// Returns the packet ID of the first message in a queue's socket, without removing the message; None if there is no
/// message with an ID.
fn peek(queue: &Queue) -> Option<u32> {
    let mut bytes = [0; SLOT_BYTES];
    let mut packet = QueuePacket::default();
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    let got = recv(queue::fd(queue).ok()?.as_raw_fd(), &mut bytes, flags).ok()?;
    match queue::truncated(bytes.get(..got)?, &mut packet) {
        QueueParsed::Packet => Some(packet.id),
        _ => None,
    }
}

/// Sends a note to the firewall and clears it; does nothing if its `packets` is 0. A note that can't be sent now stays,
/// and is sent at the next reading of the counters.
fn tell(note: &mut GuardNote) {
    if note.packets > 0
        && send(
            libc::STDIN_FILENO,
            &guard::note_bytes(note),
            MsgFlags::MSG_DONTWAIT,
        )
        .is_ok()
    {
        *note = GuardNote {
            queue: note.queue,
            ..GuardNote::default()
        };
    }
}

/// Sends a verdict for all packets of a queue up to the ID `id`. Adds the number of packets that the guard answered to
/// the note for the firewall.
/// - before: the queue's counters before the verdict.
/// - accept: true to accept, false to drop the packets.
fn settle(
    watched: &mut Watched,
    batch: &mut VerdictBatch,
    before: &QueueFigures,
    id: u32,
    accept: bool,
) {
    if send_verdict(&mut watched.queue, batch, id, accept).is_err() {
        return;
    }
    let Ok(after) = queue::proc::figures(watched.queue.settings.number) else {
        return;
    };
    let (packets, begins) = guard::watch::settled(&mut watched.watch, before, &after);
    watched.untold.packets = watched.untold.packets.wrapping_add(packets);
    watched.untold.begins |= begins;
    watched.unsaid |= begins;
    watched.untold.id = id;
}

/// Logs the start of a stall if it is not logged yet, because the firewall may never log again. If stderr is full, the
/// start is logged at the next reading of the counters.
/// - accept: true if the guard accepts the waiting packets, false if it drops them.
fn say(watched: &mut Watched, deadline_ms: u64, accept: bool) {
    let stderr = std::io::stderr();
    let mut writable = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    if !watched.unsaid || poll(&mut writable, PollTimeout::ZERO) != Ok(1) {
        return;
    }
    watched.unsaid = false;
    log::warn(format_args!(
        "queue {}: no packet got its verdict for {deadline_ms} ms: the guard has begun to {} waiting packets",
        watched.queue.settings.number,
        if accept { "accept" } else { "drop" }
    ));
}

fn look(guarding: &mut Guarding) {
    for watched in &mut guarding.all {
        let head = match guarding.peeks {
            true => peek(&watched.queue),
            false => None,
        };
        if let Ok(figures) = queue::proc::figures(watched.queue.settings.number) {
            if let Some(id) = guard::watch::look(&mut watched.watch, &figures, head) {
                let accept = guarding.stall_open;
                settle(watched, &mut guarding.batch, &figures, id, accept);
            }
        }
        tell(&mut watched.untold);
        say(watched, guarding.deadline_ms, guarding.stall_open);
    }
}

fn forget(guarding: &mut Guarding) {
    for watched in &mut guarding.all {
        guard::watch::forget(&mut watched.watch);
    }
}

/// Result of waiting for the firewall: the time has passed (Nothing), the firewall has sent a command (Says), or it has
/// closed the socket pair (HangsUp).
enum Word {
    Nothing,
    Says(u8),
    HangsUp,
}

/// Waits for a command of the firewall until due_ns (wait::clock); u64::MAX = without a time limit.
fn listen_until(due_ns: u64) -> Word {
    let stdin = std::io::stdin();
    loop {
        let left_ns = due_ns.saturating_sub(wait::clock());
        let timeout = match due_ns {
            u64::MAX => PollTimeout::NONE,
            _ if left_ns == 0 => PollTimeout::ZERO,
            _ => PollTimeout::try_from(left_ns / NS_PER_MS + 1).unwrap_or(PollTimeout::MAX),
        };
        let mut firewall = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        match poll(&mut firewall, timeout) {
            Ok(0) => return Word::Nothing,
            Ok(_) => {
                let mut word = [0];
                let got = recv(libc::STDIN_FILENO, &mut word, MsgFlags::MSG_DONTWAIT);
                return match got {
                    Ok(1) => Word::Says(word[0]),
                    _ => Word::HangsUp,
                };
            }
            Err(_) => {} // a signal interrupted the call
        }
    }
}

/// Watches the queues until the firewall sends BYE or closes the socket pair. Returns false if the firewall crashed: it
/// has closed the socket pair without BYE, after its first GO_ON.
fn watch(guarding: &mut Guarding) -> bool {
    let step_ns = guarding.deadline_ms * NS_PER_MS / LOOKS as u64;
    let looks = step_ns > 0 && guarding.figures;
    let (mut held, mut began) = (true, false);
    let mut due_ns = wait::clock() + step_ns;
    loop {
        let word = listen_until(if looks && !held { due_ns } else { u64::MAX });
        let now_ns = wait::clock();
        match word {
            Word::Says(guard::BYE) => return true,
            Word::HangsUp => return !began,
            // Earlier looks are no longer valid: packets may have been answered in between.
            Word::Says(word) => {
                held = word == guard::HOLD;
                began = began || !held;
                forget(guarding);
            }
            Word::Nothing => {
                if now_ns > due_ns + step_ns * LOOKS as u64 {
                    forget(guarding);
                }
                look(guarding);
            }
        }
        due_ns = now_ns + step_ns;
    }
}

/// Accepts all waiting packets, including those that the firewall had received.
fn accept_waiting(queue: &mut Queue, batch: &mut VerdictBatch) {
    if let Ok(figures) = queue::proc::figures(queue.settings.number) {
        // ignored: the next packets may succeed.
        let _ = send_verdict(queue, batch, figures.offered, true);
    }
}

/// Returns the ID of the last received packet that has an ID; None if no packet has an ID.
fn last_id(queue: &Queue, received: &QueueReceived) -> Option<u32> {
    let packets = queue.packets.get(..received.packets as usize)?;
    let named = packets.iter().rev().find(|packet| !packet.nameless);
    named.map(|packet| packet.id)
}

/// Receives and accepts the packets in a queue's socket.
fn accept_received(queue: &mut Queue, batch: &mut VerdictBatch) {
    while let Ok(received) = queue::receive(queue) {
        if received.messages + received.overruns == 0 {
            return;
        }
        if let Some(id) = last_id(queue, &received) {
            let _ = send_verdict(queue, batch, id, true); // ignored: the next verdict may succeed
        }
        if received.nameless > 0 {
            accept_waiting(queue, batch);
        }
    }
}

/// Accepts all packets of the queues, waiting and new, until a signal ends the process.
fn accept_all(guarding: &mut Guarding) {
    for watched in &mut guarding.all {
        if guarding.figures {
            accept_waiting(&mut watched.queue, &mut guarding.batch);
        }
    }
    log::warn(format_args!(
        "the firewall (pid {}) ended without being told to: with --fail crash=open its guard accepts \
         everything: start it again, or end the guard by SIGTERM to pid {}",
        guarding.firewall,
        getpid()
    ));
    let _ = SigSet::from(Signal::SIGTERM).thread_unblock(); // can't fail with valid arguments
    loop {
        let fds = guarding
            .all
            .iter()
            .filter_map(|watched| queue::fd(&watched.queue).ok());
        let mut sockets: Vec<PollFd> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut sockets, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
        for watched in &mut guarding.all {
            accept_received(&mut watched.queue, &mut guarding.batch);
        }
    }
}

fn unexpected(word: &str) -> Failure {
    values::usage(format!(
        "unexpected argument \"{}\": see --help",
        arguments::quote(word.as_bytes())
    ))
}

/// Parses the argument "FD:NUMBER", and adopts the queue's socket.
#[allow(unsafe_code)]
fn parse_queue(word: &str) -> Result<Watched, Failure> {
    let (fd, number) = word.split_once(':').ok_or_else(|| unexpected(word))?;
    let fd: i32 = fd.parse().map_err(|_| unexpected(word))?;
    let number = number.parse().map_err(|_| unexpected(word))?;
    let mut queue = queue::prepare(&QueueSettings {
        number,
        kind: QueueKind::Raw,
        copy_bytes: 0,
        batch: BATCH,
        slot_bytes: SLOT_BYTES as u64,
        receive_buffer: 0,
        receive_buffer_required: false,
        queue_length: 0,
        gso: false,
        fail_open: false,
        uid_gid: false,
        conntrack: false,
        names: false,
    })?;
    // SAFETY: guard::start left this socket open for this process, and nothing else in it has the number; a number that
    // is no netlink socket fails in adopt.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    queue::raw::adopt(&mut queue, owned)
        .map_err(|error| failure_set_start("getsockname", error))?;
    Ok(Watched {
        queue,
        watch: GuardWatch::default(),
        untold: GuardNote {
            queue: number,
            ..GuardNote::default()
        },
        unsaid: false,
    })
}

/// Sets the log level by its name.
fn set_level(name: &str) {
    if let Some((level, _)) = log::LOG_LEVEL_NAMES.iter().find(|(_, own)| *own == name) {
        log::set_level(*level);
    }
}

/// Parses the arguments that `guard::start` passes.
fn parse_arguments(arguments: &[OsString]) -> Result<Guarding, Failure> {
    let words: Vec<String> = arguments
        .iter()
        .map(|word| String::from_utf8_lossy(word.as_bytes()).into_owned())
        .collect();
    let [_, _, deadline, stall, crash, overload, sandbox, user, level, queues @ ..] =
        words.as_slice()
    else {
        return Err(unexpected(COMMAND));
    };
    const { assert!(ARGUMENTS == 9) };
    let is_open = |mode: &String| mode == options::daemon::mode_name(true);
    if queues.is_empty() {
        return Err(unexpected(COMMAND));
    }
    set_level(level);
    Ok(Guarding {
        deadline_ms: deadline.parse().unwrap_or(0),
        figures: false,
        stall_open: is_open(stall),
        crash_open: is_open(crash),
        peeks: is_open(overload),
        sandbox: sandbox == "on",
        user: Some(user.clone()).filter(|user| !user.is_empty()),
        firewall: getppid(),
        all: queues
            .iter()
            .map(|word| parse_queue(word))
            .collect::<Result<_, _>>()?,
        batch: Box::default(),
    })
}

/// Blocks all signals except SIGSYS, sets the process's name, and gives up its rights.
fn settle_down(guarding: &mut Guarding) -> Result<(), Failure> {
    let mut signals = SigSet::all();
    signals.remove(Signal::SIGSYS);
    let _ = signals.thread_block(); // can't fail with valid arguments
    let name = std::ffi::CString::new(NAME).unwrap_or_default();
    let _ = set_name(&name); // ignored: it changes only the name in ps
    guarding.figures = queue::proc::open().is_ok();
    privilege::drop_guard(guarding.user.as_deref(), guarding.sandbox)
}

/// Sends the failure to the firewall that has started the guard. If a user has started it, prints the failure. Returns
/// the exit code.
fn give_up(failure: &Failure) -> LogExit {
    let told = guard::failure_bytes(failure);
    match send(libc::STDIN_FILENO, &told, MsgFlags::empty()) {
        Ok(_) => failure.code,
        Err(_) => log::fail(failure),
    }
}

/// Main program of the guard, run if the first argument is COMMAND. Returns the exit code.
pub fn run(arguments: &[OsString]) -> LogExit {
    let taken = parse_arguments(arguments)
        .and_then(|mut guarding| settle_down(&mut guarding).map(|()| guarding));
    let mut guarding = match taken {
        Ok(guarding) => guarding,
        Err(failure) => return give_up(&failure),
    };
    // ignored: poll shows a closed socket.
    let _ = send(libc::STDIN_FILENO, READY, MsgFlags::empty());
    if !watch(&mut guarding) && guarding.crash_open {
        accept_all(&mut guarding);
    }
    LogExit::Stopped
}
