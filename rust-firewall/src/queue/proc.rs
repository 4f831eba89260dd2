// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: openat read pread64 close
// seccomp-guard: pread64
//! Information about a queue from /proc: the kernel's counters, and the process that owns the queue.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

use nix::errno::Errno;
use sys_bindings::NETLINK_NETFILTER;

pub const QUEUES: &str = "/proc/net/netfilter/nfnetlink_queue";
pub const NETLINK: &str = "/proc/net/netlink";
/// Environment variable with the number of an inherited descriptor of the file QUEUES.
pub const GIVEN: &str = "TWINWALL_FIGURES_FD";
/// Name of the guard's process. The guard also holds the netlink socket of the queue's owner.
pub const GUARD: &str = "firewall-guard";

/// Number of bytes that are read from a file by one call.
const READ_STEP_BYTES: usize = 65536;

/// Values of a queue's line in the file QUEUES (seq_show in net/netfilter/nfnetlink_queue.c). All counters have 32 bits
/// and wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueFigures {
    /// Netlink port of the owner.
    pub portid: u32,
    /// Number of packets that were sent to the owner and have no verdict yet (queue_total).
    pub waiting: u32,
    /// Number of packets dropped because the queue was full (queue_dropped); with Linux 6.18 also because the kernel's
    /// table of packets was full.
    pub queue_full: u32,
    /// Number of packets dropped because the owner's socket was full (user_dropped).
    pub user_drop: u32,
    /// ID of the last packet (id_sequence), which is the number of packets that the kernel has tried to send to the
    /// owner.
    pub offered: u32,
}

/// Process that owns a netlink socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueOwner {
    pub pid: u32,
    /// Name of the process; '?' stands for bytes that are not printable.
    pub comm: String,
}

/// Finds a queue's line in the text of the file QUEUES, and returns its values. Skips lines of another format. Fails
/// with ENOENT if the queue is not listed.
pub fn parse_figures(text: &str, number: u16) -> Result<QueueFigures, Errno> {
    text.lines()
        .filter_map(figures_of_line)
        .find(|(queue, _)| *queue == u32::from(number))
        .map(|(_, figures)| figures)
        .ok_or(Errno::ENOENT)
}

/// Parses a line of the file QUEUES. Returns the number and the values of its queue; None if the line has another
/// format.
fn figures_of_line(line: &str) -> Option<(u32, QueueFigures)> {
    let mut fields = line.split_whitespace().map(str::parse::<u32>);
    let mut field = || fields.next()?.ok();
    let queue = field()?;
    let portid = field()?;
    let waiting = field()?;
    let _copy_mode = field()?;
    let _copy_range = field()?;
    let queue_full = field()?;
    let user_drop = field()?;
    let offered = field()?;
    Some((
        queue,
        QueueFigures {
            portid,
            waiting,
            queue_full,
            user_drop,
            offered,
        },
    ))
}

/// Finds the inode of the NETLINK_NETFILTER socket with a netlink port in the text of the file NETLINK. Fails with
/// ENOENT if the socket is not listed.
pub fn parse_inode(text: &str, portid: u32) -> Result<u64, Errno> {
    text.lines()
        .filter_map(socket_of_line)
        .find(|(protocol, port, _)| *protocol == NETLINK_NETFILTER && *port == portid)
        .map(|(_, _, inode)| inode)
        .ok_or(Errno::ENOENT)
}

/// Parses protocol, netlink port and inode in a line of the file NETLINK. Returns None if the line has another format.
fn socket_of_line(line: &str) -> Option<(u32, u32, u64)> {
    // columns: sk, protocol, portid, groups, rmem, wmem, dump, locks, drops, inode
    let mut fields = line.split_whitespace().skip(1);
    let protocol = fields.next()?.parse().ok()?;
    let portid = fields.next()?.parse().ok()?;
    let inode = fields.nth(6)?.parse().ok()?;
    Some((protocol, portid, inode))
}

/// Returns true if a link in /proc/PID/fd (e.g. "socket:\[1234\]") is the socket with this inode.
pub fn is_socket(link: &OsStr, inode: u64) -> bool {
    link == OsStr::new(&format!("socket:[{inode}]"))
}

/// File QUEUES that `open` opened.
static QUEUES_FILE: OnceLock<File> = OnceLock::new();

/// Returns the content of a whole file. Reads at offsets, because other threads may read the same file.
fn read_all(file: &File) -> Result<Vec<u8>, Errno> {
    let mut step = vec![0; READ_STEP_BYTES];
    let mut text = Vec::new();
    loop {
        match file
            .read_at(&mut step, text.len() as u64)
            .map_err(errno_of)?
        {
            0 => return Ok(text),
            got => text.extend_from_slice(step.get(..got).unwrap_or_default()),
        }
    }
}

fn read_text(path: &Path) -> Result<Vec<u8>, Errno> {
    read_all(&File::open(path).map_err(errno_of)?)
}

fn errno_of(error: io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EIO as i32))
}

/// Returns the inherited file whose descriptor is in the environment variable GIVEN; None if there is none, or if it is
/// not the file QUEUES.
fn open_inherited() -> Option<File> {
    let number = env::var(GIVEN).ok()?.parse::<RawFd>().ok();
    let number = number.filter(|number| *number >= 0)?;
    // SAFETY: the descriptor is only duplicated, which fails for a number that is not open.
    let granted = unsafe { BorrowedFd::borrow_raw(number) };
    let own = granted.try_clone_to_owned().ok()?;
    let name = fs::read_link(format!("/proc/self/fd/{}", own.as_raw_fd())).ok()?;
    let is_queues = name.starts_with("/proc") && name.file_name() == Path::new(QUEUES).file_name();
    is_queues.then(|| File::from(own))
}

/// Opens the file QUEUES for the rest of the program's life, because the program may lose the right to open it. Uses
/// the inherited descriptor in the environment variable GIVEN, if there is one.
pub fn open() -> Result<(), Errno> {
    if QUEUES_FILE.get().is_none() {
        let granted = open_inherited().map(Ok);
        let file = granted.unwrap_or_else(|| File::open(QUEUES).map_err(errno_of))?;
        let _ = QUEUES_FILE.set(file); // fails if another thread has opened the same file
    }
    Ok(())
}

/// Reads the kernel's counters of a queue in this network namespace. Fails with ENOENT if the queue is not bound, or
/// with the errno of reading.
pub fn figures(number: u16) -> Result<QueueFigures, Errno> {
    let text = match QUEUES_FILE.get() {
        Some(file) => read_all(file)?,
        None => read_text(Path::new(QUEUES))?,
    };
    parse_figures(&String::from_utf8_lossy(&text), number)
}

/// Returns true if a process has the socket with an inode open; false also if the process's descriptors can't be read.
fn process_has_socket(process: &Path, inode: u64) -> bool {
    let Ok(entries) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    entries
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|link| is_socket(link.as_os_str(), inode))
}

fn read_comm(process: &Path) -> String {
    let Ok(text) = read_text(&process.join("comm")) else {
        return "?".to_owned();
    };
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.iter()
        .map(|byte| {
            if (b' '..=b'~').contains(byte) {
                char::from(*byte)
            } else {
                '?'
            }
        })
        .collect()
}

/// Finds the process that has the socket with an inode open. Prefers any other process to the guard. Fails with ENOENT
/// or the errno of reading.
fn find_process(inode: u64) -> Result<QueueOwner, Errno> {
    let mut found = Err(Errno::ENOENT);
    for entry in fs::read_dir("/proc").map_err(errno_of)?.flatten() {
        let Some(pid) = pid_of(&entry.file_name()) else {
            continue;
        };
        if process_has_socket(&entry.path(), inode) {
            let comm = read_comm(&entry.path());
            let is_guard = comm == GUARD;
            found = Ok(QueueOwner { pid, comm });
            if !is_guard {
                break;
            }
        }
    }
    found
}

/// Parses the name of a folder in /proc as a process ID.
fn pid_of(name: &OsStr) -> Option<u32> {
    let digits = name.as_bytes().iter().all(u8::is_ascii_digit);
    name.to_str().filter(|_| digits)?.parse().ok()
}

/// Finds the process that has the socket with a netlink port open. Prefers any other process to the guard. Fails with
/// ENOENT if the socket is not listed or the process is not visible (another PID namespace, no permission), or with the
/// errno of reading.
pub fn owner(portid: u32) -> Result<QueueOwner, Errno> {
    let text = read_text(Path::new(NETLINK))?;
    find_process(parse_inode(&String::from_utf8_lossy(&text), portid)?)
}
