// SPDX-License-Identifier: GPL-2.0-or-later
//! Least privilege: the rights of a running firewall, the effect of violations, and its messages to systemd.

use twinwall_tests::case::Case;

mod calls;
mod declared;
mod files;
mod forbidden;
mod inject;
mod journal;
mod limits;
mod notify;
mod paths;
mod rights;
mod running;
mod user;

/// Returns all test cases of this folder, which is one part of the tests.
pub fn cases() -> Vec<Case> {
    let parts = [
        declared::cases(),
        rights::cases(),
        user::cases(),
        forbidden::cases(),
        limits::cases(),
        files::cases(),
        paths::cases(),
        calls::cases(),
        notify::cases(),
        journal::cases(),
    ];
    parts.into_iter().flatten().collect()
}
