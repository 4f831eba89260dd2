// SPDX-License-Identifier: GPL-2.0-or-later
//! Filter of system calls. Every source file lists the calls that it makes after the start, in a line `seccomp: NAME…`
//! (for the guard: `seccomp-guard: NAME…`); the build collects these lines.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::mem::size_of;

use nix::errno::Errno;
use nix::sys::signal::{raise, sigaction, signal, SaFlags, SigAction, SigHandler, SigSet, Signal};
use nix::unistd::write;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use syscalls::Sysno;

use crate::base::log::{self, failure_set_start, Failure, LogLevel};

include!(concat!(env!("OUT_DIR"), "/seccomp.rs"));

// System calls of the standard library and the C library: memory, threads and their locks, signals, exit, clocks where
// the kernel has no vDSO for them, and fstat, which newer C libraries prefer to newfstatat. Last, the line on stderr.

// seccomp: brk mmap mprotect mremap munmap madvise
// seccomp: clone clone3 set_robust_list rseq futex sched_getaffinity exit exit_group
// seccomp: rt_sigaction rt_sigprocmask rt_sigreturn restart_syscall sigaltstack getpid gettid tgkill
// seccomp: clock_gettime gettimeofday getrandom fstat
// seccomp: write
// seccomp-guard: brk mmap munmap mremap madvise futex rt_sigaction rt_sigprocmask
// seccomp-guard: rt_sigreturn restart_syscall sigaltstack getpid gettid tgkill clock_gettime
// seccomp-guard: write fcntl exit_group

const LINE_BYTES: usize = 200;
/// Offset of si_syscall in siginfo_t: after three numbers, padding and a pointer (_sigsys in
/// include/uapi/asm-generic/siginfo.h).
const SI_SYSCALL_AT: usize = 16 + size_of::<usize>();

/// Flags of clone with which the C library starts threads (nptl/pthread_create.c of glibc).
const THREAD_FLAGS: libc::c_int = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID;

/// System calls that are allowed only with certain values of an argument. Each row allows one value of one argument.
/// socket: only sockets that lead to other programs, never to the kernel (netlink) or the network. ioctl: requests for
/// the name or index of an interface (if_indextoname), and requests that the libraries of the two languages make;
/// nothing that changes an interface or a route. setsockopt: only options of the level SOL_SOCKET, none that changes
/// rules of iptables. clone: only threads, with the flags of the C library; no process, and no namespace.
const LIMITS: [(i64, u8, u64); 7] = [
    (libc::SYS_socket, 0, libc::AF_UNIX as u64),
    (libc::SYS_ioctl, 1, libc::SIOCGIFNAME),
    (libc::SYS_ioctl, 1, libc::SIOCGIFINDEX),
    (libc::SYS_ioctl, 1, libc::FIONBIO),
    (libc::SYS_ioctl, 1, libc::TCGETS),
    (libc::SYS_setsockopt, 1, libc::SOL_SOCKET as u64),
    (libc::SYS_clone, 0, THREAD_FLAGS as u64),
];

/// Process that a list of allowed system calls belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivilegeList {
    Firewall,
    Guard,
}

fn calls_of(list: PrivilegeList) -> &'static [i64] {
    match list {
        PrivilegeList::Firewall => FIREWALL_CALLS,
        PrivilegeList::Guard => GUARD_CALLS,
    }
}

/// Returns the name of a system call; "?" if its number is unknown.
fn name_of(call: i32) -> &'static str {
    let known = usize::try_from(call).ok().and_then(Sysno::new);
    known.map_or("?", |call| call.name())
}

/// Signal handler that prints the name of a forbidden call, and ends the process by the signal. Allocates nothing.
extern "C" fn tell(_number: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a complete siginfo_t to a handler with SA_SIGINFO, which for SIGSYS has the call's
    // number at this offset.
    let call = unsafe { info.byte_add(SI_SYSCALL_AT).cast::<i32>().read() };
    let mut line = [0; LINE_BYTES];
    let mut rest = line.as_mut_slice();
    // The line fits; a failure to write it is ignored.
    let _ = writeln!(
        rest,
        "{}error: forbidden system call {} ({call}): the sandbox ended the firewall: --sandbox off, \
         and please report it",
        log::prefix(LogLevel::Error),
        name_of(call)
    );
    let length = LINE_BYTES - rest.len();
    let _ = write(io::stderr(), line.get(..length).unwrap_or_default());
    // SAFETY: the default action is no function of this program.
    let _ = unsafe { signal(Signal::SIGSYS, SigHandler::SigDfl) };
    let _ = raise(Signal::SIGSYS);
}

/// Returns the permitted uses of a call: an empty list permits all uses, otherwise the call's limits apply. The kernel
/// reads these arguments as ints.
fn rules_of(call: i64) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let limits = LIMITS.iter().filter(|limit| limit.0 == call);
    limits
        .map(|(_, argument, value)| {
            let length = SeccompCmpArgLen::Dword;
            let condition = SeccompCondition::new(*argument, length, SeccompCmpOp::Eq, *value)?;
            SeccompRule::new(vec![condition])
        })
        .collect()
}

/// Enforces a filter: action `is_in` for the calls in `rules`, action `is_not` for all other calls.
fn apply(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    is_in: SeccompAction,
    is_not: SeccompAction,
) -> Result<(), seccompiler::Error> {
    // Calls for another architecture (32 bits) end the process; that is built into the library.
    let filter = SeccompFilter::new(rules, is_not, is_in, std::env::consts::ARCH.try_into()?)?;
    let program: BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program)
}

/// Builds the seccomp filter for a list of allowed system calls, and enforces it. clone3 fails with ENOSYS, because its
/// flags lie in memory, where a filter can't read them; then the C library calls clone. The library's filters have one
/// action each, so clone3 needs a second filter; the kernel executes the stricter action of both.
fn load_filter(list: PrivilegeList) -> Result<(), seccompiler::Error> {
    let calls = calls_of(list);
    if calls.contains(&libc::SYS_clone3) {
        let missing = SeccompAction::Errno(libc::ENOSYS as u32);
        let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        apply(clone3, missing, SeccompAction::Allow)?;
    }
    let rules = calls
        .iter()
        .map(|call| rules_of(*call).map(|rules| (*call, rules)))
        .collect::<Result<_, _>>()?;
    apply(rules, SeccompAction::Allow, SeccompAction::Trap)
}

fn errno_of(error: &seccompiler::Error) -> Errno {
    match error {
        seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => {
            Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EINVAL as i32))
        }
        _ => Errno::EINVAL,
    }
}

/// Limits the calling thread, and the threads that it starts, to the system calls of a list. Any other call ends the
/// process by SIGSYS, after a line on stderr that names the call. Needs no_new_privs. Returns the number of calls in
/// the list.
pub fn seccomp(list: PrivilegeList) -> Result<usize, Failure> {
    let action = SigAction::new(
        SigHandler::SigAction(tell),
        SaFlags::empty(),
        SigSet::empty(),
    );
    // SAFETY: the handler calls only functions that signal-safety(7) allows.
    unsafe { sigaction(Signal::SIGSYS, &action) }
        .map_err(|error| failure_set_start("sigaction", error))?;
    load_filter(list).map_err(|error| failure_set_start("seccomp", errno_of(&error)))?;
    Ok(calls_of(list).len())
}
