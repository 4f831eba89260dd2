// SPDX-License-Identifier: GPL-2.0-or-later
//! What needs no traffic: texts, policies, captures and sources, as both twins read them. Only what is asked of nft wants
//! root, for a namespace of its own.

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
