// SPDX-License-Identifier: GPL-2.0-or-later
//! System calls allowed while packets are captured (seccomp(2)). Any other call ends the program, after a line that names
//! it.

use std::collections::BTreeMap;
use std::io::Write;

use libc::c_long;
use nix::sys::signal::{raise, sigaction, signal, SaFlags, SigAction, SigHandler, SigSet, Signal};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use syscalls::Sysno;

use crate::backend::Kind;
use crate::failure::{Failure, Result};
use crate::twinring;

/// Features of a run that need system calls.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    pub backend: Kind,
    /// True if sockets may be opened again (--follow).
    pub follow: bool,
    /// True if files are created and removed (--rotate).
    pub rotate: bool,
}

/// Calls that the standard library and the C library make on their own: memory, threads and their locks, signals, exit, and
/// clocks where the kernel has no vDSO for them. Also calls on files, signals and sockets that every run makes.
const ALWAYS: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_madvise,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_sched_getaffinity,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_poll,
    libc::SYS_lseek,
    libc::SYS_ftruncate,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_ioctl,
    #[cfg(debug_assertions)]
    // the standard library checks that a descriptor that it closes is open
    libc::SYS_fcntl,
];
const ROTATE: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_unlink,
];
const FOLLOW: &[c_long] = &[libc::SYS_socket, libc::SYS_bind];

const fn of_backend(backend: Kind) -> &'static [c_long] {
    match backend {
        Kind::Tpacket3 | Kind::Afxdp | Kind::Twinring => &[],
        Kind::Nflog => &[libc::SYS_recvfrom],
        Kind::Recvmmsg => &[libc::SYS_recvmmsg],
        Kind::IoUring => &[libc::SYS_io_uring_enter, libc::SYS_io_uring_register],
    }
}

/// System calls that are allowed only with certain argument values. Each row allows one value of one argument. The rows
/// allow packet sockets and their options, interface queries, two ioctls of twinring, and files opened for writing
/// only. They forbid executable memory.
const LIMITS: &[(c_long, u8, SeccompCmpOp, u64)] = {
    use SeccompCmpOp::{Eq, MaskedEq};
    const CODE: u64 = libc::PROT_EXEC as u64;
    &[
        #[cfg(debug_assertions)]
        (libc::SYS_fcntl, 1, Eq, libc::F_GETFD as u64),
        (libc::SYS_mmap, 2, MaskedEq(CODE), 0),
        (libc::SYS_mprotect, 2, MaskedEq(CODE), 0),
        (libc::SYS_socket, 0, Eq, libc::AF_PACKET as u64),
        (libc::SYS_setsockopt, 1, Eq, libc::SOL_SOCKET as u64),
        (libc::SYS_setsockopt, 1, Eq, libc::SOL_PACKET as u64),
        (libc::SYS_ioctl, 1, Eq, libc::SIOCGIFINDEX),
        (libc::SYS_ioctl, 1, Eq, libc::SIOCGIFNAME),
        (libc::SYS_ioctl, 1, Eq, libc::SIOCGIFHWADDR),
        (libc::SYS_ioctl, 1, Eq, libc::SIOCGIFFLAGS),
        (libc::SYS_ioctl, 1, Eq, twinring::STATISTICS),
        (libc::SYS_ioctl, 1, Eq, twinring::STOP),
        (
            libc::SYS_openat,
            2,
            MaskedEq(libc::O_ACCMODE as u64),
            libc::O_WRONLY as u64,
        ),
    ]
};

/// Offset of si_syscall in siginfo_t: after three ints, padding and a pointer (_sigsys in
/// include/uapi/asm-generic/siginfo.h).
const SI_SYSCALL_AT: usize = 16 + size_of::<usize>();
const LINE_BYTES: usize = 200;

impl Needs {
    fn calls(self) -> impl Iterator<Item = c_long> {
        let follow = if self.follow { FOLLOW } else { &[] };
        let rotate = if self.rotate { ROTATE } else { &[] };
        let again: &[c_long] = match self.backend {
            Kind::IoUring if self.follow => &[libc::SYS_io_uring_setup],
            _ => &[],
        };
        let lists = [ALWAYS, follow, rotate, of_backend(self.backend), again];
        lists.into_iter().flatten().copied()
    }
}

/// Prints the name of the forbidden call, and lets the signal end the process. Allocates nothing.
extern "C" fn tell(_number: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a whole siginfo_t, which for SIGSYS has the call's number at
    // this place.
    let call = unsafe { info.byte_add(SI_SYSCALL_AT).cast::<i32>().read() };
    let known = usize::try_from(call).ok().and_then(Sysno::new);
    let name = known.map_or("?", |call| call.name());
    let mut line = [0; LINE_BYTES];
    let mut rest = line.as_mut_slice();
    // The line fits; a failed write (nobody reads stderr) changes nothing.
    let _ = writeln!(
        rest,
        "error: forbidden system call {name} ({call}): the sandbox ended capture: --sandbox off, and please report it"
    );
    let length = LINE_BYTES - rest.len();
    let _ = nix::unistd::write(std::io::stderr(), &line[..length]);
    // SAFETY: the default action is no function of ours.
    let _ = unsafe { signal(Signal::SIGSYS, SigHandler::SigDfl) };
    let _ = raise(Signal::SIGSYS);
}

/// Returns the rules of a call: none (all arguments are allowed) or one per limit. Only the low 32 bits of an argument
/// are compared; no call uses the other bits of these arguments.
fn rules_of(call: c_long) -> std::result::Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let limits = LIMITS.iter().filter(|limit| limit.0 == call);
    limits
        .map(|(_, argument, how, value)| {
            let length = SeccompCmpArgLen::Dword;
            let condition = SeccompCondition::new(*argument, length, how.clone(), *value)?;
            SeccompRule::new(vec![condition])
        })
        .collect()
}

fn load(needs: Needs) -> std::result::Result<(), seccompiler::Error> {
    let rules = needs
        .calls()
        .map(|call| rules_of(call).map(|rules| (call, rules)))
        .collect::<std::result::Result<BTreeMap<_, _>, _>>()?;
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Trap, SeccompAction::Allow, arch)?;
    let program: BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program)
}

/// Limits the calling thread, and threads that it starts, to the system calls that a run needs. Needs no_new_privs.
pub fn enter(needs: Needs) -> Result<()> {
    let action = SigAction::new(
        SigHandler::SigAction(tell),
        SaFlags::empty(),
        SigSet::empty(),
    );
    // SAFETY: the handler calls nothing that a signal handler must not (signal-safety(7)).
    unsafe { sigaction(Signal::SIGSYS, &action) }
        .map_err(|error| Failure::system("sigaction", &error.into()))?;
    load(needs).map_err(|error| Failure::failed(format!("seccomp: {error}: say --sandbox off")))
}
