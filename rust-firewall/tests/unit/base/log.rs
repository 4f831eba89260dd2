// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of messages: the error line and exit code of failures, log levels, and panics.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::thread;

use nix::errno::Errno;
use rust_firewall::base::log::{
    abort_on_panic, fail, failure_set, failure_set_running, failure_set_start, level, level_name,
    set_level, strerror, LogExit, LogLevel, LOG_LEVEL_NAMES,
};

/// Environment variable that makes this test program, started again by a test, fail on purpose.
const FAULT: &str = "TWINWALL_TEST_FAULT";

#[test]
fn exit_codes_are_those_of_the_help_text() {
    let codes = [
        LogExit::Stopped,
        LogExit::Call,
        LogExit::Usage,
        LogExit::Capability,
        LogExit::Kernel,
        LogExit::Owned,
        LogExit::Buffer,
    ];
    assert_eq!(codes.map(|code| code as u8), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_failure_at_start_asks_for_a_report() {
    let failure = failure_set_start("socket", Errno::EMFILE);
    assert_eq!(failure.code, LogExit::Call);
    assert_eq!(
        failure.text,
        "socket: Too many open files: this is not a fault of the command line, please report it"
    );
}

#[test]
fn a_failure_while_running_points_to_the_ledger() {
    let failure = failure_set_running("recvmmsg", Errno::ENOMEM);
    assert_eq!(failure.code, LogExit::Call);
    assert_eq!(
        failure.text,
        "recvmmsg: Cannot allocate memory: the ledger above shows the losses"
    );
}

#[test]
fn an_errno_is_told_without_its_number() {
    assert_eq!(strerror(Errno::EPERM), "Operation not permitted");
    assert_eq!(strerror(Errno::EOPNOTSUPP), "Operation not supported");
}

#[test]
fn printing_a_failure_gives_its_code() {
    let failure = failure_set(LogExit::Kernel, "no NFQUEUE: printed by a test");
    assert_eq!(fail(&failure), LogExit::Kernel);
}

#[test]
fn levels_have_names() {
    assert_eq!(level(), LogLevel::Info);
    for (index, (level_of, name)) in LOG_LEVEL_NAMES.into_iter().enumerate() {
        assert_eq!((level_of as usize, level_name(level_of)), (index, name));
        set_level(level_of);
        assert_eq!(level(), level_of);
    }
    set_level(LogLevel::Info);
}

#[test]
fn a_fault_of_a_thread_ends_the_process() {
    if std::env::var_os(FAULT).is_some() {
        abort_on_panic();
        let _ = thread::spawn(|| panic!("of {}", "a test")).join();
        return; // not reached
    }
    let program = std::env::current_exe().expect("a program");
    let output = Command::new(program)
        .args(["--exact", "base::log::a_fault_of_a_thread_ends_the_process"])
        .arg("--nocapture")
        .env(FAULT, "")
        .output()
        .expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{stderr}");
    let line = stderr.lines().last().unwrap_or_default();
    assert!(
        line.starts_with(concat!("error: a fault of the firewall at ", file!(), ":"))
            && line.ends_with(": of a test: please report it"),
        "{stderr}"
    );
}
