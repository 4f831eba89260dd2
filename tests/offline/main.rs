// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests without traffic: texts, policies, captures and sources. Only tests with nft need root, for a separate
//! namespace.

use std::process::ExitCode;

use twinwall_tests::case::{run, Part};

mod platform;
mod policy;
mod report;
mod results;
mod shipped;
mod vectors_policy;

const PARTS: [Part; 6] = [
    Part::new("platform", platform::cases),
    Part::new("policy", policy::cases),
    Part::new("report", report::cases),
    Part::new("results", results::cases),
    Part::new("shipped", shipped::cases),
    Part::new("vectors-policy", vectors_policy::cases),
];

fn main() -> ExitCode {
    run(&PARTS)
}
