// SPDX-License-Identifier: GPL-2.0-or-later
//! Which system calls may be made. Every source file says which it makes once the program runs, in a
//! line `seccomp: NAME…` (the guard's: `seccomp-guard: NAME…`); the list is made of these lines when
//! the program is built.

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

// System calls of the standard library and the C library: memory, threads and their
// locks, signals, the end, and clocks where the kernel has no vDSO for them; a call that newer ones
// prefer (fstat). Then the line on stderr.

// seccomp: brk mmap mprotect mremap munmap madvise
// seccomp: clone clone3 set_robust_list rseq futex sched_getaffinity exit exit_group
// seccomp: rt_sigaction rt_sigprocmask rt_sigreturn restart_syscall sigaltstack getpid gettid tgkill
// seccomp: clock_gettime gettimeofday getrandom fstat
// seccomp: write
// seccomp-guard: brk mmap munmap mremap madvise futex rt_sigaction rt_sigprocmask
// seccomp-guard: rt_sigreturn restart_syscall sigaltstack getpid gettid tgkill clock_gettime
// seccomp-guard: write fcntl exit_group

const LINE_BYTES: usize = 200;
/// The offset of si_syscall in siginfo_t: behind three numbers, padding and a pointer (_sigsys in
/// include/uapi/asm-generic/siginfo.h).
const SI_SYSCALL_AT: usize = 16 + size_of::<usize>();

/// System calls by which the C library starts threads (nptl/pthread_create.c of glibc).
const THREAD_FLAGS: libc::c_int = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID;

/// Calls that are allowed with these values of an argument only: one value a row. Of sockets only
/// those that lead to other programs, never to the kernel (netlink) or to the network; of ioctl what
/// reads an interface's name or index (if_indextoname), what the languages' libraries ask, and
/// nothing that changes an interface or a route; no option that changes rules of iptables. Of clone a
/// thread, with the flags that the C library gives it: no process, and no namespace.
const LIMITS: [(i64, u8, u64); 7] = [
    (libc::SYS_socket, 0, libc::AF_UNIX as u64),
    (libc::SYS_ioctl, 1, libc::SIOCGIFNAME),
    (libc::SYS_ioctl, 1, libc::SIOCGIFINDEX),
    (libc::SYS_ioctl, 1, libc::FIONBIO),
    (libc::SYS_ioctl, 1, libc::TCGETS),
    (libc::SYS_setsockopt, 1, libc::SOL_SOCKET as u64),
    (libc::SYS_clone, 0, THREAD_FLAGS as u64),
];

/// The process that a list of calls is for.
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

/// The name of a system call.
fn name_of(call: i32) -> &'static str {
    let known = usize::try_from(call).ok().and_then(Sysno::new);
    known.map_or("?", |call| call.name())
}

/// Says which call it was, and lets the signal end the process. Allocates nothing.
extern "C" fn tell(_number: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a whole siginfo_t, which for SIGSYS has the
    // call's number at this place.
    let call = unsafe { info.byte_add(SI_SYSCALL_AT).cast::<i32>().read() };
    let mut line = [0; LINE_BYTES];
    let mut rest = line.as_mut_slice();
    // It fits, and nobody may be reading, which changes nothing.
    let _ = writeln!(
        rest,
        "{}error: forbidden system call {} ({call}): the sandbox ended the firewall: --sandbox off, \
         and please report it",
        log::prefix(LogLevel::Error),
        name_of(call)
    );
    let length = LINE_BYTES - rest.len();
    let _ = write(io::stderr(), line.get(..length).unwrap_or_default());
    // SAFETY: the default action is no function of ours.
    let _ = unsafe { signal(Signal::SIGSYS, SigHandler::SigDfl) };
    let _ = raise(Signal::SIGSYS);
}

/// Permitted uses of a call: all, without a rule, or those within its limits. The kernel
/// takes the arguments as ints.
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

/// Enforces a filter: an action for its calls, and an action for all others.
fn apply(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    is_in: SeccompAction,
    is_not: SeccompAction,
) -> Result<(), seccompiler::Error> {
    // What is no call of this machine's own kind (32 bits) ends the process, which is the library's
    // own choice.
    let filter = SeccompFilter::new(rules, is_not, is_in, std::env::consts::ARCH.try_into()?)?;
    let program: BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program)
}

/// Builds the filter and enforces it. clone3 is said to be missing: its flags lie in memory,
/// where a filter can't read them, and without it the C library calls clone. A filter of the library
/// has one action, so that is another filter, and of two the kernel takes the stricter action.
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

/// Limits the calling thread, and those that it starts, to the calls of a list. Another call
/// ends the process by SIGSYS, behind a line on stderr that names it. Needs no_new_privs. Returns
/// the number of calls that are allowed.
pub fn seccomp(list: PrivilegeList) -> Result<usize, Failure> {
    let action = SigAction::new(
        SigHandler::SigAction(tell),
        SaFlags::empty(),
        SigSet::empty(),
    );
    // SAFETY: the handler calls nothing that a signal handler must not (signal-safety(7)).
    unsafe { sigaction(Signal::SIGSYS, &action) }
        .map_err(|error| failure_set_start("sigaction", error))?;
    load_filter(list).map_err(|error| failure_set_start("seccomp", errno_of(&error)))?;
    Ok(calls_of(list).len())
}
