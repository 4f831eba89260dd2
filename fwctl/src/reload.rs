// SPDX-License-Identifier: GPL-2.0-or-later
//! `reload`: makes the firewall load its policy file again.

use serde_json::json;

use crate::answer::Reload;
use crate::arguments::Arguments;
use crate::client;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::running;
use crate::units::count;

pub fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut client = client::connect(&arguments.socket)?;
    let status = client.status()?;
    running::check_expectations(&status, client.writer())?;
    let answer = client.ask(&json!({"command": "reload"}))?;
    let reload: Reload = answer.read()?;
    match arguments.json {
        true => output::json(&[answer.line]),
        false => output::line(&text(&reload)),
    };
    Ok(Exit::Fine)
}

fn text(reload: &Reload) -> String {
    format!(
        "reloaded: generation {}, {}: {} kept, {} added, {} removed; {} ms",
        reload.generation,
        count(reload.rules, "rule"),
        reload.kept,
        reload.added,
        reload.removed,
        reload.milliseconds
    )
}
