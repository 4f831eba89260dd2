// SPDX-License-Identifier: GPL-2.0-or-later
//! What each question should meet by a policy, as the firewall itself explains it: `explain --json`, run as a program.

use std::io::{BufRead, BufReader, BufWriter, Read};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::pcap;
use crate::failure::{Failure, Result};
use crate::ports::Ports;
use crate::state::State;

/// What the policy does with a SYN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept,
    Drop,
    /// With `tcp reset`, or `icmp port-unreachable` and the like.
    Reject(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub verdict: Verdict,
    /// The rule that decided, `FILE:LINE`.
    pub by: String,
}

impl Expected {
    /// Whether a state is one that the verdict leads to. A port that is let through is open or closed: whether somebody
    /// listens is not the policy's business.
    pub fn meets(&self, state: State) -> bool {
        match &self.verdict {
            Verdict::Accept => matches!(state, State::Open | State::Closed),
            Verdict::Drop => state == State::Filtered,
            Verdict::Reject(with) if with == "tcp reset" => state == State::Closed,
            // Port-unreachable reads as a refusal, all others as a filter.
            Verdict::Reject(with) if with.ends_with("port-unreachable") => {
                matches!(state, State::Closed | State::Filtered)
            }
            Verdict::Reject(_) => state == State::Filtered,
        }
    }
}

/// One line of `explain --json`, as far as it is needed; the last one has other keys.
#[derive(Deserialize)]
struct Explained {
    verdict: Option<String>,
    by: Option<String>,
    reject: Option<String>,
}

pub struct Question<'a> {
    pub program: Option<&'a str>,
    pub policy: &'a str,
    pub hook: &'a str,
    pub iif: Option<&'a str>,
    pub from: IpAddr,
    pub to: IpAddr,
    pub ports: &'a Ports,
    /// Between two questions.
    pub apart: Duration,
}

/// Where the firewall is: as named, beside this program, or on PATH.
fn program(named: Option<&str>) -> PathBuf {
    const NAME: &str = "rust-firewall";
    if let Some(named) = named {
        return named.into();
    }
    let beside = std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name(NAME));
    beside
        .filter(|path| path.exists())
        .unwrap_or_else(|| NAME.into())
}

/// Asks the firewall for each port in turn.
pub fn expected(question: &Question) -> Result<Vec<Expected>> {
    let program = program(question.program);
    let shown = program.display();
    let mut command = Command::new(&program);
    command.args([
        "explain",
        "--json",
        "--hook",
        question.hook,
        "--ct-state",
        "new",
    ]);
    if let Some(iif) = question.iif {
        command.args(["--iif", iif]);
    }
    let mut child = command
        .args([question.policy, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            Failure::usage(format!(
                "{shown}: cannot be started: {error}: name the firewall by --firewall"
            ))
        })?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (Some(stdin), Some(stdout), Some(mut stderr)) = (stdin, stdout, child.stderr.take()) else {
        return Err(Failure::failed(format!("{shown}: no pipes")));
    };
    let (read, words) = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut to = BufWriter::new(stdin);
            // Who does not read to the end says why on stderr.
            let ports = question.ports.iter();
            let _ = pcap::write(&mut to, question.from, question.to, ports, question.apart);
        });
        let words = scope.spawn(move || {
            let mut words = String::new();
            let _ = stderr.read_to_string(&mut words);
            words
        });
        let read = read(BufReader::new(stdout), question.ports.len() as usize);
        (read, words.join().unwrap_or_default())
    });
    let status = child
        .wait()
        .map_err(|error| Failure::system(&format!("{shown}"), &error))?;
    if !status.success() {
        let words = words.trim().trim_start_matches("error: ");
        return Err(Failure::usage(format!("{shown} explain: {words}")));
    }
    read.map_err(|why| Failure::failed(format!("{shown} explain --json: {why}")))
}

fn read(lines: impl BufRead, wanted: usize) -> std::result::Result<Vec<Expected>, String> {
    let mut expected = Vec::with_capacity(wanted);
    for line in lines.lines() {
        let line = line.map_err(|error| error.to_string())?;
        let explained: Explained =
            serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let Some(verdict) = explained.verdict else {
            continue;
        };
        let verdict = match (verdict.as_str(), explained.reject) {
            ("accept" | "mark", _) => Verdict::Accept,
            ("drop", _) => Verdict::Drop,
            ("reject", with) => Verdict::Reject(with.unwrap_or_default()),
            (other, _) => return Err(format!("the verdict {other} says nothing of a port")),
        };
        expected.push(Expected {
            verdict,
            by: explained.by.unwrap_or_default(),
        });
    }
    match expected.len() == wanted {
        true => Ok(expected),
        false => Err(format!(
            "{} packets were explained of {wanted}",
            expected.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_lead_to_states() {
        let meets = |verdict: Verdict| {
            let expected = Expected {
                verdict,
                by: String::new(),
            };
            [State::Open, State::Closed, State::Filtered, State::Error]
                .map(|state| expected.meets(state))
        };
        assert_eq!(meets(Verdict::Accept), [true, true, false, false]);
        assert_eq!(meets(Verdict::Drop), [false, false, true, false]);
        assert_eq!(
            meets(Verdict::Reject("tcp reset".into())),
            [false, true, false, false]
        );
        assert_eq!(
            meets(Verdict::Reject("icmp host-unreachable".into())),
            [false, false, true, false]
        );
    }

    #[test]
    fn what_is_explained_is_read() {
        let lines = "{\"packet\":1,\"verdict\":\"accept\",\"reject\":null,\"by\":\"p:3\"}\n\
                     {\"packet\":2,\"verdict\":\"reject\",\"reject\":\"tcp reset\",\"by\":\"p:4\"}\n{\"counters\":[]}\n";
        let read_all = read(lines.as_bytes(), 2).unwrap();
        assert_eq!(read_all[1].verdict, Verdict::Reject("tcp reset".into()));
        assert_eq!(read_all[0].by, "p:3");
        assert!(read(lines.as_bytes(), 3).unwrap_err().contains("2 packets"));
        assert!(read(&b"no object\n"[..], 1).is_err());
    }
}
