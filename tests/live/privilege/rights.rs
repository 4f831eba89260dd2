// SPDX-License-Identifier: GPL-2.0-or-later
//! Rights of a running firewall and of its guard, as /proc shows them: each thread has exactly the rights that it
//! needs.

use anyhow::{ensure, Context};
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::place::namespace;
use testbed::proc;
use testbed::twin::Twin;
use testbed::twin::USER;
use twinwall_tests::case::Case;

use super::running::{of_both, policy};

const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;

pub fn cases() -> Vec<Case> {
    of_both(
        "rights",
        &[
            ("of-every-thread", of_every_thread),
            ("with-reject", with_reject),
            ("of-the-guard", of_the_guard),
            ("without-a-sandbox", without_a_sandbox),
            (
                "the-parents-end-still-ends-it",
                the_parents_end_still_ends_it,
            ),
        ],
    )
}

/// Checks that a thread has the firewall's user and group and exactly these capabilities, and can't get more rights.
/// - capabilities: as a mask.
fn check_thread(pid: u32, thread: u32, capabilities: u64) -> anyhow::Result<()> {
    let of = |key: &str| proc::status(pid, thread, key);
    let kept = format!("{capabilities:016x}");
    let (user, group) = USER.split_once(':').context("two numbers")?;
    for (key, expected) in [
        ("CapPrm", kept.as_str()),
        ("CapEff", kept.as_str()),
        ("CapInh", "0000000000000000"),
        ("CapBnd", "0000000000000000"),
        ("CapAmb", "0000000000000000"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("Groups", ""),
        ("Uid", &[user; 4].join("\t")),
        ("Gid", &[group; 4].join("\t")),
    ] {
        let found = of(key)?;
        ensure!(
            found == expected,
            "{key} of thread {thread} is {found:?} and not {expected:?}"
        );
    }
    Ok(())
}

/// Checks the rights of each thread of a firewall that has every kind of thread: it has two queues, a control socket
/// and events.
fn of_every_thread(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let (control, events) = (folder.file("control"), folder.file("events"));
    let mut arguments = vec![
        "--queue",
        "0:1",
        "--receive-buffer",
        "65536",
        "--control",
        &control,
    ];
    arguments.extend(["--events", &events]);
    let firewall = Firewall::start(&namespace()?, twin, &arguments)?;
    let threads = proc::threads(firewall.pid)?;
    ensure!(threads.len() >= 4, "only {} threads", threads.len());
    for thread in threads {
        check_thread(firewall.pid, thread, NET_ADMIN)?;
    }
    firewall.stop().map(drop)
}

fn with_reject(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let file = folder.write("p.nft", policy("\t\ttcp dport 9999 reject"))?;
    let firewall = Firewall::start(&namespace()?, twin, &["--policy", &file])?;
    check_thread(firewall.pid, firewall.pid, NET_ADMIN | NET_RAW)?;
    firewall.stop().map(drop)
}

/// Returns the pid of the firewall's only child process, which is its guard.
fn guard_of(firewall: &Firewall) -> anyhow::Result<u32> {
    let path = format!("/proc/{0}/task/{0}/children", firewall.pid);
    let children = std::fs::read_to_string(path)?;
    children
        .trim()
        .parse()
        .with_context(|| format!("one child: {children:?}"))
}

fn of_the_guard(twin: Twin) -> anyhow::Result<()> {
    let firewall = Firewall::start(&namespace()?, twin, &["--deadline", "1000"])?;
    let guard = guard_of(&firewall)?;
    testbed::wait::until("the guard is sandboxed", testbed::wait::PATIENCE, || {
        Ok(proc::status(guard, guard, "Seccomp")? == "2")
    })?;
    check_thread(guard, guard, NET_ADMIN)?;
    firewall.stop().map(drop)
}

/// Checks that without a sandbox the firewall changes its user, but keeps all capabilities of root.
fn without_a_sandbox(twin: Twin) -> anyhow::Result<()> {
    let firewall = Firewall::start(&namespace()?, twin, &["--sandbox", "off"])?;
    let of = |key: &str| proc::status(firewall.pid, firewall.pid, key);
    let own = std::process::id();
    ensure!(
        of("CapEff")? == proc::status(own, own, "CapEff")?,
        "CapEff {}",
        of("CapEff")?
    );
    ensure!(
        of("NoNewPrivs")? == "0" && of("Seccomp")? == "0",
        "there is a sandbox"
    );
    let (user, _) = USER.split_once(':').context("two numbers")?;
    ensure!(of("Uid")?.starts_with(user), "Uid {}", of("Uid")?);
    firewall.stop().map(drop)
}

/// Checks that the firewall ends with its parent if PR_SET_PDEATHSIG is set, which the kernel resets when the user
/// changes.
fn the_parents_end_still_ends_it(twin: Twin) -> anyhow::Result<()> {
    let wrapper = ["sh", "-c", "setpriv --pdeathsig KILL \"$@\" & wait", "sh"];
    let firewall = Firewall::start_under(&namespace()?, &wrapper, twin, &["--json"])?;
    let shell = proc::parent(firewall.pid)?;
    ensure!(
        proc::status(firewall.pid, firewall.pid, "Seccomp")? == "2",
        "no sandbox"
    );
    proc::signal(shell, libc::SIGKILL);
    testbed::wait::until("the firewall ends", testbed::wait::PATIENCE, || {
        Ok(proc::state(firewall.pid).map_or(true, |state| state == 'Z'))
    })
}
