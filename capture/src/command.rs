// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a capture from the parsed command line to the exit code.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{faccessat, AccessFlags};
use sd_notify::NotifyState;

use crate::afxdp::Afxdp;
use crate::arguments::{Arguments, OnFull, Sandbox};
use crate::backend::{Backend, Kind};
use crate::chunk::{self, Pools};
use crate::counts::{read, Counts};
use crate::failure::{Failure, Result};
use crate::file::Out;
use crate::filter;
use crate::frame;
use crate::link::{self, Interface, Link};
use crate::look;
use crate::message;
use crate::name;
use crate::pages::Pages;
use crate::privilege::{self, Who};
use crate::reader::{End, Opening, Reader, Shared};
use crate::recvmmsg::Recvmmsg;
use crate::ring::Shape;
use crate::sandbox::{self, Needs};
use crate::source::WAIT;
use crate::twinring;
use crate::uring::Uring;
use crate::writer::{Named, Plan, Writer};

/// Interval at which the main thread checks whether the readers and the writer have ended.
const WATCH_MS: u16 = 100;
/// Time after the first SIGINT or SIGTERM in which a repetition is ignored.
const TWICE: Duration = Duration::from_secs(1);
/// Maximum wait after SIGUSR1 until all readers have queried the kernel's counts.
const ANSWER: Duration = Duration::from_millis(500);

/// Opens rings and output, drops privileges, records until the capture ends, and prints the ledger. Fails if the ledger
/// does not reconcile.
pub fn run(arguments: &Arguments) -> Result<()> {
    arguments.check()?;
    name::keep_zone();
    let openings = openings(arguments)?;
    let who = privilege::choose(arguments.user.as_deref())?;
    let rings = open(&openings, arguments.follow)?;
    let plan = plan(arguments, &openings);
    let rights = Rights {
        who,
        sandbox: arguments.sandbox == Sandbox::On,
        follow: arguments.follow,
    };
    let out = output(&plan, &rights)?;
    let counts = Counts::new(rings.len());
    // From here on a signal ends the program in order; a script that reads the start line may send one.
    let signals = signals()?;
    if !arguments.quiet {
        tell(arguments, &openings, &out);
    }
    // The rings are open: each packet from here on is recorded, or counted as lost. A failed notification is ignored:
    // systemd may be gone.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    if rights.sandbox {
        sandbox::enter(Needs {
            backend: openings[0].backend,
            follow: arguments.follow,
            rotate: arguments.rotate.is_some(),
        })?;
    }
    let job = Job {
        openings: &openings,
        follow: arguments.follow,
        queue_bytes: arguments.ring as usize,
    };
    let ended = record(&job, &signals, &plan, &counts, rings, out);
    let ledger = counts.ledger();
    message::print(format_args!("{ledger}"));
    ended?;
    match ledger.reconciles() {
        true => Ok(()),
        false => Err(Failure::failed(
            "the ledger does not reconcile: please report it",
        )),
    }
}

/// Validates the interfaces and the filter, before any ring is opened. Returns the parameters for opening the rings.
/// Needs no privilege, except CAP_NET_RAW for a filter with `vlan`.
pub fn openings(arguments: &Arguments) -> Result<Vec<Opening>> {
    if let Some(group) = arguments.nflog {
        return Ok(vec![nflog(arguments, group)]);
    }
    let text = arguments.filter.join(" ");
    let opening = |name: &String| {
        let interface = link::find(name)?;
        if arguments.backend == Kind::Afxdp {
            check_afxdp(&interface)?;
        }
        if arguments.backend == Kind::Twinring && interface.link == Link::Cooked {
            return Err(Failure::usage(format!(
                "-i {name}: twinring has Ethernet and raw IP only: choose another --backend"
            )));
        }
        Ok(Opening {
            filter: filter::compile(&text, &interface, arguments.snaplen)?,
            interface,
            snap_bytes: arguments.snaplen,
            backend: arguments.backend,
            pages: arguments.pages,
            policy: None,
            ring_bytes: arguments.ring,
            threads: arguments.threads.into(),
            promiscuous: !arguments.no_promiscuous,
            group: 0,
        })
    };
    arguments.interface.iter().map(opening).collect()
}

/// Returns the parameters for opening an nflog group, which is treated as an interface of raw IP packets.
fn nflog(arguments: &Arguments, group: u16) -> Opening {
    Opening {
        filter: Vec::new(),
        interface: Interface {
            name: format!("nflog:{group}"),
            index: 0,
            link: Link::Raw,
            is_loopback: false,
            is_up: true,
        },
        snap_bytes: arguments.snaplen,
        backend: Kind::Nflog,
        pages: Pages::Base,
        policy: None,
        ring_bytes: arguments.ring,
        threads: 1,
        promiscuous: false,
        group,
    }
}

/// Checks that the interface has Ethernet frames and a single receive queue: the socket serves one queue only.
fn check_afxdp(interface: &Interface) -> Result<()> {
    let name = &interface.name;
    if interface.link != Link::Ethernet {
        return Err(Failure::usage(format!(
            "-i {name}: afxdp has Ethernet only: choose another --backend"
        )));
    }
    match look::receive_queues(&CString::new(name.as_str()).unwrap_or_default()) {
        Ok(queues @ 2..) => Err(Failure::usage(format!(
            "-i {name}: it has {queues} queues, and afxdp takes one: ethtool -L {name} combined 1, or rx 1"
        ))),
        // One queue, or an interface that does not report its queues, such as loopback.
        _ => Ok(()),
    }
}

/// Opens all rings of all interfaces, in order.
fn open(openings: &[Opening], follow: bool) -> Result<Vec<Backend>> {
    let mut rings = Vec::new();
    for opening in openings {
        for _ in 0..opening.threads {
            let ring = open_ring(opening, follow);
            rings.push(ring.map_err(|error| refused(opening, &error))?);
        }
    }
    Ok(rings)
}

/// Opens a ring. With `follow` it waits for an interface that is down if the kernel refuses to share it: older kernels
/// fail with EINVAL (PACKET_FANOUT).
fn open_ring(opening: &Opening, follow: bool) -> io::Result<Backend> {
    let interface = &opening.interface;
    let may_wait = follow && opening.threads > 1 && !interface.is_up;
    match opening.open(interface.index) {
        Err(error) if may_wait && error.raw_os_error() == Some(libc::EINVAL) => (),
        opened => return opened,
    }
    let name = &interface.name;
    message::print(format_args!("note: {name} is down: waiting for it\n"));
    let name = CString::new(name.as_str()).unwrap_or_default();
    while !look::look_up(&name)?.is_up {
        thread::sleep(WAIT);
    }
    opening.open(interface.index)
}

/// Explains why a ring could not be opened.
pub fn refused(opening: &Opening, error: &io::Error) -> Failure {
    let name = &opening.interface.name;
    let group = opening.group;
    match error.raw_os_error() {
        // A missing right and a group in use are both EPERM.
        Some(libc::EPERM | libc::EBUSY) if opening.backend == Kind::Nflog => {
            match privilege::has_net_admin() {
                true => Failure::failed(format!(
                    "--nflog {group}: another program hears the group: choose another, in the rules, too"
                )),
                false => Failure::privilege(format!(
                    "--nflog {group}: hearing a group needs CAP_NET_ADMIN: run as root"
                )),
            }
        }
        // Errors without the module, and without nfnetlink.
        Some(libc::EINVAL | libc::EPROTONOSUPPORT) if opening.backend == Kind::Nflog => {
            Failure::failed(format!(
                "--nflog {group}: the kernel cannot tell of logged packets: one with CONFIG_NETFILTER_NETLINK_LOG (modprobe nfnetlink_log)"
            ))
        }
        Some(libc::ENOENT) if opening.backend == Kind::Twinring => Failure::failed(format!(
            "-i {name}: there is no /dev/twinring: load the module of kernel/, or choose another --backend"
        )),
        Some(libc::EPERM | libc::EACCES) if opening.backend == Kind::Twinring => Failure::privilege(
            format!("-i {name}: /dev/twinring is root's: run as root"),
        ),
        Some(libc::EPERM | libc::EACCES) if opening.backend == Kind::Afxdp => Failure::privilege(
            format!("-i {name}: afxdp puts a program at the interface: run as root"),
        ),
        Some(libc::EBUSY | libc::EEXIST) if opening.backend == Kind::Afxdp => Failure::failed(format!(
            "-i {name}: another program is at the interface, or another socket at its queue: ip link show {name}"
        )),
        Some(libc::EPERM | libc::EACCES) => {
            let program = std::env::current_exe().unwrap_or_else(|_| "capture".into());
            Failure::privilege(format!(
                "-i {name}: capturing needs CAP_NET_RAW: run as root, or: sudo setcap cap_net_raw=ep {}",
                program.display()
            ))
        }
        Some(libc::ENOMEM) if opening.pages == Pages::Hugetlb => Failure::failed(format!(
            "--pages hugetlb: the pool of huge pages has too few: sudo sysctl vm.nr_hugepages={}",
            huge_pages(opening)
        )),
        Some(libc::ENOMEM) => Failure::failed(format!(
            "-i {name}: no memory for a ring of {} MiB: choose another by --ring",
            opening.ring_bytes >> 20
        )),
        Some(libc::ENODEV | libc::ENXIO) => {
            Failure::failed(format!("-i {name}: it went away: ip link"))
        }
        _ => Failure::system(&format!("-i {name}"), error),
    }
}

/// Returns the number of huge pages for all rings of an interface.
fn huge_pages(opening: &Opening) -> usize {
    let (buffer, snap) = (opening.ring_bytes as usize, opening.snap_bytes as usize);
    let bytes = match opening.backend {
        Kind::IoUring => Uring::memory_bytes(buffer, snap),
        Kind::Afxdp => Afxdp::memory_bytes(buffer),
        Kind::Twinring => twinring::blocks(buffer) * twinring::BLOCK_BYTES,
        Kind::Recvmmsg | Kind::Tpacket3 | Kind::Nflog => Recvmmsg::memory_bytes(buffer, snap),
    };
    Pages::huge(bytes) * opening.threads
}

fn plan(arguments: &Arguments, openings: &[Opening]) -> Plan {
    let threads = usize::from(arguments.threads);
    let named = |(number, opening): (usize, &Opening)| Named {
        name: opening.interface.name.clone(),
        link: opening.interface.link,
        rings: number * threads..(number + 1) * threads,
    };
    Plan {
        interfaces: openings.iter().enumerate().map(named).collect(),
        snap_bytes: arguments.snaplen,
        filter: arguments.filter.join(" "),
        template: (arguments.write != "-").then(|| arguments.write.clone()),
        rotation: arguments.rotate,
        keep: arguments.keep.map(|keep| keep as usize),
        zstd: arguments.zstd,
        stop_when_full: arguments.on_full == OnFull::Stop,
    }
}

/// Parameters for dropping privileges once all rings are open.
struct Rights {
    who: Option<Who>,
    sandbox: bool,
    /// True if sockets may be opened again (--follow); CAP_NET_RAW is retained then.
    follow: bool,
}

impl Rights {
    fn drop(&self) -> Result<()> {
        privilege::drop(self.who.as_ref(), self.follow)
    }

    fn confine(&self, output: Option<&Path>) -> Result<()> {
        match self.sandbox {
            true => privilege::confine(output),
            false => Ok(()),
        }
    }
}

/// Opens the first output, and drops privileges by `rights`. Root opens a file only in a folder that no other user can
/// redirect; in another folder the target user opens it.
fn output(plan: &Plan, rights: &Rights) -> Result<Out> {
    let who = rights.who.as_ref();
    let Some(template) = &plan.template else {
        rights.drop()?;
        rights.confine(None)?;
        return Out::stdout().map_err(|error| Failure::system("stdout", &error));
    };
    let path = plan.path(template);
    let folder = privilege::folder(&path);
    let failed = |error: io::Error| {
        let user = who.map_or(String::new(), |who| {
            format!(
                " as user {}: choose a folder of theirs, or another by --user",
                who.name
            )
        });
        let code = Failure::system(&format!("-w {}", path.display()), &error);
        Failure::failed(format!("{code}{user}"))
    };
    let by_root = match who {
        Some(who) if privilege::is_roots(folder) => {
            let out = plan.open().map_err(failed)?;
            let is_device = path.metadata().is_ok_and(|seen| !seen.is_file());
            if !is_device {
                out.give(who.uid, who.gid).map_err(failed)?;
            }
            Some(out)
        }
        _ => None,
    };
    rights.drop()?;
    if plan.rotation.is_some() {
        let access = AccessFlags::W_OK | AccessFlags::X_OK;
        let allowed = faccessat(
            nix::fcntl::AT_FDCWD,
            folder,
            access,
            nix::fcntl::AtFlags::AT_EACCESS,
        );
        allowed.map_err(|error| failed(error.into()))?;
    }
    let out = match by_root {
        Some(out) => out,
        None => plan.open().map_err(failed)?,
    };
    rights.confine(Some(&path))?;
    Ok(out)
}

fn tell(arguments: &Arguments, openings: &[Opening], out: &Out) {
    for opening in openings {
        let interface = &opening.interface;
        message::print(format_args!(
            "capture: {} ({}), {}, {} x {} MiB, to {}\n",
            interface.name,
            interface.link.name(),
            opening.backend.name(),
            arguments.threads,
            opening.ring_bytes >> 20,
            out.name()
        ));
        if opening.backend == Kind::Afxdp {
            message::print(format_args!(
                "note: what comes in by {0} is not given to the host; what goes out, and VLAN tags that the card takes out, are not seen\n",
                interface.name
            ));
        }
        if interface.link == Link::Cooked && interface.index != 0 {
            message::print(format_args!(
                "note: {} has a link type of its own: packets come without that header, as Linux cooked v2\n",
                interface.name
            ));
        }
    }
}

/// Parameters of the threads of a recording.
struct Job<'a> {
    openings: &'a [Opening],
    follow: bool,
    queue_bytes: usize,
}

/// Blocks SIGINT, SIGTERM and SIGUSR1 in this thread and in threads that it starts later. Returns the descriptor from
/// which the main thread reads these signals.
fn signals() -> Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1] {
        set.add(signal);
    }
    set.thread_block()
        .and_then(|()| SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))
        .map_err(|error| Failure::system("signalfd", &error.into()))
}

/// Records until a signal or a failure ends the capture, the reader of the output is gone, or all interfaces are gone.
fn record(
    job: &Job,
    signals: &SignalFd,
    plan: &Plan,
    counts: &Counts,
    rings: Vec<Backend>,
    out: Out,
) -> Result<()> {
    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let shared = Shared {
        stop: &stop,
        asked: &asked,
        follow: job.follow,
    };
    let longest = Shape::BLOCK_BYTES + frame::OVERHEAD;
    let pools = Pools::new(rings.len(), job.queue_bytes, longest);
    let (outboxes, inbox) = pools.boxes();
    let writer = Writer::new(plan, counts, &stop, out, chunk::capacity(longest))?;
    let mut readers = Vec::new();
    for (number, (ring, outbox)) in rings.into_iter().zip(outboxes).enumerate() {
        let opening = &job.openings[number / job.openings[0].threads];
        readers.push(Reader {
            ring,
            opening,
            interface: (number / opening.threads) as u32,
            tells: number % opening.threads == 0,
            counts: &counts.rings[number],
            outbox,
            shared: &shared,
            name: CString::new(opening.interface.name.as_str()).unwrap_or_default(),
            index: opening.interface.index,
            is_down: false,
            gap: 0,
        });
    }
    thread::scope(|scope| {
        let writing = scope.spawn(|| writer.run(inbox));
        let reading: Vec<_> = readers
            .into_iter()
            .map(|reader| (reader.opening, scope.spawn(|| reader.run())))
            .collect();
        watch(signals, &shared, counts, &|| {
            writing.is_finished() && reading.iter().all(|(_, reader)| reader.is_finished())
        });
        let mut ended = Ok(());
        for (opening, reader) in reading {
            ended = ended.and(judge(opening, reader.join()));
        }
        // The writer's error takes precedence: it may have ended the readers.
        joined(writing.join())?.and(ended)
    })
}

fn joined<T>(result: thread::Result<T>) -> Result<T> {
    result.map_err(|_| Failure::failed("a thread panicked: please report it"))
}

fn judge(opening: &Opening, end: thread::Result<End>) -> Result<()> {
    let name = &opening.interface.name;
    match joined(end)? {
        End::Stopped => Ok(()),
        End::Gone => Err(Failure::failed(format!(
            "-i {name}: the interface is gone; what came before is written (--follow waits for another)"
        ))),
        End::Failed(error) => Err(Failure::system(&format!("-i {name}"), &error)),
    }
}

/// Handles signals until all threads have ended. The first SIGINT or SIGTERM ends the threads in order; a second exits
/// at once. Repetitions within TWICE are ignored, since timeout(1) and sudo(8) send a signal twice. SIGUSR1 prints the
/// ledger.
fn watch(signals: &SignalFd, shared: &Shared, counts: &Counts, have_ended: &dyn Fn() -> bool) {
    let mut first: Option<Instant> = None;
    while !have_ended() {
        let mut ready = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut ready, PollTimeout::from(WATCH_MS));
        while let Ok(Some(signal)) = signals.read_signal() {
            if signal.ssi_signo == Signal::SIGUSR1 as u32 {
                ask(shared, counts);
                message::print(format_args!("{}", counts.so_far()));
                continue;
            }
            shared.stop.store(true, Ordering::Relaxed);
            if first.get_or_insert_with(Instant::now).elapsed() > TWICE {
                message::print(format_args!(
                    "{}error: ended by a second signal: what waited is not written\n",
                    counts.so_far()
                ));
                std::process::exit(crate::failure::EXIT_FAILED.into());
            }
        }
    }
}

/// Asks all readers to query the kernel's counts, and waits up to ANSWER for them.
fn ask(shared: &Shared, counts: &Counts) {
    let number = shared.asked.fetch_add(1, Ordering::Relaxed) + 1;
    let end = Instant::now() + ANSWER;
    let answered = || counts.rings.iter().all(|ring| read(&ring.asked) == number);
    while !answered() && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
}
