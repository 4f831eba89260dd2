// SPDX-License-Identifier: GPL-2.0-or-later
//! `tail`: prints packets when they are decided, until Ctrl-C.

use serde_json::json;

use crate::arguments::{self, Arguments, Tail};
use crate::client::{self, Client};
use crate::event::Event;
use crate::failure::{tell, Exit, Failure};
use crate::output;

/// Requests events.
/// - verdicts: verdicts of the packets whose events are requested; empty: all.
/// - packets: true for events with the packet's bytes and all metadata that a policy can match.
pub fn begin(client: &mut Client, verdicts: &[String], packets: bool) -> Result<(), Failure> {
    let mut request = json!({"command": "tail"});
    if !verdicts.is_empty() {
        request["verdicts"] = verdicts.into();
    }
    if packets {
        request["packets"] = true.into();
    }
    client.ask(&request)?;
    // The next event may take long.
    client.wait_at_most(None)
}

pub fn run(arguments: &Arguments, tail: &Tail) -> Result<Exit, Failure> {
    let verdicts: Vec<String> = tail.verdict.iter().map(|v| arguments::name(*v)).collect();
    let mut client = client::connect(&arguments.socket)?;
    begin(&mut client, &verdicts, false)?;
    let mut packets = 0;
    while tail.count.is_none_or(|count| packets < count) {
        let Some(line) = client.line()? else {
            tell("note", "the firewall has ended, or ended the connection");
            break;
        };
        let event = Event::parse(&line)?;
        packets += u64::from(event.is_packet());
        let printed = match arguments.json {
            true => output::json(&[line]),
            false => output::line(&event.text()),
        };
        if !printed {
            break;
        }
    }
    Ok(Exit::Fine)
}
