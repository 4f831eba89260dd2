// SPDX-License-Identifier: GPL-2.0-or-later
//! The stages in the outer pid namespace: its init (`hold`), which creates the inner pid namespace, and the init of the
//! inner pid namespace (`inside`), which enters new user and mount namespaces and runs the command.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use nix::errno::Errno;
use nix::mount::{mount, umount2, MntFlags, MsFlags};
use nix::sched::{unshare, CloneFlags};
use rustix::event::{poll, PollFd, PollFlags};
use rustix::process::{pidfd_open, wait, Pid, PidfdFlags, WaitOptions};

use crate::channel::{receive, send, Inside, Order, Received, Report};
use crate::failure::{words, Failure, NOT_FOUND, NOT_RUN};
use crate::{namespaces, refused, seccomp, sockets, stage};

const RESOLV_CONF: &str = "/etc/resolv.conf";
const MOUNTS: &str = "/proc/self/mountinfo";

fn channel() -> Result<OwnedFd, Failure> {
    io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(Failure::at("the channel of a stage"))
}

/// Runs the init of the outer pid namespace. It ends when fwctl, at the other end of the channel, ends. Then the kernel
/// ends all processes of the cage, even if fwctl was killed.
pub fn hold(command: Vec<OsString>) -> Result<Infallible, Failure> {
    let channel = channel()?;
    let other_end = channel.try_clone().map_err(Failure::at("a stage"))?;
    thread::spawn(move || {
        // Without requested events, poll reports only a hangup.
        let mut polled = [PollFd::new(&other_end, PollFlags::empty())];
        while poll(&mut polled, None).is_err() {}
        std::process::exit(1);
    });
    // A thread that has called this can't start other threads.
    unshare(CloneFlags::CLONE_NEWPID).map_err(refused::namespaces)?;
    let mut inside = stage::command(stage::INSIDE, ["--"]).map_err(Failure::at("a stage"))?;
    inside.args(command).stdin(Stdio::from(channel));
    let mut inside = inside.spawn().map_err(Failure::at("a stage"))?;
    let _ = inside.wait(); // the stage itself reports the command's end
                           // The firewall still has to report its last events.
    loop {
        thread::park();
    }
}

/// Covers `target` by a bind mount of `source`. Does nothing if a path no longer exists.
fn cover(source: &Path, target: &Path) -> Result<(), Failure> {
    match mount(
        Some(source),
        target,
        None::<&str>,
        MsFlags::MS_BIND,
        None::<&str>,
    ) {
        Err(Errno::ENOENT) => Ok(()),
        result => result.map_err(Failure::at(format_args!("covering {}", target.display()))),
    }
}

/// Covers the host's resolv.conf by the cage's. The new file is in a tmpfs that is unmounted afterwards.
fn give_resolver(inside: &Inside) -> Result<(), Failure> {
    let target = fs::canonicalize(RESOLV_CONF).map_err(|error| {
        Failure::new(format_args!(
            "{RESOLV_CONF}: {}: make it, an empty file will do",
            words(&error)
        ))
    })?;
    namespaces::mount_private(&inside.place)?;
    let own = inside.place.join("resolv.conf");
    fs::write(&own, &inside.resolv_conf).map_err(Failure::at(RESOLV_CONF))?;
    fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .map_err(Failure::at(RESOLV_CONF))?;
    cover(&own, &target)?;
    umount2(&inside.place, MntFlags::MNT_DETACH).map_err(Failure::at("unmounting"))
}

/// Mounts a /proc of the inner pid namespace. If the kernel refuses it (in a container whose own /proc is partly
/// covered), the old /proc remains; the command can neither signal nor inspect the processes in it.
fn give_proc() {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let _ = mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>);
}

/// Returns the mount points at and below a folder.
fn mounts_below(folder: &str) -> Result<Vec<PathBuf>, Failure> {
    // The mount point of a covered socket may have any bytes.
    let text = fs::read(MOUNTS).map_err(Failure::at(MOUNTS))?;
    let text = String::from_utf8_lossy(&text);
    let points = text
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(PathBuf::from);
    Ok(points.filter(|point| point.starts_with(folder)).collect())
}

/// Returns true if this process lacks the right to enter a folder of the path. Then the command, which has fewer
/// rights, can't reach the path either.
fn is_out_of_reach(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// Makes the kernel's files through which root could change the machine read-only: /proc/sys, /proc/sysrq-trigger,
/// /sys.
fn protect_kernel() -> Result<(), Failure> {
    for path in ["/proc/sys", "/proc/sysrq-trigger"]
        .map(Path::new)
        .iter()
        .filter(|path| path.exists())
    {
        cover(path, path)?;
    }
    let flags = MsFlags::MS_BIND
        | MsFlags::MS_REMOUNT
        | MsFlags::MS_RDONLY
        | MsFlags::MS_NOSUID
        | MsFlags::MS_NODEV
        | MsFlags::MS_NOEXEC;
    let points = ["/proc/sys", "/proc/sysrq-trigger", "/sys"].map(mounts_below);
    for point in points
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
    {
        match mount(None::<&str>, &point, None::<&str>, flags, None::<&str>) {
            // Mount covered by another mount, without a path to it: /proc/sys/fs/binfmt_misc of the host, by systemd.
            Err(Errno::ENOENT | Errno::EINVAL) if point.parent() != Some(Path::new("/proc")) => {}
            // Mount below a root-only folder of the host (/sys/kernel/debug/tracing), in a container: the command can't
            // reach it.
            Err(Errno::EACCES) if is_out_of_reach(&point) => {}
            result => result.map_err(Failure::at(format_args!(
                "{} to be read only",
                point.display()
            )))?,
        }
    }
    Ok(())
}

/// Reads one of the lists of sockets and folders (COVERED, EMPTIED) in the private folder.
fn list(inside: &Inside, name: &str) -> Result<Vec<PathBuf>, Failure> {
    let paths = sockets::read_list(&inside.place.join(name));
    paths.map_err(Failure::at("the list of sockets"))
}

fn make_mounts(inside: &Inside) -> Result<(), Failure> {
    let covered = list(inside, sockets::COVERED)?;
    let emptied = list(inside, sockets::EMPTIED)?;
    unshare(CloneFlags::CLONE_NEWNS).map_err(refused::namespaces)?;
    umount2(&inside.place, MntFlags::MNT_DETACH).map_err(Failure::at("unmounting"))?;
    give_resolver(inside)?;
    for socket in &covered {
        cover(Path::new("/dev/null"), socket)?;
    }
    for folder in &emptied {
        let options = format!(
            "mode=0700,uid={0},gid={0}",
            if inside.is_root { inside.uid } else { 0 }
        );
        mount(
            Some("cage"),
            folder,
            Some("tmpfs"),
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
            Some(options.as_str()),
        )
        .map_err(Failure::at(format_args!("covering {}", folder.display())))?;
    }
    give_proc();
    if inside.is_root {
        protect_kernel()?;
    }
    Ok(())
}

fn next(channel: &OwnedFd) -> Result<Received<Order>, Failure> {
    let got = receive(channel).map_err(Failure::at("the channel of a stage"))?;
    got.ok_or_else(|| Failure::new("fwctl has ended"))
}

fn tell(channel: &OwnedFd, report: &Report) -> Result<(), Failure> {
    send(channel, report, None).map_err(Failure::at("the channel of a stage"))
}

/// Makes the mounts for the command, enters the inner user and mount namespaces, and applies the system call filters.
/// Root in the inner user namespace has no rights over the outer namespaces. Returns the command's stdin.
fn go_inside(channel: &OwnedFd) -> Result<OwnedFd, Failure> {
    let begin = next(channel)?;
    let (Order::Begin(inside), Some(stdin)) = (begin.message, begin.descriptor) else {
        return Err(Failure::new("a stage got another order than its first"));
    };
    make_mounts(&inside)?;
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
        .map_err(refused::user_namespace)?;
    tell(channel, &Report::Unmapped)?;
    next(channel)?;
    seccomp::apply()?;
    Ok(stdin)
}

fn start(channel: &OwnedFd, command: &[OsString]) -> Result<Pid, Failure> {
    let stdin = go_inside(channel)?;
    next(channel)?; // the order to run
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| Failure::new("no command"))?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(stdin)
        .spawn()
        .map_err(|error| {
            let code = if error.kind() == ErrorKind::NotFound {
                NOT_FOUND
            } else {
                NOT_RUN
            };
            let text = format!("{}: {}", program.to_string_lossy(), words(&error));
            Failure { code, text }
        })?;
    let pid = Pid::from_raw(child.id() as i32)
        .ok_or_else(|| Failure::new("the command has no process"))?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(Failure::at("pidfd_open"))?;
    send(channel, &Report::Started, Some(pidfd.as_fd()))
        .map_err(Failure::at("the channel of a stage"))?;
    Ok(pid)
}

/// Reaps all orphaned processes in this namespace until the command ends. Returns the report of its end.
fn reap(command: Pid) -> Report {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == command => {
                let status = ExitStatus::from_raw(status.as_raw());
                return match (status.code(), status.signal()) {
                    (Some(code), _) => Report::Exited(code),
                    (None, signal) => Report::Signaled(signal.unwrap_or(libc::SIGKILL)),
                };
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Report::Failed(crate::failure::CAGE, format!("wait: {error}")),
        }
    }
}

/// Runs the init of the inner pid namespace until the command ends. Processes that the command leaves end at the same
/// time.
pub fn inside(command: &[OsString]) -> Result<(), Failure> {
    let channel = channel()?;
    let report = match start(&channel, command) {
        Ok(pid) => reap(pid),
        Err(failure) => Report::Failed(failure.code, failure.text),
    };
    let _ = tell(&channel, &report); // fwctl may have failed and reported it
    Ok(())
}
