// SPDX-License-Identifier: GPL-2.0-or-later
//! A system call that a process makes as if its own code did: a tracer (ptrace(2)) sets its registers where it waits in
//! another call. What a firewall's filter lets an intruder do is seen by it.

use std::mem;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use testbed::proc;
use testbed::wait::PATIENCE;

/// The length of the instruction `syscall`.
const INSTRUCTION_BYTES: u64 = 2;

/// How a stop at a call's entry or exit is marked (PTRACE_O_TRACESYSGOOD).
const CALL_STOP: i32 = libc::SIGTRAP | 0x80;

/// What the kernel has in place of a result while a signal interrupts a call: from ERESTARTSYS to ERESTART_RESTARTBLOCK of
/// linux/errno.h, and what calls give that are not begun again.
const INTERRUPTED: [i64; 6] = [512, 513, 514, 515, 516, libc::EINTR as i64];

/// What came of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was made and gave this: -errno if it failed.
    Gave(i64),
    /// The filter sent SIGSYS in its place.
    Forbidden,
}

fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

fn request(kind: u32, pid: i32, address: u64, data: u64) -> anyhow::Result<()> {
    // SAFETY: the requests of this file take numbers in both places, or a pointer to registers that live during the call.
    let result = unsafe { libc::ptrace(kind, pid, address, data) };
    ensure!(result == 0, "ptrace {kind:#x}: {}", last_error());
    Ok(())
}

/// The signal that the process has stopped with.
fn stopped(pid: i32) -> anyhow::Result<i32> {
    let mut status = 0;
    // SAFETY: the status lives during the call.
    let waited = unsafe { libc::waitpid(pid, &mut status, libc::__WALL) };
    ensure!(waited == pid, "waitpid: {}", last_error());
    match libc::WIFSTOPPED(status) {
        true => Ok(libc::WSTOPSIG(status)),
        false => bail!("it has ended: {status:#x}"),
    }
}

fn is_pending(pid: i32, signal: i32) -> anyhow::Result<bool> {
    let pending = proc::status(pid as u32, pid as u32, "SigPnd")?;
    Ok(u64::from_str_radix(&pending, 16)? >> (signal - 1) & 1 == 1)
}

fn registers(pid: i32) -> anyhow::Result<libc::user_regs_struct> {
    // SAFETY: registers are numbers, for which all zeros is valid.
    let mut registers: libc::user_regs_struct = unsafe { mem::zeroed() };
    request(
        libc::PTRACE_GETREGS,
        pid,
        0,
        ptr::from_mut(&mut registers) as u64,
    )?;
    Ok(registers)
}

/// Stops the thread where it waits in a system call. Gives its registers. A thread that has just begun is still on its way
/// there; what stands before its next instruction is then no call.
fn stop_in_call(pid: i32) -> anyhow::Result<libc::user_regs_struct> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        request(libc::PTRACE_INTERRUPT, pid, 0, 0)?;
        loop {
            match stopped(pid)? {
                libc::SIGTRAP => break,
                signal => request(libc::PTRACE_CONT, pid, 0, signal as u64)?,
            }
        }
        let registers = registers(pid)?;
        if registers.orig_rax != u64::MAX && INTERRUPTED.contains(&-(registers.rax as i64)) {
            return Ok(registers);
        }
        request(libc::PTRACE_CONT, pid, 0, 0)?;
        thread::sleep(Duration::from_millis(5));
    }
    bail!("it waits in no system call")
}

/// Goes on to the entry or the exit of a call. Gives true if the filter has sent SIGSYS in its place, which is then
/// delivered to the thread, no longer traced.
fn is_forbidden_on_the_way(pid: i32) -> anyhow::Result<bool> {
    let mut delivered = 0;
    loop {
        request(libc::PTRACE_SYSCALL, pid, 0, delivered as u64)?;
        let signal = stopped(pid)?;
        if signal == libc::SIGSYS || is_pending(pid, libc::SIGSYS)? {
            // One that is pending comes by itself.
            let delivered = if signal == CALL_STOP { 0 } else { signal };
            request(libc::PTRACE_DETACH, pid, 0, delivered as u64)?;
            return Ok(true);
        }
        if signal == CALL_STOP {
            return Ok(false);
        }
        delivered = signal;
    }
}

/// Has the main thread of a process, which waits in a system call, make another one, and lets it go on. The process must not
/// be traced. What the filter sends in place of the call is delivered when it goes on.
pub fn call(pid: u32, number: i64, arguments: [u64; 3]) -> anyhow::Result<Outcome> {
    let pid = i32::try_from(pid)?;
    request(
        libc::PTRACE_SEIZE,
        pid,
        0,
        libc::PTRACE_O_TRACESYSGOOD as u64,
    )?;
    let before = stop_in_call(pid)?;
    let mut changed = before;
    // Behind the instruction of the call that it waits in; the kernel does not repeat that one.
    changed.rip -= INSTRUCTION_BYTES;
    changed.orig_rax = u64::MAX;
    changed.rax = number as u64;
    [changed.rdi, changed.rsi, changed.rdx] = arguments;
    request(libc::PTRACE_SETREGS, pid, 0, ptr::from_ref(&changed) as u64)?;
    for _ in ["entry", "exit"] {
        if is_forbidden_on_the_way(pid)? {
            return Ok(Outcome::Forbidden);
        }
    }
    let gave = registers(pid)?.rax as i64;
    let mut restored = before;
    // As if a signal had interrupted it.
    restored.rax = -i64::from(libc::EINTR) as u64;
    restored.orig_rax = u64::MAX;
    request(
        libc::PTRACE_SETREGS,
        pid,
        0,
        ptr::from_ref(&restored) as u64,
    )?;
    request(libc::PTRACE_DETACH, pid, 0, 0)?;
    Ok(Outcome::Gave(gave))
}
