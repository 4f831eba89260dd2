// SPDX-License-Identifier: GPL-2.0-or-later
//! Detects the features of this kernel's io_uring. A missing optional feature has a fallback, and a note; if a required
//! feature is missing, io_uring is unusable.

use std::io;

use io_uring::squeue::Flags;
use io_uring::{cqueue, opcode, squeue, Builder, IoUring, Probe};

use super::entry::{error_entry, open_entry};
use crate::targets::Family;

/// Optional features of this kernel's io_uring, which the rings use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// True if a ring can be limited to the thread that created it, which saves locks (Linux 6.0).
    pub single_issuer: bool,
    /// True if completions can wait for the next system call instead of interrupting the thread (Linux 5.19).
    pub coop_taskrun: bool,
    /// True if socket errors can be queried through the ring (Linux 6.7).
    pub socket_error: bool,
}

/// Returns the features and notes on fallbacks, or the reason why io_uring is unusable.
pub fn probe() -> Result<(Features, Vec<String>), String> {
    let ring: IoUring = IoUring::new(8).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has none".to_string(),
        Some(libc::EPERM | libc::EACCES) => {
            "it is forbidden here (kernel.io_uring_disabled, or a sandbox)".to_string()
        }
        _ => format!("it does not start: {error}"),
    })?;
    let params = ring.params();
    let needed = [
        (
            params.is_feature_nodrop(),
            "completions that are kept (5.5)",
        ),
        (
            params.is_feature_ext_arg(),
            "waiting with a time-out (5.11)",
        ),
        (
            params.is_feature_skip_cqe_on_success(),
            "silent successes (5.17)",
        ),
        (params.is_feature_linked_file(), "late files (5.17)"),
    ];
    for (is_there, what) in needed {
        if !is_there {
            return Err(format!("this kernel's lacks {what}"));
        }
    }
    let mut operations = Probe::new();
    ring.submitter()
        .register_probe(&mut operations)
        .map_err(|error| format!("it does not tell its operations: {error}"))?;
    for (code, name) in [
        (opcode::Socket::CODE, "SOCKET (5.19)"),
        (opcode::Connect::CODE, "CONNECT (5.5)"),
        (opcode::Recv::CODE, "RECV (5.6)"),
        (opcode::Send::CODE, "SEND (5.6)"),
        (opcode::AsyncCancel::CODE, "ASYNC_CANCEL (5.5)"),
    ] {
        if !operations.is_supported(code) {
            return Err(format!("this kernel's lacks {name}"));
        }
    }
    ring.submitter()
        .register_files_sparse(8)
        .map_err(|error| format!("direct descriptors are refused: {error}"))?;
    let features = Features {
        single_issuer: builder().setup_single_issuer().build(8).is_ok(),
        coop_taskrun: builder().setup_coop_taskrun().build(8).is_ok(),
        socket_error: tells_socket_errors(),
    };
    let mut told = Vec::new();
    for (is_there, what) in [
        (
            features.single_issuer,
            "SINGLE_ISSUER (6.0): rings take a lock",
        ),
        (
            features.coop_taskrun,
            "COOP_TASKRUN (5.19): completions interrupt",
        ),
        (
            features.socket_error,
            "GETSOCKOPT (6.7): what ICMP refuses is told as host-unreach",
        ),
    ] {
        if !is_there {
            told.push(format!("this kernel's io_uring lacks {what}"));
        }
    }
    Ok((features, told))
}

fn builder() -> Builder<squeue::Entry, cqueue::Entry> {
    IoUring::builder()
}

/// Returns true if this kernel's rings support SO_ERROR queries.
fn tells_socket_errors() -> bool {
    let try_it = || -> io::Result<bool> {
        let mut ring: IoUring = IoUring::new(4)?;
        ring.submitter().register_files_sparse(1)?;
        let mut error = -1;
        let open = open_entry(0, Family::V4).flags(Flags::IO_LINK | Flags::SKIP_SUCCESS);
        let ask = error_entry(0, &mut error);
        // SAFETY: `error` outlives the entry, whose completion is awaited.
        unsafe { ring.submission().push_multiple(&[open, ask]) }.map_err(io::Error::other)?;
        ring.submit_and_wait(1)?;
        let answer = ring.completion().next().map(|entry| entry.result());
        Ok(answer.is_some_and(|result| result >= 0) && error == 0)
    };
    try_it().unwrap_or(false)
}
