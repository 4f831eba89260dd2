// SPDX-License-Identifier: GPL-2.0-or-later
//! `diff`: lists the flows that another policy would decide differently from the running policy.

mod capture;
mod engine;
mod flips;
mod live;

use std::ffi::OsString;
use std::path::Path;

use rust_firewall::options::{self, Options, OptionsAction};
use rust_firewall::policy::parse;

use crate::arguments::{Arguments, Diff, Lacks};
use crate::client;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::running;
use crate::units::count;

use capture::Capture;
use engine::{Engine, Interfaces};
use flips::{Flips, Left};

/// Returns the options of the firewall's `explain` that supply the metadata that a capture lacks.
fn lacking(lacks: &Lacks) -> Vec<OsString> {
    let given = [
        ("hook", &lacks.hook),
        ("iif", &lacks.iif),
        ("oif", &lacks.oif),
        ("mark", &lacks.mark),
        ("uid", &lacks.uid),
        ("gid", &lacks.gid),
        ("ct-state", &lacks.ct_state),
        ("ct-mark", &lacks.ct_mark),
    ];
    let options = given.into_iter().filter_map(|(name, value)| {
        let value = value.as_ref()?;
        Some(format!("--{name}={value}").into())
    });
    options.collect()
}

/// Returns the firewall options with which packets are decided.
/// - given: options of `explain` that make it decide like a running firewall.
fn settings(given: Vec<OsString>, diff: &Diff) -> Result<Options, Failure> {
    let mut words = [options::PROGRAM, "explain"].map(OsString::from).to_vec();
    words.extend(given);
    words.extend(lacking(&diff.lacks));
    let capture = diff.capture.as_deref().unwrap_or("-");
    words.extend(["--", &diff.new, capture].map(OsString::from));
    match options::parse(&words)? {
        OptionsAction::Explain(options) => Ok(options),
        _ => Err(Failure::new(
            Exit::Usage,
            "diff needs a policy and a capture: see --help",
        )),
    }
}

/// Result of a comparison of two policies.
struct Compared {
    flips: Flips,
    left: Left,
    /// Number of packets that came too fast to be compared.
    missed: u64,
}

impl Compared {
    fn text(&self) -> Vec<String> {
        let mut lines = self.flips.text();
        if self.left.nameless > 0 {
            lines.push(format!(
                "{} whose names the capture lacks (the connection began before it, or a gap follows) were not compared",
                count(self.left.nameless, "packet")
            ));
        }
        if self.left.damaged > 0 {
            lines.push(format!(
                "damaged comments: {}: the options replace them",
                self.left.damaged
            ));
        }
        if self.missed > 0 {
            lines.push(format!(
                "{} packets came too fast and were not compared",
                self.missed
            ));
        }
        lines
    }
}

/// Compares the policy file `old` with a new policy by a capture.
fn compare_files(old: &str, diff: &Diff) -> Result<Compared, Failure> {
    // The kernel accepts what no chain decides.
    let options = settings(vec!["--default=accept".into()], diff)?;
    let interfaces = Interfaces::default();
    let new = Engine::new(parse::file(&diff.new)?, &options, &interfaces)?;
    let old = Engine::new(parse::file(old)?, &options, &interfaces)?;
    let mut flips = Flips::default();
    let capture = Capture {
        last_seconds: diff.last,
        has_all: true,
    };
    let left = capture.compare(&options, old, new, &interfaces, &mut flips)?;
    Ok(Compared {
        flips,
        left,
        missed: 0,
    })
}

/// Compares the policy file of a running firewall with a new policy by a capture. With --live, compares the firewall's
/// own verdicts with those of the new policy.
fn compare_running(socket: &Path, diff: &Diff) -> Result<Compared, Failure> {
    let mut client = client::connect(socket)?;
    let status = client.status()?;
    let options = settings(running::explain_options(&running::options(&status)?), diff)?;
    let interfaces = Interfaces::default();
    // Errors in the new policy are reported first.
    let new = Engine::new(parse::file(&diff.new)?, &options, &interfaces)?;
    let mut flips = Flips::default();
    let (mut left, mut missed) = (Left::default(), 0);
    match diff.live {
        false => {
            let (_, running) = running::policy(&status, client.writer())?;
            let old = Engine::new(running, &options, &interfaces)?;
            let capture = Capture {
                last_seconds: diff.last,
                has_all: false,
            };
            left = capture.compare(&options, old, new, &interfaces, &mut flips)?;
        }
        true => {
            missed = live::compare(client, &status, diff.seconds, new, &interfaces, &mut flips)?;
        }
    }
    Ok(Compared {
        flips,
        left,
        missed,
    })
}

fn compare(socket: &Path, diff: &Diff) -> Result<Compared, Failure> {
    match &diff.old {
        Some(old) => compare_files(old, diff),
        None => compare_running(socket, diff),
    }
}

/// Returns the text of `diff --live`: flows of the next `seconds` seconds that the policy file `new` would decide
/// differently from the running firewall.
pub fn live(socket: &Path, new: &Path, seconds: u32) -> Result<Vec<String>, Failure> {
    let diff = Diff {
        new: new.to_string_lossy().into_owned(),
        capture: None,
        old: None,
        last: None,
        live: true,
        seconds,
        lacks: Lacks::default(),
    };
    Ok(compare(socket, &diff)?.text())
}

pub fn run(arguments: &Arguments, diff: &Diff) -> Result<Exit, Failure> {
    let compared = compare(&arguments.socket, diff)?;
    match arguments.json {
        true => output::json(&compared.flips.json(compared.left, compared.missed)),
        false => output::lines(&compared.text()),
    };
    Ok(match compared.flips.any() {
        true => Exit::Findings,
        false => Exit::Fine,
    })
}
