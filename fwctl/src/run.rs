// SPDX-License-Identifier: GPL-2.0-or-later
//! `fwctl run`: runs a command in a cage.

use std::ffi::OsString;
use std::process;

use cage::settings::{Settings, Source};
use cage::uplink::UplinkKind;
use cage::{failure, programs, report, Ended};
use rustix::process::{setrlimit, Resource, Rlimit};
use signal_hook::low_level::emulate_default_handler;

use crate::arguments::{Run, Twin, Uplink};
use crate::failure::{Exit, Failure};
use crate::output;

fn program(twin: Twin) -> Result<std::path::PathBuf, failure::Failure> {
    let (name, package) = match twin {
        Twin::Rust => ("rust-firewall", "twinwall-rust"),
        Twin::C => ("c-firewall", "twinwall-c"),
    };
    let found = programs::find_beside(name);
    found.ok_or_else(|| {
        failure::Failure::new(format_args!(
            "{name} is not installed: install the package {package}, or choose the other with --twin"
        ))
    })
}

fn settings(asked: &Run) -> Result<Settings, failure::Failure> {
    let source = match (&asked.learn, &asked.source.policy) {
        (Some(file), _) => Source::Learn(file.clone()),
        (None, Some(file)) => Source::File(file.clone()),
        (None, None) => Source::Allow(asked.source.allow.clone()),
    };
    Ok(Settings {
        source,
        firewall: program(asked.twin)?,
        uplink: asked.uplink.map(|uplink| match uplink {
            Uplink::Pasta => UplinkKind::Pasta,
            Uplink::Slirp4netns => UplinkKind::Slirp,
        }),
        verbose: asked.verbose,
        report: asked.report.clone(),
        host_loopback: asked.host_loopback,
        host_sockets: asked.host_socket.clone(),
        ech: asked.ech,
        command: asked.command.clone(),
    })
}

/// Ends this process like the command: with its exit code, or by its signal. A signal writes no core file.
fn end(ended: Ended) -> ! {
    match ended {
        Ended::Exited(code) => process::exit(code),
        Ended::Signaled(number) => {
            let none = Rlimit {
                current: Some(0),
                maximum: Some(0),
            };
            let _ = setrlimit(Resource::Core, none);
            // If the signal ends no process, the exit code contains its number.
            let _ = emulate_default_handler(number);
            process::exit(128 + number)
        }
    }
}

fn fail(failure: failure::Failure) -> ! {
    report::tell("error", &failure.text);
    process::exit(failure.code.into())
}

/// Runs the command, and ends this process like the command. With --print, only prints namespaces, rules and policy.
pub fn run(asked: &Run) -> Result<Exit, Failure> {
    let settings = settings(asked).unwrap_or_else(|failure| fail(failure));
    if asked.print {
        match cage::print(&settings) {
            Ok(text) => output::lines(&text.lines().collect::<Vec<&str>>()),
            Err(failure) => fail(failure),
        };
        return Ok(Exit::Fine);
    }
    match cage::run(&settings) {
        Ok(ended) => end(ended),
        Err(failure) => fail(failure),
    }
}

/// Runs a stage of a cage: one of the cage's own processes (cage/src/stage.rs).
pub fn stage(name: &str, arguments: &[OsString]) -> Result<Exit, Failure> {
    match cage::run_stage(name, arguments.to_vec()) {
        Ok(()) => Ok(Exit::Fine),
        Err(failure) => fail(failure),
    }
}
