// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: poll recvfrom sendto wait4 close
//! The watchdog: a process of its own, so that it sees the firewall stopped or killed, too.
//!
//! Theory of operation: the guard is this program again (/proc/self/exe, `guard` as its first
//! argument), with the netlink sockets of the queues inherited: the kernel takes verdicts of whoever
//! has the socket. Four times in a deadline it looks at the kernel's figures of each queue. If
//! packets wait, and none was answered for the deadline, it answers those that were there when the
//! deadline began, by --fail stall, warns, and tells the firewall, by a socket pair. When that hangs up
//! without a word of good-bye, the firewall has crashed: the guard ends as well, and the kernel
//! drops what waits; or with --fail crash=open it accepts everything from then on, until SIGTERM, or
//! until another firewall takes its place (`relieve`). Until it is told to go on for the first time
//! the queues may still be another firewall's: then it looks at nothing, and a hang-up is no crash.

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

/// The first argument of the guard's process.
pub const COMMAND: &str = "guard";
/// Its name, as ps and /proc/PID/comm tell it.
pub const NAME: &str = queue::proc::GUARD;
/// The guard's arguments are: the program's name, COMMAND, the deadline in milliseconds, the modes of
/// stall, crash and overload, the sandbox (on or off), the user (empty = the default), the level of
/// what is said on stderr; from here on FD:NUMBER for each queue.
pub const ARGUMENTS: usize = 9;
/// First message of a guard that did not fail.
pub const READY: &[u8] = b"r";
/// Commands to the guard, a byte each.
pub const BYE: u8 = b'b';
/// Look no more, but for a hang-up.
pub const HOLD: u8 = b'h';
pub const GO_ON: u8 = b'g';

const EXECUTABLE: &str = "/proc/self/exe";
/// For the guard to be ready.
const READY_MS: u16 = 5000;
/// For a guard to be gone.
const GONE_MS: u16 = 1000;
/// Between checks whether it is.
const STEP_MS: u64 = 5;
/// Bytes of what the guard says: a failure is the longest.
pub const WORD_BYTES: usize = 1024;

/// In the firewall: how to reach the guard.
#[derive(Debug)]
pub struct Guard {
    /// Our end of the socket pair, and the process; none = there is no guard.
    reached: Option<(OwnedFd, Child)>,
}

/// Message of the guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardNote {
    pub queue: u16,
    /// A stall begins; else one goes on.
    pub begins: bool,
    /// That the guard has just answered.
    pub packets: u32,
    /// The id of the last of them.
    pub id: u32,
}

/// A note as the guard sends it.
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

/// A failure as the guard sends it.
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

/// Whether the options ask for a guard.
pub fn wanted(options: &Options) -> bool {
    options.deadline_ms > 0 || options.fail_open[OptionsSituation::Crash as usize]
}

/// Finds the guard that owns a queue whose firewall is gone.
fn find_bereaved(number: u16) -> Option<Pid> {
    let figures = queue::proc::figures(number).ok()?;
    // A firewall that still runs is found before its guard.
    let owner = queue::proc::owner(figures.portid).ok()?;
    (owner.comm == NAME).then(|| Pid::from_raw(owner.pid as i32))
}

/// Ends the guard of a firewall that is gone, if it still holds one of our queues. To be called
/// before queues are opened, with the rights of the start.
pub fn relieve(options: &Options) {
    for number in options.queue_first..=options.queue_last {
        let due = Instant::now() + Duration::from_millis(GONE_MS.into());
        while let Some(guard) = find_bereaved(number).filter(|_| Instant::now() < due) {
            let _ = kill(guard, Signal::SIGKILL); // also if it is stopped
            thread::sleep(Duration::from_millis(STEP_MS));
        }
    }
}

fn mode_of(options: &Options, situation: OptionsSituation) -> &'static str {
    options::daemon::mode_name(options.fail_open[situation as usize])
}

/// Says whether a descriptor stays open across exec.
fn keep_open(fd: BorrowedFd, open: bool) -> nix::Result<()> {
    let flags = match open {
        true => FdFlag::empty(),
        false => FdFlag::FD_CLOEXEC,
    };
    fcntl(fd, FcntlArg::F_SETFD(flags)).map(drop)
}

/// Starts this program again, with one end of the socket pair as its standard input.
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

/// Waits for a message of the guard, or its end, at most so long. Returns whether there is one.
fn wait_for(fd: BorrowedFd, milliseconds: u16) -> bool {
    let mut readable = [PollFd::new(fd, PollFlags::POLLIN)];
    poll(&mut readable, PollTimeout::from(milliseconds)) == Ok(1)
}

/// Reads the guard's first message. If it is not that it is ready, the guard is gone.
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
    // It may have ended already.
    let _ = child.kill();
    let _ = child.wait();
    Err(failure_of(told).unwrap_or_else(|| {
        failure_set(
            LogExit::Call,
            "the guard did not start: look for what the system says of it, or do without \
             (--deadline 0 and --fail crash=closed)",
        )
    }))
}

/// Starts the guard, if it is wanted. To be called before threads are started and rights are given
/// up. queue_fds: the netlink sockets of the queues `numbers`.
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

/// The descriptor to poll for reading, if there is a guard.
pub fn fd(guard: &Guard) -> Option<BorrowedFd<'_>> {
    guard.reached.as_ref().map(|(fd, _)| fd.as_fd())
}

/// Reads the guard's next message, without waiting; none if there is nothing more. If the guard has ended
/// by itself, this warns, once, and there is no `fd` from then on.
pub fn read(guard: &mut Guard) -> Option<GuardNote> {
    let (fd, child) = guard.reached.as_mut()?;
    let mut word = [0; WORD_BYTES];
    match recv(fd.as_raw_fd(), &mut word, MsgFlags::MSG_DONTWAIT) {
        Ok(got) if got > 0 => return note_of(word.get(..got)?),
        Err(Errno::EAGAIN | Errno::EINTR) => return None,
        _ => {}
    }
    let pid = child.id();
    let _ = child.wait(); // there is nobody else who could
    log::warn(format_args!(
        "the guard (pid {pid}) has ended: from now on a stall is waited for, and a crash left to the \
         rules: start the firewall again"
    ));
    guard.reached = None;
    None
}

/// Says a word. A guard that is stopped reads it later; nobody waits for it.
fn say(fd: BorrowedFd, word: u8) {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let _ = send(fd.as_raw_fd(), &[word], flags);
}

/// Has the guard overlook a stall, or go on: nobody answers while the queues go from one firewall to
/// another.
pub fn hold(guard: &Guard, hold: bool) {
    if let Some((fd, _)) = &guard.reached {
        say(fd.as_fd(), if hold { HOLD } else { GO_ON });
    }
}

/// Asks the guard to end, and waits until it has ended: the firewall ends as it was told to, or
/// another one has taken over.
pub fn end(guard: &mut Guard) {
    let Some((fd, mut child)) = guard.reached.take() else {
        return;
    };
    let mut word = [0; WORD_BYTES];
    say(fd.as_fd(), BYE);
    while wait_for(fd.as_fd(), GONE_MS) {
        if recv(fd.as_raw_fd(), &mut word, MsgFlags::MSG_DONTWAIT).unwrap_or(0) == 0 {
            let _ = child.wait(); // there is nobody else who could
            return;
        }
    }
}
