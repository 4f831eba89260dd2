// SPDX-License-Identifier: GPL-2.0-or-later
//! `log`: shows or sets the level of the firewall's messages on stderr.

use serde_json::json;

use crate::answer;
use crate::arguments::{self, Arguments, Level};
use crate::client;
use crate::failure::{Exit, Failure};
use crate::output;

pub fn run(arguments: &Arguments, level: Option<Level>) -> Result<Exit, Failure> {
    let mut client = client::connect(&arguments.socket)?;
    let mut request = json!({"command": "log"});
    if let Some(level) = level {
        request["level"] = arguments::name(level).into();
    }
    let answer = client.ask(&request)?;
    let said: answer::Level = answer.read()?;
    let changed = said.level != said.was;
    let text = match changed {
        true => format!("{} (was {})", said.level, said.was),
        false => said.level,
    };
    match arguments.json {
        true => output::json(&[answer.line]),
        false => output::line(&text),
    };
    Ok(Exit::Fine)
}
