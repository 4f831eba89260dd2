// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares the twins with each other, without root: `check` on policies and texts that are almost policies, and
//! `explain` on random policies and packets, some with names, and on comments of captures. Every byte of their output
//! must be equal.
//!     differential [--seconds N] [--seed N] [--decisions N]
//! Continues until the time is over and the number of packets is decided. Disagreements about texts and decisions that
//! are saved in tests/corpus/crashes are judged first. A new disagreement is printed as one line and saved there,
//! except that comments are only printed; all but those about names are shrunk. The exit code is then 1.

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{bail, Context};

mod ask;
mod comments;
mod decisions;
mod names;
mod texts;

use ask::Asker;

pub struct Options {
    seconds: u64,
    seed: u64,
    decisions: u64,
}

/// Statistics of a run.
#[derive(Default)]
pub struct Tally {
    pub texts: u64,
    pub refused: u64,
    pub policies: u64,
    pub decisions: u64,
    pub comments: u64,
    /// Number of packets with an unknown name.
    pub opens: u64,
    pub disagreements: u64,
}

/// Number of disagreements after which the search ends: each takes time to shrink.
const DISAGREEMENTS_MAX: u64 = 10;

fn parse(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<Options> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let mut options = Options {
        seconds: 20,
        seed: now,
        decisions: 0,
    };
    while let Some(argument) = arguments.next() {
        let value = arguments
            .next()
            .with_context(|| format!("{argument} needs a value"))?;
        let number = value
            .parse()
            .with_context(|| format!("{argument}: {value} is no number"))?;
        match argument.as_str() {
            "--seconds" => options.seconds = number,
            "--seed" => options.seed = number,
            "--decisions" => options.decisions = number,
            _ => bail!("unknown option {argument}"),
        }
    }
    Ok(options)
}

fn run(options: &Options) -> anyhow::Result<bool> {
    let asker = Asker::new()?;
    let mut tally = Tally::default();
    texts::again(&asker, &mut tally)?;
    decisions::again(&asker, &mut tally)?;
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let corpus = texts::corpus()?;
    let mut part = 0;
    while (Instant::now() < end || tally.decisions < options.decisions)
        && tally.disagreements < DISAGREEMENTS_MAX
    {
        decisions::part(&asker, options.seed, part, &mut tally)?;
        names::part(&asker, options.seed, part, &mut tally)?;
        for number in 0..texts::PER_PART {
            texts::part(
                &asker,
                &corpus,
                options.seed,
                part * texts::PER_PART + number,
                &mut tally,
            )?;
        }
        comments::part(&asker, options.seed, part, &mut tally)?;
        part += 1;
    }
    println!(
        "seed {}: {} texts ({} refused), {} policies, {} decisions ({} with unknown names), {} comments, {} disagreements",
        options.seed,
        tally.texts,
        tally.refused,
        tally.policies,
        tally.decisions,
        tally.opens,
        tally.comments,
        tally.disagreements
    );
    Ok(tally.disagreements == 0)
}

fn main() -> ExitCode {
    let result = parse(std::env::args().skip(1)).and_then(|options| run(&options));
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
