// SPDX-License-Identifier: GPL-2.0-or-later
//! `drain`: ends the firewall when no packet waits for its verdict.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::arguments::Arguments;
use crate::client;
use crate::failure::{Exit, Failure};
use crate::output;

/// Time limit for a drained firewall to end, in seconds.
const PATIENCE_S: u32 = 30;

pub fn run(arguments: &Arguments, seconds: u32) -> Result<Exit, Failure> {
    let mut client = client::connect(&arguments.socket)?;
    let begun = Instant::now();
    client.wait_at_most(Some(Duration::from_secs((seconds + PATIENCE_S).into())))?;
    let answer = client.ask(&json!({"command": "drain", "seconds": seconds}))?;
    // The firewall closes the connection when it ends.
    while client.line()?.is_some() {}
    let text = format!("drained in {:.1} s", begun.elapsed().as_secs_f64());
    match arguments.json {
        true => output::json(&[answer.line]),
        false => output::line(&text),
    };
    Ok(Exit::Fine)
}
