// SPDX-License-Identifier: GPL-2.0-or-later
//! The judge: sends the same packets through nf_tables, the Rust twin and the C twin, in separate namespaces, and
//! compares the results. With --split it sends them through each twin with the whole policy, and through nf_tables with
//! the split policy, for which a twin reads names.
//!     certify [--split [--queue nft|iptables]] [--seconds N] [--seed N] [--packets N] [--only NAME]... [FILE.nft]...
//! Policies are the given files; without files, the shipped policies, policies of tests/corpus, and those saved from
//! earlier disagreements. Random policies from the seed follow until the time is over. Each disagreement is printed as
//! one line, shrunk, and saved in tests/corpus/crashes; the exit code is then 1. Packets that differ as a line of
//! tests/judge/conformance/deviations.txt expects are counted instead.

use std::process::ExitCode;

mod answer;
mod bench;
mod cell;
mod compare;
mod deviations;
mod excuse;
mod expected;
mod netlink;
mod options;
mod ruleset;
mod socket;
mod split;
mod subject;

/// Exit code of a program that could not run here, recognised by tests/run.
const SKIPPED: u8 = 77;

fn main() -> ExitCode {
    let options = match options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    // SAFETY: geteuid(2) can't fail and touches no memory.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: network namespaces need root");
        return ExitCode::from(SKIPPED);
    }
    let judged = match options.split {
        true => split::sit(&options),
        false => bench::sit(&options),
    };
    match judged {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
