// SPDX-License-Identifier: GPL-2.0-or-later
//! Network namespaces without a name: they vanish with their last process and file descriptor.
//!
//! Only an open file descriptor holds a namespace. However this process ends, even by SIGKILL, the namespace ends with
//! its rules, links and queues; nothing under /run/netns needs cleaning up.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{bail, Context};
use nix::errno::Errno;
use nix::sched::{setns, unshare, CloneFlags};
use nix::sys::socket::{socket, AddressFamily, SockFlag, SockType};

use crate::proc;
use crate::skip::skip;
use crate::wait::{until, PATIENCE};

/// IPv4 addresses of the two ends that [`Namespace::veth_pair`] makes: (first, second).
pub const VETH_IPV4: (IpAddr, IpAddr) = (
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)),
);
/// IPv6 addresses of the two ends that [`Namespace::veth_pair`] makes: (first, second).
pub const VETH_IPV6: (IpAddr, IpAddr) = (
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2)),
);
/// MTU of a veth pair in bytes: that of Ethernet, so that packets over the pair have realistic sizes.
pub const VETH_MTU: u32 = 1500;

/// A network namespace: a new one, or that in which this process was started.
pub struct Namespace {
    /// Open file of the namespace; None means the namespace in which this process was started, which is not entered.
    file: Option<File>,
}

impl Namespace {
    /// Creates an empty namespace whose loopback interface is up. Fails without CAP_SYS_ADMIN; if TWINWALL_WITHOUT_ROOT
    /// is set (`make check`), the error is a [`Skip`](crate::skip::Skip).
    pub fn new() -> anyhow::Result<Namespace> {
        // unshare(2) moves only the calling thread, so a short-lived thread calls it.
        let file = on_thread(|| -> anyhow::Result<File> {
            match unshare(CloneFlags::CLONE_NEWNET) {
                Err(Errno::EPERM) if std::env::var_os("TWINWALL_WITHOUT_ROOT").is_some() => {
                    return Err(skip("needs a network namespace, and thus root"));
                }
                result => result
                    .context("a network namespace could not be made: run as root or with sudo")?,
            }
            loopback_up().context("the loopback interface of a new namespace did not come up")?;
            File::open("/proc/thread-self/ns/net").context("/proc/thread-self/ns/net")
        })?;
        Ok(Namespace { file: Some(file) })
    }

    /// Returns the namespace in which this process was started.
    pub fn host() -> Namespace {
        Namespace { file: None }
    }

    /// Returns another handle of the same namespace.
    pub fn try_clone(&self) -> io::Result<Namespace> {
        let file = self.file.as_ref().map(File::try_clone).transpose()?;
        Ok(Namespace { file })
    }

    /// Runs `work` on a thread inside the namespace and returns its result. Sockets and files that it opens stay in the
    /// namespace.
    ///
    /// Inside, /proc/net belongs to the *process*: read /proc/thread-self/net instead. A child spawned inside by
    /// [`Namespace::command`] dies with this thread, so spawn it outside.
    ///
    /// # Panics
    /// If `work` panics, or if setns(2) fails, which happens only if the process has dropped CAP_SYS_ADMIN since it
    /// created the namespace.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        on_thread(|| {
            if let Some(file) = &self.file {
                setns(file, CloneFlags::CLONE_NEWNET).expect("setns to a namespace of our own");
            }
            work()
        })
    }

    /// Returns a command whose child starts in the namespace and is killed when the thread that spawned it ends
    /// (PR_SET_PDEATHSIG), so that it never outlives this process.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("PATH", path_with_sbin());
        // The raw number stays valid in the child: the fork copies the descriptor table, and
        // close-on-exec acts after this closure. The duplicate belongs to the closure, so it lives
        // as long as the command.
        let file = self
            .file
            .as_ref()
            .map(|file| file.try_clone().expect("dup of a namespace descriptor"));
        let enter = move || {
            if let Some(file) = &file {
                setns(file, CloneFlags::CLONE_NEWNET)?;
            }
            // SAFETY: PR_SET_PDEATHSIG needs a signal number and touches no memory.
            match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
        unsafe { command.pre_exec(enter) };
        command
    }

    /// Returns the ids of the processes whose first thread is in the namespace, without zombies.
    pub fn processes(&self) -> anyhow::Result<Vec<u32>> {
        let own = fs::metadata(self.path())?.ino();
        let is_inside = |pid: &u32| {
            let namespace = fs::metadata(format!("/proc/{pid}/ns/net"));
            namespace.is_ok_and(|namespace| namespace.ino() == own)
        };
        Ok(proc::processes().into_iter().filter(is_inside).collect())
    }

    /// Returns a path by which `ip` names the namespace, for as long as this value lives.
    pub fn path(&self) -> String {
        match &self.file {
            Some(file) => format!(
                "/proc/{}/fd/{}",
                std::process::id(),
                file.as_fd().as_raw_fd()
            ),
            None => format!("/proc/{}/ns/net", std::process::id()),
        }
    }

    /// Joins two namespaces by a pair of interfaces named `veth` with [`VETH_IPV4`], [`VETH_IPV6`] (prefix lengths 24
    /// and 64) and [`VETH_MTU`]: `a` gets the first address, `b` the second. On return both interfaces transmit
    /// packets. Needs `ip` (iproute2).
    pub fn veth_pair(a: &Namespace, b: &Namespace) -> anyhow::Result<()> {
        let target = b.path();
        let mtu = VETH_MTU;
        a.ip(&format!(
            "link add veth mtu {mtu} type veth peer name veth-peer mtu {mtu}\n\
             link set veth-peer netns {target}\n"
        ))?;
        b.ip("link set veth-peer name veth\n")?;
        for (namespace, ipv4, ipv6) in
            [(a, VETH_IPV4.0, VETH_IPV6.0), (b, VETH_IPV4.1, VETH_IPV6.1)]
        {
            // Turns off duplicate address detection, during which an address can't be bound. A router sends no
            // neighbour solicitation while its link-local address is being checked (net/ipv6/ndisc.c, ndisc_send_ns).
            // The check takes seconds if many interfaces are created, and after three seconds the packet is rejected as
            // unreachable.
            namespace.enter(|| fs::write("/proc/sys/net/ipv6/conf/veth/accept_dad", "0"))?;
            namespace.ip(&format!(
                "address add {ipv4}/24 dev veth\n\
                 address add {ipv6}/64 dev veth nodad\n\
                 link set veth up\n"
            ))?;
        }
        for namespace in [a, b] {
            namespace.wait_for("veth")?;
        }
        Ok(())
    }

    /// Waits until an interface of a veth pair transmits packets. After both ends are up, the kernel attaches the
    /// interface's queue discipline in a work item, seconds later if many interfaces are created
    /// (net/core/link_watch.c). Until then the queue discipline is `noop`, which discards every packet and reports it
    /// as sent. Needs `ip`.
    pub fn wait_for(&self, interface: &str) -> anyhow::Result<()> {
        until(&format!("{interface} passes packets on"), PATIENCE, || {
            let output = self
                .command("ip")
                .args(["-oneline", "link", "show", "dev", interface])
                .output()
                .context("ip could not be started: run make deps")?;
            let text = String::from_utf8_lossy(&output.stdout);
            Ok(text.contains(" state UP ") && !text.contains(" qdisc noop "))
        })
    }

    /// Runs lines of `ip -batch` inside the namespace.
    pub fn ip(&self, lines: &str) -> anyhow::Result<()> {
        self.feed("ip", &["-batch", "-"], lines)
    }

    /// Runs a program inside the namespace to its end, with `text` as its input. Fails with its stderr.
    pub fn feed(&self, program: &str, arguments: &[&str], text: &str) -> anyhow::Result<()> {
        let mut child = self
            .command(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("{program} could not be started: run make deps"))?;
        child
            .stdin
            .take()
            .expect("stdin is piped")
            .write_all(text.as_bytes())?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            bail!("{program}: {}", words.trim());
        }
        Ok(())
    }
}

/// Returns PATH with the folders of iptables, which a plain user's PATH may lack (sudo's doesn't).
fn path_with_sbin() -> String {
    format!(
        "{}:/usr/sbin:/sbin",
        std::env::var("PATH").unwrap_or_default()
    )
}

/// Runs `work` on a thread of its own; forwards a panic to the caller.
fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Sets `lo` up in the calling thread's namespace (SIOCSIFFLAGS, netdevice(7)), without an external program.
fn loopback_up() -> io::Result<()> {
    let socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // SAFETY: ifreq is plain data for which all zeros is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the kernel reads one ifreq, which outlives the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::wait_within;
    use std::net::{TcpListener, TcpStream};

    fn interfaces(namespace: &Namespace) -> Vec<String> {
        let text = namespace
            .enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))
            .unwrap();
        text.lines()
            .skip(2)
            .map(|line| line.split(':').next().unwrap().trim().into())
            .collect()
    }

    #[test]
    fn a_namespace_is_isolated() {
        let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let listener = a.enter(|| TcpListener::bind("127.0.0.1:9999")).unwrap();
        let connect = || TcpStream::connect("127.0.0.1:9999").map(|_| ());
        a.enter(connect).unwrap();
        assert_eq!(
            b.enter(connect).unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        b.enter(|| TcpListener::bind("127.0.0.1:9999")).unwrap();
        drop(listener);
    }

    #[test]
    fn a_command_runs_inside() {
        let a = Namespace::new().unwrap();
        a.ip("address add 10.99.0.1/32 dev lo\n").unwrap();
        let seen = |namespace: &Namespace| {
            let mut command = namespace.command("ip");
            !command
                .args(["address", "show", "to", "10.99.0.1"])
                .output()
                .unwrap()
                .stdout
                .is_empty()
        };
        assert!(seen(&a));
        assert!(!seen(&Namespace::new().unwrap()));
        assert!(!seen(&Namespace::host()));
    }

    #[test]
    fn a_pair_carries_both_protocols_and_vanishes_with_one_end() {
        let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        Namespace::veth_pair(&a, &b).unwrap();
        for address in [VETH_IPV4.1, VETH_IPV6.1] {
            let listener = b.enter(|| TcpListener::bind((address, 9999))).unwrap();
            a.enter(|| TcpStream::connect_timeout(&(address, 9999).into(), PATIENCE))
                .unwrap();
            drop(listener);
        }
        assert!(interfaces(&a).contains(&"veth".to_string()));
        drop(b);
        until("the namespace ends with its handle", PATIENCE, || {
            Ok(!interfaces(&a).contains(&"veth".to_string()))
        })
        .unwrap();
    }

    #[test]
    fn a_child_dies_with_the_thread_that_spawned_it() {
        let a = Namespace::new().unwrap();
        let mut child = a.enter(|| {
            Namespace::host()
                .command("sleep")
                .arg("60")
                .spawn()
                .unwrap()
        });
        wait_within(&mut child, PATIENCE).expect("the child dies");
    }
}
