// SPDX-License-Identifier: GPL-2.0-or-later
//! Fallback without io_uring: the scan uses epoll and reports it.

use std::io;
use std::os::unix::process::CommandExt;

use crate::place::{namespace, parsed, text};

/// Installs a filter that fails io_uring_setup with EPERM, as containers do, and allows all other calls.
fn forbid_io_uring() -> io::Result<()> {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let filter = [
        // The number of the call is the first word of seccomp_data.
        step((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0, 0, 0),
        step(
            (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            0,
            1,
            libc::SYS_io_uring_setup as u32,
        ),
        step(
            (libc::BPF_RET | libc::BPF_K) as u16,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        step(
            (libc::BPF_RET | libc::BPF_K) as u16,
            0,
            0,
            libc::SECCOMP_RET_ALLOW,
        ),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: prctl(2) reads the program, which outlives the calls.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    };
    match done {
        true => Ok(()),
        false => Err(io::Error::last_os_error()),
    }
}

#[test]
fn epoll_takes_over_and_says_so() {
    let place = namespace();
    let run = |engine: &str| {
        let mut command = place.command(env!("CARGO_BIN_EXE_scanner"));
        command.args(["127.0.0.0/24", "-p", "9", "-o", "json", "--engine", engine]);
        // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
        unsafe { command.pre_exec(forbid_io_uring) };
        command.output().unwrap()
    };
    let output = run("auto");
    let (_, summary) = parsed(&output);
    assert_eq!(summary["engine"], "epoll");
    assert_eq!(summary["states"]["closed"], 256);
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("note: no io_uring: it is forbidden here"),
        "{stderr}"
    );
    let output = run("io_uring");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("--engine auto"),
        "{}",
        text(&output.stderr)
    );
}
