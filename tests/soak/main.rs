// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs the firewalls under mixed traffic for minutes, with reloads, stalls, upgrades from one twin to the other and
//! back, and kills. Memory must not grow and the ledger must reconcile.
//!
//!     soak [--minutes N] [--out FILE]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::{fs, thread};

use anyhow::{bail, Context};
use testbed::twin::TWINS;

mod figures;
mod life;
mod place;
mod traffic;

use figures::Figures;

struct Arguments {
    minutes: f64,
    out: Option<PathBuf>,
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut taken = Arguments {
        minutes: 30.0,
        out: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--minutes" => taken.minutes = value.parse().context("--minutes")?,
            "--out" => taken.out = Some(value.into()),
            _ => bail!("unknown option {word}"),
        }
    }
    Ok(taken)
}

fn soak() -> anyhow::Result<bool> {
    let arguments = arguments()?;
    let time = Duration::from_secs_f64(arguments.minutes * 60.0);
    let twins = TWINS.map(|twin| thread::spawn(move || life::soak(twin, time)));
    let mut all = Vec::new();
    for twin in twins {
        all.push(twin.join().expect("a soak does not panic")?);
    }
    figures::print(&all);
    if let Some(out) = arguments.out {
        fs::write(&out, figures::json(&all)?).with_context(|| out.display().to_string())?;
    }
    Ok(all.iter().all(Figures::is_good))
}

fn main() -> ExitCode {
    match soak() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("soak: what is marked with ! must not be");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}
