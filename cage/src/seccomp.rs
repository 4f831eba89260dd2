// SPDX-License-Identifier: GPL-2.0-or-later
//! System call filters for the command, for resources that namespaces do not isolate:
//!
//! - ioctl TIOCSTI and TIOCLINUX insert input into the caller's terminal, whose shell is outside.
//! - Sockets of families other than FAMILIES may cross network namespaces: AF_VSOCK reaches the hypervisor.
//! - io_uring opens sockets without a filter check, so it is disabled. Programs work without it, as in containers.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use seccompiler::{
    apply_filter, sock_filter, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use crate::failure::Failure;

/// Socket families that the command may use: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_ALG
/// (include/linux/socket.h).
const FAMILIES: [u64; 6] = [1, 2, 10, 16, 17, 38];
/// Refused ioctl requests, which insert input into a terminal: TIOCSTI, TIOCLINUX (include/uapi/asm-generic/ioctls.h).
const TYPING: [u64; 2] = [0x5412, 0x541c];
/// Codes of BPF instructions: BPF_LD | BPF_W | BPF_ABS; BPF_JMP | BPF_JGE | BPF_K; BPF_RET | BPF_K
/// (include/uapi/linux/bpf_common.h).
const LOAD: u16 = 0x20;
const JUMP_NOT_LESS: u16 = 0x35;
const RETURN: u16 = 0x06;
/// Bit in the numbers of x32 system calls (arch/x86/include/uapi/asm/unistd.h). Only `without_x32` refuses these calls.
const X32_BIT: u32 = 0x4000_0000;
const ALLOW: u32 = 0x7fff_0000;
const ERROR: u32 = 0x0005_0000;

fn argument(
    number: u8,
    op: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(number, SeccompCmpArgLen::Dword, op, value)
}

/// Returns a filter that answers a call with an error if a rule matches its arguments, or if there are no rules. It
/// allows all other calls.
fn filter(
    call: i64,
    rules: Vec<SeccompRule>,
    error: i32,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::try_from(ARCH)?;
    let denied = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(
        BTreeMap::from([(call, rules)]),
        SeccompAction::Allow,
        denied,
        arch,
    )?
    .try_into()
}

fn filters() -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let mut typing = Vec::new();
    for request in TYPING {
        typing.push(SeccompRule::new(vec![argument(
            1,
            SeccompCmpOp::Eq,
            request,
        )?])?);
    }
    let mut other = Vec::new();
    for family in FAMILIES {
        other.push(argument(0, SeccompCmpOp::Ne, family)?);
    }
    let mut filters = vec![
        filter(libc::SYS_ioctl, typing, libc::EPERM)?,
        filter(
            libc::SYS_socket,
            vec![SeccompRule::new(other)?],
            libc::EAFNOSUPPORT,
        )?,
        filter(libc::SYS_io_uring_setup, Vec::new(), libc::ENOSYS)?,
    ];
    if ARCH == "x86_64" {
        filters.push(without_x32());
    }
    Ok(filters)
}

/// Returns a filter that answers x32 calls with ENOSYS. The call's number is the first field of struct seccomp_data.
fn without_x32() -> BpfProgram {
    let step = |code, jt, k| sock_filter { code, jt, jf: 0, k };
    vec![
        step(LOAD, 0, 0),
        step(JUMP_NOT_LESS, 1, X32_BIT),
        step(RETURN, 0, ALLOW),
        step(RETURN, 0, ERROR | libc::ENOSYS.unsigned_abs()),
    ]
}

/// Applies the filters to this process and its children, permanently. They can't gain privileges by executing a file
/// (no_new_privs).
pub fn apply() -> Result<(), Failure> {
    let filters = filters()
        .map_err(|error| Failure::new(format_args!("the filter of system calls: {error}")))?;
    for filter in &filters {
        apply_filter(filter)
            .map_err(|error| Failure::new(format_args!("the filter of system calls: {error}")))?;
    }
    Ok(())
}
