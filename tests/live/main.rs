// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that need running firewalls, or the kernel: each case in separate namespaces.

use std::process::ExitCode;

use twinwall_tests::case::{run, Part};

mod apply;
mod cage;
mod capture;
mod chaos;
mod control;
mod evasion;
mod events;
mod fleet;
mod fwctl;
mod kernel;
mod metrics;
mod names;
mod netns;
mod packaging;
mod platform;
mod privilege;
mod reload;
mod rules;
mod stage;
mod upgrade;

const PARTS: [Part; 24] = [
    Part::new("apply", apply::cases),
    Part::new("cage", cage::cases),
    Part::new("capture", capture::cases),
    Part::new("capture-lab", capture::lab_cases),
    Part::new("chaos", chaos::cases),
    Part::new("conntrack-full", stage::full_cases),
    Part::new("control", control::cases),
    Part::new("evasion", evasion::cases),
    Part::new("events", events::cases),
    Part::new("fleet", fleet::cases),
    Part::new("fleet-long", fleet::long_cases),
    Part::new("fwctl", fwctl::cases),
    Part::new("kernel", kernel::cases),
    Part::new("metrics", metrics::cases),
    Part::new("names", names::cases),
    Part::new("netns", netns::cases),
    Part::new("packaging", packaging::cases),
    Part::new("platform", platform::cases),
    Part::new("privilege", privilege::cases),
    Part::new("reload", reload::cases),
    Part::new("rules", rules::cases),
    Part::new("stage", stage::cases),
    Part::new("stage-long", stage::long_cases),
    Part::new("upgrade", upgrade::cases),
];

fn main() -> ExitCode {
    match fwctl::standin::run() {
        Some(code) => code,
        None => run(&PARTS),
    }
}
