// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: poll recvfrom sendto wait4 close
//! Guard (watchdog) of the firewall: a process of its own, so that it also notices a stopped or killed firewall.
//!
//! Theory of operation: the guard is a second process of this program (/proc/self/exe, with `guard` as its first
//! argument). It inherits the netlink sockets of the queues; the kernel accepts verdicts from any process that has the
//! socket. Four times per deadline it reads the kernel's figures of each queue (/proc/net/netfilter/nfnetlink_queue).
//! If packets wait and none was answered for the deadline, it answers the packets that already waited when the deadline
//! began, as --fail stall says, logs a warning, and notifies the firewall over a socket pair. If the firewall closes
//! the socket pair without the command BYE, it has crashed. Then the guard ends as well, and the kernel drops the
//! waiting packets; or, with --fail crash=open, it accepts all packets until SIGTERM, or until another firewall
//! replaces it (`relieve`). Until the first command GO_ON the queues may still belong to another firewall: the guard
//! reads no figures, and does not treat a closed socket as a crash.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{fcntl, FcntlArg, FdFlag};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{kill, Signal};
use nix::sys::socket::{recv, send, socketpair, AddressFamily, MsgFlags, SockFlag, SockType};
use nix::unistd::Pid;

use crate::base::log::{self, failure_set, failure_set_start, Failure, LogExit};
use crate::options;
use crate::options::{Options, OptionsSituation, PROGRAM};
use crate::queue;

/// First argument of the guard's process.
pub const COMMAND: &str = "guard";
/// Name of the guard's process in ps and /proc/PID/comm.
pub const NAME: &str = queue::proc::GUARD;
/// Number of arguments before the queues: program name, COMMAND, deadline in milliseconds, modes of stall, crash and
/// overload, sandbox (on or off), user (empty = the default), log level. Then comes FD:NUMBER for each queue.
pub const ARGUMENTS: usize = 9;
/// First message of a guard that has started. A guard that can't start sends its failure instead.
pub const READY: &[u8] = b"r";
/// Command to the guard: end. Each command is one byte.
pub const BYE: u8 = b'b';
/// Command to the guard: stop watching the queues until GO_ON.
pub const HOLD: u8 = b'h';
/// Command to the guard: watch the queues.
pub const GO_ON: u8 = b'g';

const EXECUTABLE: &str = "/proc/self/exe";
/// Maximum time until the guard is ready, in milliseconds.
const READY_MS: u16 = 5000;
/// Maximum time until a guard that must end is gone, in milliseconds.
const GONE_MS: u16 = 1000;
/// Time between two checks whether a killed guard is gone, in milliseconds.
const STEP_MS: u64 = 5;
/// Maximum size of a message of the guard, in bytes: a failure is the longest.
pub const WORD_BYTES: usize = 1024;

/// Connection of the firewall to its guard, the process that answers packets when the firewall can't.
#[derive(Debug)]
pub struct Guard {
    /// The firewall's end of the socket pair, and the guard's process; None = there is no guard.
    reached: Option<(OwnedFd, Child)>,
}

/// Message of the guard process to the firewall: the guard has answered packets of a queue in the place of the
/// firewall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardNote {
    pub queue: u16,
    /// True if a stall begins, false if a stall continues.
    pub begins: bool,
    /// Number of packets that the guard has answered since its last message about the queue.
    pub packets: u32,
    /// ID of the last packet that the guard answered.
    pub id: u32,
}

/// Returns the bytes of a note, as the guard sends it.
pub fn note_bytes(note: &GuardNote) -> [u8; 12] {
    let [a, b] = note.queue.to_ne_bytes();
    let [c, d, e, f] = note.packets.to_ne_bytes();
    let [g, h, i, j] = note.id.to_ne_bytes();
    [a, b, u8::from(note.begins), 0, c, d, e, f, g, h, i, j]
}

fn note_of(bytes: &[u8]) -> Option<GuardNote> {
    let &[a, b, begins, _, c, d, e, f, g, h, i, j] = bytes else {
        return None;
    };
    Some(GuardNote {
        queue: u16::from_ne_bytes([a, b]),
        begins: begins != 0,
        packets: u32::from_ne_bytes([c, d, e, f]),
        id: u32::from_ne_bytes([g, h, i, j]),
    })
}

/// Returns the bytes of a failure, as the guard sends it.
pub fn failure_bytes(failure: &Failure) -> Vec<u8> {
    let mut bytes = vec![failure.code as u8];
    bytes.extend_from_slice(failure.text.as_bytes());
    bytes.truncate(WORD_BYTES);
    bytes
}

fn failure_of(bytes: &[u8]) -> Option<Failure> {
    use LogExit::{Buffer, Call, Capability, Kernel, Owned, Usage};
    let (code, text) = bytes.split_first()?;
    let codes = [Call, Usage, Capability, Kernel, Owned, Buffer];
    let code = codes.into_iter().find(|known| *known as u8 == *code)?;
    Some(failure_set(code, String::from_utf8_lossy(text)))
}

/// Returns true if the options require a guard process, which answers packets when the firewall can't: a deadline
/// (--deadline), or --fail crash=open.
pub fn wanted(options: &Options) -> bool {
    options.deadline_ms > 0 || options.fail_open[OptionsSituation::Crash as usize]
}

/// Returns the process ID of the guard process that still holds a queue although its firewall has ended; None if
/// the owner of the queue is not a guard process.
/// - number: number of the queue.
fn find_bereaved(number: u16) -> Option<Pid> {
    let figures = queue::proc::figures(number).ok()?;
    // While the firewall runs, it counts as the owner, not its guard.
    let owner = queue::proc::owner(figures.portid).ok()?;
    (owner.comm == NAME).then(|| Pid::from_raw(owner.pid as i32))
}

/// Ends the guard processes of crashed firewalls that still hold one of this firewall's queues. Must be called before
/// queues are opened and before rights are given up.
pub fn relieve(options: &Options) {
    for number in options.queue_first..=options.queue_last {
        let due = Instant::now() + Duration::from_millis(GONE_MS.into());
        // A search may take longer than the limit; a guard that was found is ended in any case.
        while let Some(guard) = find_bereaved(number) {
            let _ = kill(guard, Signal::SIGKILL); // SIGKILL also ends a stopped guard
            if Instant::now() >= due {
                break;
            }
            thread::sleep(Duration::from_millis(STEP_MS));
        }
    }
}

fn mode_of(options: &Options, situation: OptionsSituation) -> &'static str {
    options::daemon::mode_name(options.fail_open[situation as usize])
}

/// Sets whether a descriptor stays open across exec.
fn keep_open(fd: BorrowedFd, open: bool) -> nix::Result<()> {
    let flags = match open {
        true => FdFlag::empty(),
        false => FdFlag::FD_CLOEXEC,
    };
    fcntl(fd, FcntlArg::F_SETFD(flags)).map(drop)
}

/// Starts the guard: this program again, with one end of the socket pair as its standard input.
fn spawn(
    options: &Options,
    queue_fds: &[BorrowedFd],
    numbers: &[u16],
    end: OwnedFd,
) -> io::Result<Child> {
    let queues = queue_fds
        .iter()
        .zip(numbers)
        .map(|(fd, number)| format!("{}:{number}", fd.as_raw_fd()));
    for fd in queue_fds {
        keep_open(*fd, true)?;
    }
    let child = Command::new(EXECUTABLE)
        .arg0(PROGRAM)
        .arg(COMMAND)
        .arg(options.deadline_ms.to_string())
        .arg(mode_of(options, OptionsSituation::Stall))
        .arg(mode_of(options, OptionsSituation::Crash))
        .arg(mode_of(options, OptionsSituation::Overload))
        .arg(if options.sandbox { "on" } else { "off" })
        .arg(options.user.as_deref().unwrap_or_default())
        .arg(log::level_name(options.log_level))
        .args(queues)
        .stdin(Stdio::from(end))
        .stdout(File::create("/dev/null")?)
        .spawn();
    for fd in queue_fds {
        keep_open(*fd, false)?;
    }
    child
}

/// Waits for a message from the guard, or for the guard's end. Returns false if neither came within `milliseconds`.
fn wait_for(fd: BorrowedFd, milliseconds: u16) -> bool {
    let mut readable = [PollFd::new(fd, PollFlags::POLLIN)];
    poll(&mut readable, PollTimeout::from(milliseconds)) == Ok(1)
}

/// Waits for the guard's first message, at most READY_MS. Fails if the guard is not ready; then the guard has been
/// ended.
fn await_ready(fd: &OwnedFd, child: &mut Child) -> Result<(), Failure> {
    let mut word = [0; WORD_BYTES];
    let mut got = 0;
    if wait_for(fd.as_fd(), READY_MS) {
        got = recv(fd.as_raw_fd(), &mut word, MsgFlags::MSG_DONTWAIT).unwrap_or(0);
    }
    let told = word.get(..got).unwrap_or_default();
    if told == READY {
        return Ok(());
    }
    // kill and wait may fail: the guard may have ended already.
    let _ = child.kill();
    let _ = child.wait();
    Err(failure_of(told).unwrap_or_else(|| {
        failure_set(
            LogExit::Call,
            "the guard did not start: see the system's log, or do without it (--deadline 0 and \
             --fail crash=closed)",
        )
    }))
}

/// Starts the guard process, if `wanted`. Must be called before threads are started and rights are given up. The guard
/// is paused until `hold` is called with false.
/// - queue_fds: netlink sockets of the queues `numbers`.
pub fn start(
    options: &Options,
    queue_fds: &[BorrowedFd],
    numbers: &[u16],
) -> Result<Guard, Failure> {
    if !wanted(options) {
        return Ok(Guard { reached: None });
    }
    let (fd, end) = socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )
    .map_err(|error| failure_set_start("socketpair", error))?;
    let mut child = spawn(options, queue_fds, numbers, end).map_err(|error| {
        let error = Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EIO as i32));
        failure_set_start("posix_spawn", error)
    })?;
    await_ready(&fd, &mut child)?;
    Ok(Guard {
        reached: Some((fd, child)),
    })
}

/// Returns the descriptor to poll for reading, if there is a guard.
pub fn fd(guard: &Guard) -> Option<BorrowedFd<'_>> {
    guard.reached.as_ref().map(|(fd, _)| fd.as_fd())
}

/// Receives the guard's next message without waiting; None if no message is available. If the guard has ended by
/// itself, logs one warning, and `fd` returns None from then on.
pub fn read(guard: &mut Guard) -> Option<GuardNote> {
    let (fd, child) = guard.reached.as_mut()?;
    let mut word = [0; WORD_BYTES];
    match recv(fd.as_raw_fd(), &mut word, MsgFlags::MSG_DONTWAIT) {
        Ok(got) if got > 0 => return note_of(word.get(..got)?),
        Err(Errno::EAGAIN | Errno::EINTR) => return None,
        _ => {}
    }
    let pid = child.id();
    let _ = child.wait(); // can't fail: only this process waits for the guard
    log::warn(format_args!(
        "the guard (pid {pid}) has ended: from now on a stall is waited for, and a crash left to the \
         rules: start the firewall again"
    ));
    guard.reached = None;
    None
}

/// Sends a command to the guard without waiting. A stopped guard reads it later.
/// - word: BYE, HOLD or GO_ON.
fn say(fd: BorrowedFd, word: u8) {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let _ = send(fd.as_raw_fd(), &[word], flags);
}

/// Pauses the guard if `hold` is true; otherwise resumes it. The guard is paused while no firewall answers, because the
/// queues are being handed over.
pub fn hold(guard: &Guard, hold: bool) {
    if let Some((fd, _)) = &guard.reached {
        say(fd.as_fd(), if hold { HOLD } else { GO_ON });
    }
}

/// Sends the command to end, and waits until the guard has ended, or has sent no message for GONE_MS. Must be called
/// before the firewall ends normally, or after another firewall has taken over.
pub fn end(guard: &mut Guard) {
    let Some((fd, mut child)) = guard.reached.take() else {
        return;
    };
    let mut word = [0; WORD_BYTES];
    say(fd.as_fd(), BYE);
    while wait_for(fd.as_fd(), GONE_MS) {
        if recv(fd.as_raw_fd(), &mut word, MsgFlags::MSG_DONTWAIT).unwrap_or(0) == 0 {
            let _ = child.wait(); // can't fail: only this process waits for the guard
            return;
        }
    }
}
