// SPDX-License-Identifier: GPL-2.0-or-later
//! System calls of a firewall in a run that triggers every event: each call must be declared, and each declared call
//! must be made, except those in SELDOM.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::control::Client;
use testbed::firewall::{run_to_end, take_over, Firewall};
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::{namespace, restore, LOCALHOST};
use testbed::proc;
use testbed::queue::{queues_in, QueueTotal};
use testbed::strace::Trace;
use testbed::traffic::{tcp_connect, udp_client, udp_send, UdpFlood};
use testbed::twin::Twin;
use testbed::wait::{pause_for, until, PATIENCE};
use twinwall_tests::case::Case;

use super::declared::{declared, FIREWALL, GUARD};
use super::running::{of_both, policy, RULES};

pub fn cases() -> Vec<Case> {
    of_both("calls", &[("are-those-declared", are_those_declared)])
}

/// Declared calls that a run may omit, each with the occasion on which a firewall makes it.
const SELDOM: &[(&str, &str)] = &[
    ("brk", "the C library grows its first heap"),
    ("clock_gettime", "a machine without a clock in its vDSO"),
    ("clone", "threads, on kernels without clone3"),
    ("clone3", "threads, on kernels with it"),
    (
        "fcntl",
        "a debug build of the Rust guard closes a descriptor",
    ),
    (
        "fstat",
        "what newer C libraries call in place of newfstatat",
    ),
    ("futex", "in a guard: a thread that is not alone"),
    ("geteuid", "a link leads to the folder of the events file"),
    ("getpid", "the end by SIGSYS"),
    ("getrandom", "seeds of the C library's heaps and of tables"),
    ("gettid", "the end by SIGSYS"),
    ("gettimeofday", "a machine without a clock in its vDSO"),
    ("kill", "a worker's loop ends by an error"),
    ("madvise", "the C library gives memory back"),
    ("mmap", "in a guard: a heap grows"),
    ("mprotect", "the heap of a thread grows"),
    ("mremap", "large blocks grow"),
    ("munmap", "in a guard: a heap shrinks"),
    ("restart_syscall", "a sleep goes on after SIGCONT"),
    ("rt_sigaction", "the end by SIGSYS"),
    ("rt_sigprocmask", "the end by SIGSYS"),
    ("rt_sigreturn", "the end by SIGSYS"),
    ("shutdown", "an old firewall that does not confirm in time"),
    ("sysinfo", "the C library sorts more than a kilobyte"),
    ("tgkill", "the end by SIGSYS"),
];

const MORE_RULES: &str =
    "\t\tmeta iifname \"veth*\" log counter\n\t\ttcp dport 9999 reject with tcp reset";

/// Names of the system calls that the processes made while their seccomp filter was in place.
#[derive(Default)]
struct Made {
    firewall: BTreeSet<String>,
    guard: BTreeSet<String>,
}

/// Parses a trace with lines `PID name(arguments…`. A process's filter is in place after its last seccomp(2).
/// - guards: pids of the guards.
/// - made: in/out: calls that were made with a filter.
fn read_trace(trace: &Trace, guards: &[u32], made: &mut Made) -> anyhow::Result<()> {
    let text = fs::read_to_string(trace.path())?;
    let calls: Vec<(u32, &str)> = text.lines().filter_map(call_of).collect();
    let is_guard = |pid: u32| guards.contains(&pid);
    for guard in [false, true] {
        let of: Vec<_> = calls
            .iter()
            .filter(|(pid, _)| is_guard(*pid) == guard)
            .collect();
        let filtered = of.iter().rposition(|(_, name)| *name == "seccomp");
        let filtered = filtered.context("no seccomp(2) in the trace")?;
        let names = of[filtered + 1..].iter().map(|(_, name)| name.to_string());
        match guard {
            true => made.guard.extend(names),
            false => made.firewall.extend(names),
        }
    }
    Ok(())
}

fn call_of(line: &str) -> Option<(u32, &str)> {
    let (pid, rest) = line.split_once(' ')?;
    let (name, _) = rest.trim_start().split_once('(')?;
    let is_name = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some((pid.parse().ok()?, name))
}

/// Surroundings of a firewall: namespace, folder with the sockets that its options name, and policy.
struct Stage {
    namespace: Namespace,
    folder: Folder,
    control: String,
    policy: String,
}

fn stage() -> anyhow::Result<Stage> {
    let namespace = namespace()?;
    restore(&namespace, "iptables", RULES)?;
    let folder = Folder::shared()?;
    let bound = |name: &str| -> anyhow::Result<String> {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.file(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
        Ok(path)
    };
    let notify = UnixDatagram::bind(folder.file("notify"))?;
    // A program that notifies systemd waits until the message is read, so a thread reads all messages, as systemd does.
    std::thread::spawn(move || while notify.recv(&mut [0; 100]).is_ok() {});
    bound("notify")?;
    let events = UnixListener::bind(folder.file("listener"))?;
    // This listener closes repeatedly, so that the firewall reconnects.
    std::thread::spawn(move || {
        while events
            .accept()
            .is_ok_and(|(mut from, _)| from.read(&mut [0; 100]).is_ok())
        {}
    });
    bound("listener")?;
    Ok(Stage {
        namespace,
        control: folder.file("control"),
        policy: folder.write("p.nft", policy(MORE_RULES))?,
        folder,
    })
}

/// Starts a firewall under strace. Returns the firewall, and the pid of its guard.
fn start(
    stage: &Stage,
    trace: &Trace,
    twin: Twin,
    arguments: &[&str],
) -> anyhow::Result<(Firewall, u32)> {
    let notify = format!("NOTIFY_SOCKET={}", stage.folder.file("notify"));
    let mut wrapper = vec!["env", &notify, "WATCHDOG_USEC=200000"];
    wrapper.extend(trace.wrapper());
    let mut all = vec![
        "--policy",
        &stage.policy,
        "--control",
        &stage.control,
        "--json",
        "--pin",
    ];
    all.extend(["--stats", "1"]);
    all.extend(["--deadline", "200", "--fail", "crash=open"]);
    all.extend(arguments);
    let firewall = Firewall::start_under(&stage.namespace, &wrapper, twin, &all)?;
    let path = format!("/proc/{0}/task/{0}/children", firewall.pid);
    let guard = fs::read_to_string(path)?
        .trim()
        .parse()
        .context("a guard")?;
    Ok((firewall, guard))
}

/// Sends every request that a running firewall supports, and causes every event.
fn ask_for_all(stage: &Stage, firewall: &Firewall) -> anyhow::Result<()> {
    let client = udp_client(&stage.namespace, LOCALHOST)?;
    let mut tail = UnixStream::connect(&stage.control)?;
    writeln!(tail, r#"{{"command":"tail","packets":true}}"#)?;
    udp_send(&client, 10, 18)?;
    let address = SocketAddr::new(LOCALHOST, 9999);
    ensure!(
        tcp_connect(&stage.namespace, LOCALHOST, PATIENCE).is_err(),
        "{address} is not rejected"
    );
    tail.set_read_timeout(Some(PATIENCE))?;
    ensure!(tail.read(&mut [0; 1000])? > 0, "no events for the tail");
    for name in ["status", "stats", "rules", "reload"] {
        Client::new(&stage.control)?.command(name)?;
    }
    ensure!(
        Client::new(&stage.control)?.ask("garbage")?["ok"] == false,
        "garbage is taken"
    );
    for signal in [libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
        proc::signal(firewall.pid, signal);
    }
    // Causes a stall, which makes the guard answer.
    proc::signal(firewall.pid, libc::SIGSTOP);
    udp_send(&client, 10, 18)?;
    until("the guard answers", PATIENCE, || {
        Ok(QueueTotal::of(&queues_in(&stage.namespace)?).waiting == 0)
    })?;
    proc::signal(firewall.pid, libc::SIGCONT);
    let flood = UdpFlood::start(client);
    pause_for(Duration::from_millis(1200)); // beyond an interval of --stats, too
    flood.stop();
    Ok(())
}

/// Makes an upgrade fail when the new firewall has received the descriptors of the running firewall.
fn fail_upgrade(stage: &Stage, twin: Twin) -> anyhow::Result<()> {
    let arguments = ["--take-over", &stage.control, "--events", "/none/events"];
    let failed = run_to_end(&stage.namespace, &[], twin, &arguments)?;
    ensure!(failed.code != Some(0), "exit code {:?}", failed.code);
    until("the upgrade has failed", PATIENCE, || {
        let status = Client::new(&stage.control)?.command("status")?;
        Ok(status["counts"]["upgrades_failed"] == 1)
    })
}

/// Starts a firewall, and causes every request and event (see `ask_for_all`), and an upgrade that fails. A second
/// firewall takes over and gets the same requests and events. Then it is stopped, or, if `crash` is true, killed, so
/// that its guard continues alone.
/// - made: in/out: calls of both firewalls.
fn run(
    stage: &Stage,
    twin: Twin,
    arguments: &[&str],
    crash: bool,
    made: &mut Made,
) -> anyhow::Result<()> {
    let (first, second) = (Trace::new("first"), Trace::new("second"));
    let (old, old_guard) = start(stage, &first, twin, arguments)?;
    ask_for_all(stage, &old)?;
    fail_upgrade(stage, twin)?;
    let more = [arguments, &["--take-over", &stage.control]].concat();
    let started = take_over(&old, || start(stage, &second, twin, &more));
    let ((new, new_guard), _) = match started {
        Ok(started) => started,
        Err(error) => {
            let words = old.end_by(libc::SIGTERM)?.stderr;
            return Err(error.context(format!("the old one says: {words}")));
        }
    };
    let ended = old.end_by(0)?;
    ensure!(
        ended.code == Some(0),
        "the old one: {:?}: {}",
        ended.code,
        ended.stderr
    );
    ask_for_all(stage, &new)?;
    if crash {
        proc::signal(new.pid, libc::SIGKILL);
        let client = udp_client(&stage.namespace, LOCALHOST)?;
        until("the guard receives packets", PATIENCE, || {
            // The send fails after the guard has accepted a packet, as no socket listens.
            let _ = udp_send(&client, 1, 18);
            let text = fs::read_to_string(second.path())?;
            let mut calls = text.lines().filter_map(call_of);
            Ok(calls.any(|call| call == (new_guard, "recvmmsg")))
        })?;
        proc::signal(new_guard, libc::SIGTERM);
        new.end_by(0)?;
    } else {
        let ended = new.end_by(libc::SIGTERM)?;
        ensure!(
            ended.code == Some(0),
            "the new one: {:?}: {}",
            ended.code,
            ended.stderr
        );
    }
    until("the guards have ended", PATIENCE, || {
        let gone = |guard| proc::state(guard).map_or(true, |state| state == 'Z');
        Ok(gone(old_guard) && gone(new_guard))
    })?;
    read_trace(&first, &[old_guard], made)?;
    read_trace(&second, &[new_guard], made)
}

fn are_those_declared(twin: Twin) -> anyhow::Result<()> {
    let mut made = Made::default();
    let stage = stage()?;
    let events = stage.folder.file("events");
    let listener = format!("unix:{}", stage.folder.file("listener"));
    let (to_file, to_listener) = (["--events", &events], ["--events", &listener]);
    run(&stage, twin, &to_file, false, &mut made)?;
    run(&stage, twin, &to_listener, true, &mut made)?;
    for (who, mark, made) in [
        ("firewall", FIREWALL, made.firewall),
        ("guard", GUARD, made.guard),
    ] {
        let declared = declared(twin, mark)?;
        let undeclared: Vec<_> = made.difference(&declared).collect();
        ensure!(
            undeclared.is_empty(),
            "the {who} calls {undeclared:?}, which no source declares"
        );
        let seldom = |name: &str| SELDOM.iter().any(|(seldom, _)| *seldom == name);
        let unused: Vec<_> = declared
            .difference(&made)
            .filter(|name| !seldom(name))
            .collect();
        println!(
            "{who} of {}: {} declared, {} made",
            twin.name(),
            declared.len(),
            made.len()
        );
        ensure!(
            unused.is_empty(),
            "the {who} never calls {unused:?}, which are declared"
        );
    }
    Ok(())
}
