// SPDX-License-Identifier: GPL-2.0-or-later
//! Each thing that the failure contract is about is made to happen: what the contract says must come true.

use std::process::ExitCode;

use twinwall_tests::case::{for_each_twin, run};

mod contract;
mod crash;
mod flips;
mod odd;
mod overload;
mod scene;
mod stall;

fn main() -> ExitCode {
    let rows = [
        contract::ROWS,
        stall::ROWS,
        crash::ROWS,
        overload::ROWS,
        odd::ROWS,
        flips::ROWS,
    ]
    .concat();
    run(for_each_twin(&rows))
}
