// SPDX-License-Identifier: GPL-2.0-or-later
//! Injects a system call into a process as if its own code made the call: a tracer (ptrace(2)) sets the registers while
//! the process waits in another call. This shows what a firewall's filter allows an intruder.

use std::mem;
use std::ptr;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use testbed::proc;
use testbed::wait::{pause_for, PATIENCE};

/// Length in bytes of the x86-64 instruction `syscall`.
const INSTRUCTION_BYTES: u64 = 2;

/// Signal of a stop at the entry or exit of a call (PTRACE_O_TRACESYSGOOD).
const CALL_STOP: i32 = libc::SIGTRAP | 0x80;

/// Results of interrupted calls, as positive error numbers: the kernel's internal ones (ERESTARTSYS to
/// ERESTART_RESTARTBLOCK of linux/errno.h), and EINTR of calls that are not restarted.
const INTERRUPTED: [i64; 6] = [512, 513, 514, 515, 516, libc::EINTR as i64];

/// Result of an injected call.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call was made and returned this value: -errno if it failed.
    Gave(i64),
    /// The filter sent SIGSYS instead.
    Forbidden,
}

fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

fn request(kind: u32, pid: i32, address: u64, data: u64) -> anyhow::Result<()> {
    // SAFETY: the requests of this file pass numbers in both places, or a pointer to registers that live during the call.
    let result = unsafe { libc::ptrace(kind, pid, address, data) };
    ensure!(result == 0, "ptrace {kind:#x}: {}", last_error());
    Ok(())
}

/// Waits until a thread stops. Returns the signal that stopped it.
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

/// Thread that is stopped, and continues on drop. The tracing thread that created a `Held` must also drop it.
pub struct Held(u32);

impl Held {
    pub fn new(thread: u32) -> anyhow::Result<Held> {
        request(libc::PTRACE_SEIZE, thread as i32, 0, 0)?;
        let held = Held(thread);
        request(libc::PTRACE_INTERRUPT, thread as i32, 0, 0)?;
        stopped(thread as i32)?;
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Without this, the end of the process would wait until its threads' tracers end.
        let _ = request(libc::PTRACE_DETACH, self.0 as i32, 0, 0);
    }
}

/// Stops a thread while it waits in a system call. Returns its registers. A thread that has just started may not wait
/// yet: it then continues, because the bytes before its next instruction are no system call.
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
        pause_for(Duration::from_millis(5));
    }
    bail!("it waits in no system call")
}

/// Continues a thread until the entry or the exit of a call. Returns true if the filter has sent SIGSYS instead; the
/// signal is then delivered, and the thread no longer traced.
fn is_forbidden_on_the_way(pid: i32) -> anyhow::Result<bool> {
    let mut delivered = 0;
    loop {
        request(libc::PTRACE_SYSCALL, pid, 0, delivered as u64)?;
        let signal = stopped(pid)?;
        if signal == libc::SIGSYS || is_pending(pid, libc::SIGSYS)? {
            // A signal that is still pending is delivered by the kernel.
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

/// Makes the main thread of a process, which waits in a system call, execute another call, and then continue. The
/// process must not be traced. If the filter sends a signal instead, it is delivered.
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
    // The next instruction is again that of the call in which the thread waits. The kernel does not restart that call.
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
    // The thread sees its call as interrupted by a signal.
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
