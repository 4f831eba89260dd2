// SPDX-License-Identifier: GPL-2.0-or-later
//! Starts that fail, and a run that fails: each has its exit code and its error line, the same in both twins.

use std::fs;

use anyhow::{ensure, Context};
use testbed::firewall::{run_to_end, Ended, Firewall};
use testbed::ledger::Stats;
use testbed::owner::Owner;
use testbed::place::{namespace, namespace_with};
use testbed::skip::skip;
use testbed::traffic::{udp_client, udp_send, UdpServer};
use testbed::twin::{Twin, BACKENDS, TWINS};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Case;

type Body = fn(Twin, &'static str) -> anyhow::Result<()>;

pub fn cases() -> Vec<Case> {
    let bodies: [(&str, Body); 10] = [
        ("no-capability", no_capability),
        ("kernel-without-nfqueue", kernel_without_nfqueue),
        ("owned-by-the-same-program", owned_by_the_same_program),
        ("owned-by-a-foreign-process", owned_by_a_foreign_process),
        ("owned-by-a-hidden-process", owned_by_a_hidden_process),
        ("second-of-two-queues-owned", second_of_two_queues_owned),
        ("receive-buffer-refused", receive_buffer_refused),
        ("receive-buffer-falls-back", receive_buffer_falls_back),
        ("a-call-fails-while-running", a_call_fails_while_running),
        ("queue-is-free-after-exit", queue_is_free_after_exit),
    ];
    let mut cases = Vec::new();
    for (name, body) in bodies {
        for twin in TWINS {
            for backend in BACKENDS {
                let name = format!("failures/{name}/{}/{backend}", twin.name());
                cases.push(Case::new(name, move || body(twin, backend)));
            }
        }
    }
    cases.push(Case::new(
        "failures/a-call-fails-at-start",
        a_call_fails_at_start,
    ));
    cases
}

const SMALL: [&str; 2] = ["--receive-buffer", "65536"];

fn check_failed(ended: &Ended, code: i32, error: &str) -> anyhow::Result<()> {
    ensure!(
        ended.code == Some(code),
        "exit code {:?}: {}",
        ended.code,
        ended.stderr
    );
    ensure!(
        ended.stderr == format!("error: {error}\n"),
        "says: {}",
        ended.stderr
    );
    ensure!(
        ended.lines.is_empty(),
        "something is on stdout: {:?}",
        ended.lines
    );
    Ok(())
}

fn no_capability(twin: Twin, backend: &'static str) -> anyhow::Result<()> {
    let wrapper = [
        "setpriv",
        "--bounding-set=-net_admin",
        "--inh-caps=-net_admin",
    ];
    let ended = run_to_end(&namespace()?, &wrapper, twin, &["--backend", backend])?;
    let error =
        "CAP_NET_ADMIN is missing: run as root or with sudo, or give the program the capability \
                 (setcap cap_net_admin+ep)";
    check_failed(&ended, 3, error)
}

fn kernel_without_nfqueue(twin: Twin, backend: &'static str) -> anyhow::Result<()> {
    let error = "this kernel has no NFQUEUE: use a kernel with CONFIG_NETFILTER_NETLINK_QUEUE, or load the module \
                 nfnetlink_queue";
    for errno in ["EPROTONOSUPPORT", "EAFNOSUPPORT"] {
        let inject = format!("inject=socket:error={errno}");
        let wrapper = [
            "strace",
            "--quiet=all",
            "--trace=socket",
            "--output=/dev/null",
            "-e",
            &inject,
        ];
        let ended = run_to_end(&namespace()?, &wrapper, twin, &["--backend", backend])?;
        check_failed(&ended, 4, error).with_context(|| errno)?;
    }
    Ok(())
}

fn owned_by_the_same_program(twin: Twin, backend: &'static str) -> anyhow::Result<()> {
    let namespace = namespace()?;
    let first = Firewall::start(&namespace, twin, &SMALL)?;
    let ended = run_to_end(&namespace, &[], twin, &["--backend", backend])?;
    let owner = format!("pid {} ({})", first.pid, twin.program());
    let error = format!("queue 0 is owned by {owner}: stop it or choose another with --queue");
    check_failed(&ended, 5, &error)
}

fn owned_by_a_foreign_process(twin: Twin, backend: &'static str) -> anyhow::Result<()> {
    let namespace = namespace()?;
    let _owner = Owner::of(&namespace, 7)?;
    let ended = run_to_end(
        &namespace,
        &[],
        twin,
        &["--queue", "7", "--backend", backend],
    )?;
    let name = fs::read_to_string("/proc/self/comm")?;
    let owner = format!("pid {} ({})", std::process::id(), name.trim_end());
    let error = format!("queue 7 is owned by {owner}: stop it or choose another with --queue");
    check_failed(&ended, 5, &error)
}

/// Wrapper whose process sees only processes of its own PID namespace.
const PID_NAMESPACE: [&str; 5] = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Skips the case if a wrapper fails here, as in a container or a chroot.
fn need(wrapper: &[&str]) -> anyhow::Result<()> {
    let mut command = namespace()?.command(wrapper[0]);
    let output = command.args(&wrapper[1..]).arg("true").output()?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(skip(format!(
            "{} does not work here: {}",
            wrapper.join(" "),
            words.trim()
        )));
    }
    Ok(())
}

/// Checks the error if the queue's owner is outside the firewall's PID namespace, so that its process is hidden.
fn owned_by_a_hidden_process(twin: Twin, backend: &'static str) -> anyhow::Result<()> {
    need(&PID_NAMESPACE)?;
    let namespace = namespace()?;
    let owner = Owner::of(&namespace, 7)?;
    let arguments = ["--queue", "7", "--backend", backend];
    let ended = run_to_end(&namespace, &PID_NAMESPACE, twin, &arguments)?;
    let error = format!(
        "queue 7 is owned by another process (netlink port {}): stop it or choose another with --queue",
        owner.port()
    );
    check_failed(&ended, 5, &error)
}

/// Checks that a failed start releases the queues that it has already opened.
fn second_of_two_queues_owned(twin: Twin, backend: &'static str) -> anyhow::Result<()> {
    let namespace = namespace()?;
    let _owner = Owner::of(&namespace, 1)?;
    let arguments = ["--queue", "0:1", "--backend", backend, SMALL[0], SMALL[1]];
    let ended = run_to_end(&namespace, &[], twin, &arguments)?;
    ensure!(
        ended.code == Some(5),
        "exit code {:?}: {}",
        ended.code,
        ended.stderr
    );
    ensure!(
        ended.stderr.starts_with("error: queue 1 is owned by pid "),
        "says: {}",
        ended.stderr
    );
    Firewall::start(&namespace, twin, &SMALL)?.stop().map(drop)
}

/// Wrapper that makes a process root in a user namespace only: it may own queues of its network namespace, but its
/// buffers can't exceed net.core.rmem_max.
const USER_NAMESPACE: [&str; 4] = ["unshare", "--user", "--map-root-user", "--net"];

/// Returns net.core.rmem_max in bytes. Skips the case without user namespaces, or if this limit allows the default
/// buffer.
fn buffer_limit() -> anyhow::Result<u32> {
    need(&USER_NAMESPACE)?;
    let limit: u32 = fs::read_to_string("/proc/sys/net/core/rmem_max")?
        .trim()
        .parse()?;
    if limit >= 64 << 20 {
        return Err(skip("net.core.rmem_max allows the whole buffer"));
    }
    Ok(limit)
}

fn receive_buffer_refused(twin: Twin, backend: &'static str) -> anyhow::Result<()> {
    let limit = buffer_limit()?;
    let buffer = ["--receive-buffer", "67108864"];
    // The user namespace has no other user.
    let arguments = [&["--backend", backend, "--user", "root"][..], &buffer].concat();
    let ended = run_to_end(&namespace()?, &USER_NAMESPACE, twin, &arguments)?;
    let error = format!(
        "the kernel gives a receive buffer of {limit} bytes where --receive-buffer asks for 67108864: raise \
         net.core.rmem_max or ask for less"
    );
    check_failed(&ended, 6, &error)
}

fn receive_buffer_falls_back(twin: Twin, backend: &'static str) -> anyhow::Result<()> {
    let limit = buffer_limit()?;
    // The user namespace has no other user.
    let arguments = ["--backend", backend, "--user", "root", "--json"];
    let firewall = Firewall::start_under(&namespace()?, &USER_NAMESPACE, twin, &arguments)?;
    let given = firewall.start_line()?.receive_buffer;
    ensure!(
        given == limit,
        "the start line tells of {given} bytes, the kernel allows {limit}"
    );
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    let warning = format!(
        "warning: the receive buffer is {limit} of 67108864 bytes: raise net.core.rmem_max, or losses come earlier\n"
    );
    ensure!(ended.stderr == warning, "says: {}", ended.stderr);
    Ok(())
}

/// Checks a call that fails while the firewall runs: the firewall prints the ledger and an error line that names the
/// call, and ends with exit code 1.
fn a_call_fails_while_running(twin: Twin, backend: &'static str) -> anyhow::Result<()> {
    let namespace = namespace_with("loopback-9999-udp")?;
    let wrapper = [
        "strace",
        "--follow-forks",
        "--quiet=all",
        "--trace=recvmmsg",
        "--output=/dev/null",
        "-e",
        // The first calls belong to the start, when the kernel acknowledges configuration requests.
        "inject=recvmmsg:error=EIO:when=20+",
    ];
    let arguments = [
        "--backend",
        backend,
        "--spin",
        "0",
        // The tracer replaces the call by a nonexistent call, which the sandbox forbids.
        "--sandbox",
        "off",
        // A traced guard may start too slowly on a busy machine.
        "--deadline",
        "0",
        "--json",
        SMALL[0],
        SMALL[1],
    ];
    let firewall = Firewall::start_under(&namespace, &wrapper, twin, &arguments)?;
    let localhost = "127.0.0.1".parse()?;
    let _server = UdpServer::start(&namespace, localhost, false)?;
    let client = udp_client(&namespace, localhost)?;
    let pid = firewall.pid;
    until("the failing call ends the firewall", PATIENCE, || {
        udp_send(&client, 1, 18)?;
        Ok(testbed::proc::state(pid).map_or(true, |state| state == 'Z'))
    })?;
    let ended = firewall.end_by(0)?;
    ensure!(
        ended.code == Some(1),
        "exit code {:?}: {}",
        ended.code,
        ended.stderr
    );
    let error = "error: recvmmsg: Input/output error: the ledger above shows the losses\n";
    ensure!(ended.stderr == error, "says: {}", ended.stderr);
    let stats = Stats::parse(ended.lines.last().context("no ledger")?)?;
    ensure!(stats.reason == "exit", "reason {}", stats.reason);
    stats.total.check_reconciled()
}

fn queue_is_free_after_exit(twin: Twin, backend: &'static str) -> anyhow::Result<()> {
    let namespace = namespace()?;
    let arguments = ["--backend", backend, SMALL[0], SMALL[1]];
    for _ in 0..3 {
        Firewall::start(&namespace, twin, &arguments)?.stop()?;
    }
    Firewall::start(&namespace, twin, &arguments)?.kill()?;
    Firewall::start(&namespace, twin, &arguments)?
        .stop()
        .map(drop)
}

fn a_call_fails_at_start() -> anyhow::Result<()> {
    let wrapper = [
        "strace",
        "--quiet=all",
        "--trace=eventfd2",
        "--output=/dev/null",
        "-e",
        "inject=eventfd2:error=EMFILE",
    ];
    let [rust, c] = TWINS.map(|twin| run_to_end(&namespace()?, &wrapper, twin, &SMALL));
    let (rust, c) = (rust?, c?);
    ensure!(
        rust.stderr == c.stderr,
        "rust: {}c: {}",
        rust.stderr,
        c.stderr
    );
    let error = "error: eventfd: Too many open files: this is not a fault of the command line, please report it\n";
    ensure!(rust.stderr == error, "both say: {}", rust.stderr);
    ensure!(
        rust.code == Some(1) && c.code == Some(1),
        "exit codes {:?}, {:?}",
        rust.code,
        c.code
    );
    Ok(())
}
