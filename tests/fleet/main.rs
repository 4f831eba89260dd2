// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests a fleet at its full size: hosts with firewalls in namespaces, real etcd, and agents without a firewall for
//! load.
//!
//!     fleet demo
//!     fleet test [--hosts N,N] [--agents N] [--pushes N] [--out FOLDER]
//!
//! `--hosts 0` and `--agents 0` leave out a part; a fleet has more hosts than the three whose agents end.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Context};

mod demo;
mod hosts;
mod load;
mod measure;
mod report;
mod traffic;

use report::Run;

struct Arguments {
    hosts: Vec<usize>,
    agents: usize,
    pushes: usize,
    out: PathBuf,
}

fn arguments(words: impl Iterator<Item = String>) -> anyhow::Result<Arguments> {
    let mut taken = Arguments {
        hosts: vec![20, 300],
        agents: 2000,
        pushes: 10,
        out: "build/fleet".into(),
    };
    let mut words = words;
    while let Some(word) = words.next() {
        let value = words
            .next()
            .with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--hosts" => {
                let numbers = value.split(',').map(str::parse);
                taken.hosts = numbers.collect::<Result<_, _>>().context("--hosts")?;
                taken.hosts.retain(|count| *count > 0);
            }
            "--agents" => taken.agents = value.parse().context("--agents")?,
            "--pushes" => taken.pushes = value.parse().context("--pushes")?,
            "--out" => taken.out = value.into(),
            _ => bail!("unknown option {word}"),
        }
    }
    Ok(taken)
}

/// Raises the limit of open files, which etcd inherits: it has a connection or two to each agent.
fn raise_file_limit() -> std::io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both calls read or write the one struct, which outlives them.
    let done = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit)
    };
    match done {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn test(arguments: &Arguments) -> anyhow::Result<()> {
    let mut runs: Vec<Run> = Vec::new();
    for count in &arguments.hosts {
        runs.push(hosts::run(*count, arguments.pushes)?);
        // Writes the report after each run, so that its figures remain if a later run fails.
        report::write(&arguments.out, &runs)?;
    }
    if arguments.agents > 0 {
        runs.push(load::run(arguments.agents)?);
        report::write(&arguments.out, &runs)?;
    }
    Ok(())
}

fn run() -> anyhow::Result<()> {
    raise_file_limit()?;
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("demo") => demo::run(),
        Some("test") => test(&arguments(words)?),
        _ => bail!("expected demo or test"),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fleet: {error:#}");
            ExitCode::FAILURE
        }
    }
}
