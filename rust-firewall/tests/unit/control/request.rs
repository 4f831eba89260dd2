// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that the control socket's requests are parsed as the vectors say.

use crate::support::lines::{lines, unescape};
use rust_firewall::base::log;
use rust_firewall::control;
use rust_firewall::control::request::ControlCommand;
use rust_firewall::options;

fn name_of(command: ControlCommand) -> &'static str {
    match command {
        ControlCommand::Status => "status",
        ControlCommand::Stats => "stats",
        ControlCommand::Rules => "rules",
        ControlCommand::Reload => "reload",
        ControlCommand::Log => "log",
        ControlCommand::Drain => "drain",
        ControlCommand::Tail => "tail",
        ControlCommand::Proof => "proof",
        ControlCommand::Connections => "connections",
        ControlCommand::Upgrade => "upgrade",
    }
}

/// Returns the result of parsing a line, in the format of the vectors.
fn describe(line: &[u8]) -> String {
    match control::request::parse(line) {
        Err(failure) => format!("error {}", failure.text),
        Ok(request) => format!(
            "{} level={} seconds={} verdicts=0x{:02x} packets={} backend={} undecided={} from={}",
            name_of(request.command),
            request.level.map_or("-", log::level_name),
            request.seconds,
            request.verdicts,
            u8::from(request.packets),
            options::backend_name(request.backend),
            u8::from(request.undecided),
            request.from
        ),
    }
}

#[test]
fn reads_what_the_vectors_say() {
    let lines = lines("control-requests.txt");
    assert!(lines.len() > 40);
    for line in lines {
        let (request, expected) = line.split_once(" => ").expect("a request and what it is");
        assert_eq!(describe(&unescape(request)), expected, "{line}");
    }
}
