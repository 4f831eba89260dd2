// SPDX-License-Identifier: GPL-2.0-or-later
//! A system call that is not declared ends the process by SIGSYS, after a line that names the call. For the test, a
//! tracer replaces a declared call by one that is not, before the kernel applies the filter.

use std::fs;
use std::process::{Child, Command, Stdio};

use anyhow::{ensure, Context};
use testbed::firewall::Firewall;
use testbed::place::namespace;
use testbed::proc;
use testbed::skip::not_installed;
use testbed::strace::Trace;
use testbed::twin::Twin;
use testbed::wait::{until, wait_within, PATIENCE};
use twinwall_tests::case::Case;

use super::running::of_both;

pub fn cases() -> Vec<Case> {
    of_both(
        "forbidden",
        &[
            ("ends-it-with-a-line", ends_it_with_a_line),
            ("nothing-without-a-sandbox", nothing_without_a_sandbox),
        ],
    )
}

/// Process of strace. It replaces every pread64(2), with which the firewall reads a queue's counters from /proc, by
/// getpgrp(2), which the sandbox forbids. Ended on drop.
struct Tracer(Child);

impl Tracer {
    fn of(pid: u32, trace: &Trace) -> anyhow::Result<Tracer> {
        let output = trace.path().to_str().context("a path in UTF-8")?;
        let pid = pid.to_string();
        let child = Command::new("strace")
            .args([
                "--follow-forks",
                "--attach",
                &pid,
                "--trace=pread64",
                "--output",
                output,
            ])
            .args(["-e", "inject=pread64:error=EIO:syscall=getpgrp"])
            .stderr(Stdio::null())
            .spawn()
            .map_err(|_| not_installed("strace"))?;
        Ok(Tracer(child))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a firewall and a tracer, and makes the firewall read its queue's counters from /proc (SIGUSR1).
fn forbid(twin: Twin, arguments: &[&str], trace: &Trace) -> anyhow::Result<(Firewall, Tracer)> {
    let firewall = Firewall::start(&namespace()?, twin, arguments)?;
    let tracer = Tracer::of(firewall.pid, trace)?;
    until("every thread is traced", PATIENCE, || {
        for thread in proc::threads(firewall.pid)? {
            if proc::status(firewall.pid, thread, "TracerPid")? == "0" {
                return Ok(false);
            }
        }
        Ok(true)
    })?;
    proc::signal(firewall.pid, libc::SIGUSR1);
    Ok((firewall, tracer))
}

fn ends_it_with_a_line(twin: Twin) -> anyhow::Result<()> {
    let trace = Trace::new(twin.name());
    let (firewall, mut tracer) = forbid(twin, &["--deadline", "0"], &trace)?;
    let ended = firewall.end_by(0)?;
    let line = "error: forbidden system call getpgrp (111): the sandbox ended the firewall: --sandbox off, and please \
                report it\n";
    ensure!(
        ended.signal == Some(libc::SIGSYS) && ended.stderr == line,
        "signal {:?}: {}",
        ended.signal,
        ended.stderr
    );
    wait_within(&mut tracer.0, PATIENCE).context("strace does not end")?;
    Ok(())
}

fn nothing_without_a_sandbox(twin: Twin) -> anyhow::Result<()> {
    let trace = Trace::new(twin.name());
    let arguments = ["--deadline", "0", "--sandbox", "off"];
    let (mut firewall, _tracer) = forbid(twin, &arguments, &trace)?;
    until("the other call is made", PATIENCE, || {
        Ok(fs::read_to_string(trace.path())?.contains("INJECTED"))
    })?;
    ensure!(firewall.is_running()?, "it has ended");
    Ok(())
}
