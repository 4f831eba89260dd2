// SPDX-License-Identifier: GPL-2.0-or-later
//! The lines of failures.

use nix::errno::Errno;
use rust_firewall::log::{
    fail, failure_set, failure_set_running, failure_set_start, strerror, LogExit,
};

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
        "recvmmsg: Cannot allocate memory: the ledger above tells what was lost"
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
