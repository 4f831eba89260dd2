// SPDX-License-Identifier: GPL-2.0-or-later
//! A firewall that is killed: its guard does what the contract says, and has ended when the next firewall starts.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{ensure, Context};
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::place::namespace;
use testbed::proc;
use testbed::traffic::VAIN;
use testbed::twin::Twin;
use testbed::wait::{until, watch_silence, PATIENCE};
use twinwall_tests::case::Row;

use super::scene::{guard_of, rule, until_gone, Scene, WAITING};

pub const ROWS: &[Row] = &[
    ("crash-closed-with-plain-rules", closed_plain),
    ("crash-closed-with-bypass-rules", closed_bypass),
    ("crash-closed-with-a-stopped-guard", closed_guard_stopped),
    ("crash-closed-next-start-at-once", closed_next_start),
    ("crash-open-until-the-next-start", open_next_start),
    ("crash-open-again-and-again", again_and_again),
    ("crash-open-with-a-slow-search", slow_search),
    ("crash-of-one-that-is-not-seen", not_seen),
    ("crash-open-until-sigterm", open_until_sigterm),
    ("crash-of-the-guard", of_the_guard),
    ("end-with-guard", end_with_guard),
];

/// Number of packets that are sent after the firewall or its guard was killed.
const OTHERS: u64 = 5;

/// Stops the firewall, sends packets that then wait for it, and kills it. Returns the pid of its guard.
fn kill(scene: &Scene) -> anyhow::Result<u32> {
    let guard = scene.guard.context("there is no guard")?;
    scene.exchange(1)?;
    scene.stop_and_send(WAITING)?;
    ensure!(
        scene.waiting()? == Some(WAITING),
        "not all wait: {:?}",
        scene.waiting()?
    );
    proc::signal(scene.firewall.pid, libc::SIGKILL);
    Ok(guard)
}

fn closed_plain(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin, &rule(""), &PATIENT_GUARD)?;
    let really = "waiting packets are dropped, then the rules drop packets: they have no bypass";
    scene.check_contract("crash", ["closed", really])?;
    until_gone(kill(&scene)?)?;
    scene.until_waiting(None)?;
    scene.send(OTHERS).ok(); // the kernel may tell at once
    scene.server.check_arrived(1)
}

fn closed_bypass(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin, &rule("--queue-bypass"), &PATIENT_GUARD)?;
    let really = "waiting packets are dropped, then packets pass: the rules have a bypass";
    scene.check_contract("crash", ["closed", really])?;
    until_gone(kill(&scene)?)?;
    scene.until_waiting(None)?;
    scene.exchange(OTHERS)?;
    scene.server.check_arrived(1 + OTHERS)
}

/// Checks a stopped guard, which can't detect that its firewall has ended: the next firewall ends the guard.
fn closed_guard_stopped(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin, &rule(""), &PATIENT_GUARD)?;
    proc::stop(scene.guard.context("there is no guard")?)?;
    let guard = kill(&scene)?;
    let next = Firewall::start(&scene.namespace, twin, &PATIENT_GUARD)?;
    until_gone(guard)?;
    scene.exchange(OTHERS)?;
    next.finish()?.total.check_clean()
}

fn closed_next_start(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace()?;
    for _ in 0..5 {
        Firewall::start(&namespace, twin, &[])?.kill()?;
    }
    Firewall::start(&namespace, twin, &[])?.stop().map(drop)
}

/// Kills a firewall whose guard then accepts everything. Returns the scene and the guard's pid.
fn crash_open(twin: Twin) -> anyhow::Result<(Scene, u32)> {
    let scene = Scene::new(
        twin,
        &rule(""),
        &["--fail", "crash=open", "--deadline", "0"],
    )?;
    let really = "the guard accepts everything until SIGTERM or the next start";
    scene.check_contract("crash", ["open", really])?;
    let guard = kill(&scene)?;
    scene.server.check_arrived(1 + WAITING)?;
    scene.exchange(OTHERS)?;
    Ok((scene, guard))
}

fn open_next_start(twin: Twin) -> anyhow::Result<()> {
    let (scene, guard) = crash_open(twin)?;
    let arguments = [&["--default", "drop"][..], &PATIENT_GUARD].concat();
    let next = Firewall::start(&scene.namespace, twin, &arguments)?;
    until_gone(guard)?;
    scene.send(OTHERS)?;
    let arrived = 1 + WAITING + OTHERS;
    until("the next firewall drops", PATIENCE, || {
        Ok(next.ledger()?.total.verdict("drop") == OTHERS)
    })?;
    scene.server.check_arrived(arrived)?;
    next.finish()?.total.check_clean()
}

/// Checks repeated crashes: each start ends the previous guard, whose queue the kernel keeps a moment longer.
fn again_and_again(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace()?;
    let arguments = ["--fail", "crash=open"];
    let mut crashed = Vec::new();
    for crash in 1..=10 {
        let firewall = Firewall::start(&namespace, twin, &arguments);
        let firewall = firewall.with_context(|| format!("start {crash}"))?;
        let pid = firewall.pid;
        proc::signal(pid, libc::SIGKILL);
        until("it has ended", PATIENCE, || Ok(proc::state(pid)? == 'Z'))?;
        crashed.push(firewall);
    }
    Firewall::start(&namespace, twin, &[])?.stop()?;
    // wait() returns only after the guards, which share stderr with their firewalls, have ended.
    crashed
        .into_iter()
        .try_for_each(|firewall| firewall.wait().map(drop))
}

/// Returns a process other than the firewall that pauses (clock_nanosleep) in the firewall's network namespace, if any.
fn find_pausing(firewall: &Firewall) -> Option<u32> {
    let place = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let pause = libc::SYS_clock_nanosleep.to_string();
    let pauses = |pid: &u32| {
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        *pid != firewall.pid
            && place(*pid) == place(firewall.pid)
            && call.split(' ').next() == Some(&pause)
    };
    proc::processes().into_iter().find(pauses)
}

/// Checks that a firewall that can't see the process that owns the queue waits until that process has ended.
fn not_seen(twin: Twin) -> anyhow::Result<()> {
    until("the next one waits for the first one", PATIENCE, || {
        wait_unseen(twin)
    })
}

/// Does the same as `not_seen`. Returns false if the next firewall gave up before it was stopped (SIGSTOP) until the
/// first one had ended: it tries for two seconds only.
fn wait_unseen(twin: Twin) -> anyhow::Result<bool> {
    let namespace = namespace()?;
    let arguments = ["--deadline", "0", "--json"];
    let first = Firewall::start_under(&namespace, &[], twin, &arguments)?;
    let wrapper = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            let mut pausing = None;
            until("the next one pauses", PATIENCE, || {
                pausing = find_pausing(&first).filter(|pid| proc::stop(*pid).is_ok());
                Ok(pausing.is_some() || has_ended.load(Ordering::Relaxed))
            })?;
            let ended = first.stop();
            if let Some(pid) = pausing {
                proc::signal(pid, libc::SIGCONT);
            }
            ended
        });
        let next = Firewall::start_under(&namespace, &wrapper, twin, &arguments);
        has_ended.store(true, Ordering::Relaxed);
        first.join().expect("no panic")?;
        match next {
            Err(error) if format!("{error:#}").contains("is owned by another process") => Ok(false),
            next => next?.stop().map(|_| true),
        }
    })
}

fn open_until_sigterm(twin: Twin) -> anyhow::Result<()> {
    let (scene, guard) = crash_open(twin)?;
    proc::signal(guard, libc::SIGTERM);
    until_gone(guard)?;
    scene.until_waiting(None)?;
    scene.send(OTHERS).ok(); // the kernel may tell at once
    scene.server.check_arrived(1 + WAITING + OTHERS)?;
    let ended = scene.firewall.wait()?;
    ensure!(ended.signal == Some(libc::SIGKILL));
    ensure!(
        ended.stderr.starts_with("warning: the firewall (pid ")
            && ended
                .stderr
                .ends_with(&format!("by SIGTERM to pid {guard}\n"))
            && ended.stderr.lines().count() == 1,
        "stderr: {}",
        ended.stderr
    );
    Ok(())
}

/// Checks that a firewall continues after its guard was killed, and reports that.
fn of_the_guard(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin, &rule(""), &[])?;
    let guard = scene.guard.context("there is no guard")?;
    proc::signal(guard, libc::SIGKILL);
    until("the firewall has waited for its guard", PATIENCE, || {
        Ok(guard_of(&scene.firewall).is_none())
    })?;
    scene.exchange(OTHERS)?;
    watch_silence(VAIN);
    let ended = scene.firewall.end_by(libc::SIGTERM)?;
    let warning = format!(
        "warning: the guard (pid {guard}) has ended: from now on a stall is waited for, and a crash left to the rules: \
         start the firewall again\n"
    );
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    ensure!(ended.stderr == warning, "stderr: {}", ended.stderr);
    Ok(())
}

fn end_with_guard(twin: Twin) -> anyhow::Result<()> {
    for modes in ["closed", "crash=open"] {
        for signal in [libc::SIGTERM, libc::SIGINT] {
            let scene = Scene::new(twin, &rule(""), &["--fail", modes])?;
            let guard = scene.guard.context("there is no guard")?;
            // The signal goes to both processes, as from a terminal or a service manager.
            proc::signal(guard, signal);
            let ended = scene.firewall.end_by(signal)?;
            ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
            ensure!(ended.stderr.is_empty(), "stderr: {}", ended.stderr);
            until_gone(guard)?;
        }
    }
    Ok(())
}

/// Checks that a firewall replaces the guard of a crashed firewall, although its search for this guard in /proc takes
/// several seconds.
fn slow_search(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace()?;
    let crashed = Firewall::start(&namespace, twin, &["--fail", "crash=open"])?;
    proc::signal(crashed.pid, libc::SIGKILL);
    until("it has ended", PATIENCE, || {
        Ok(proc::state(crashed.pid)? == 'Z')
    })?;
    let slowly = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=readlink,readlinkat",
        "-e",
        "inject=readlink,readlinkat:delay_enter=5000",
    ];
    // A guard of its own might not start in time, so slowly does it run.
    let arguments = ["--json", "--deadline", "0"];
    let next = Firewall::start_under(&namespace, &slowly, twin, &arguments)?;
    // wait() returns only after the guard, which shares stderr with the firewall, has ended.
    crashed.wait()?;
    next.stop().map(drop)
}
