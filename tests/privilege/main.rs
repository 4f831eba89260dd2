// SPDX-License-Identifier: GPL-2.0-or-later
//! Least privilege: what a running firewall may still do, what happens if it does something else, and what it tells
//! systemd.

use std::process::ExitCode;

use twinwall_tests::case::run;

mod calls;
mod declared;
mod files;
mod forbidden;
mod notify;
mod rights;
mod running;
mod user;

fn main() -> ExitCode {
    let parts = [
        declared::cases(),
        rights::cases(),
        user::cases(),
        forbidden::cases(),
        files::cases(),
        calls::cases(),
        notify::cases(),
    ];
    run(parts.into_iter().flatten().collect())
}
