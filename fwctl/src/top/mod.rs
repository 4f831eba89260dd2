// SPDX-License-Identifier: GPL-2.0-or-later
//! `top`: a live view of the firewall.

pub mod arguments;
mod draw;
mod sample;
mod screen;
mod talkers;
#[cfg(test)]
mod tests;
mod view;

use std::io::{stdin, stdout, IsTerminal};
use std::time::Duration;

use crate::arguments::Arguments;
use crate::client;
use crate::failure::{Exit, Failure};
use crate::output;

use arguments::Top;
use talkers::Talkers;
use view::Watch;

/// Prints a line of JSON per interval, until `top.count` lines are printed.
fn run_json(arguments: &Arguments, top: &Top, interval: Duration) -> Result<Exit, Failure> {
    let talkers = Talkers::start(arguments.socket.clone(), !top.no_talkers);
    let samples = sample::start(arguments.socket.clone(), interval);
    let mut watch = Watch::default();
    let mut printed = 0;
    while top.count.is_none_or(|count| printed < count) {
        let Ok(sample) = samples.recv() else {
            break;
        };
        let Some(view) = watch.view(sample?, talkers.take()) else {
            continue;
        };
        let line = serde_json::to_string(&view);
        let line = line.map_err(|error| Failure::new(Exit::Refused, error))?;
        if !output::json(&[line]) {
            break;
        }
        printed += 1;
    }
    Ok(Exit::Fine)
}

pub fn run(arguments: &Arguments, top: &Top) -> Result<Exit, Failure> {
    let interval = Duration::from_secs_f64(top.interval);
    // A missing firewall is reported before the screen is initialised.
    drop(client::connect(&arguments.socket)?);
    if arguments.json {
        return run_json(arguments, top, interval);
    }
    if !stdout().is_terminal() || !stdin().is_terminal() {
        return Err(Failure::new(
            Exit::Usage,
            "top draws on a terminal, and there is none: use --json, or status",
        ));
    }
    let talkers = Talkers::start(arguments.socket.clone(), !top.no_talkers);
    screen::run(&arguments.socket, interval, &talkers)
}
