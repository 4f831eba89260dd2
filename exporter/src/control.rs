// SPDX-License-Identifier: GPL-2.0-or-later
//! The firewall's answers over its control socket: docs/CONTROL.md.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// Maximum size of an answer's line in bytes: 1 KiB for each of the 2^20 rules of the largest policy. A short rule has
/// 200 bytes.
const LINE_MAX: u64 = 1 << 30;
/// Maximum number of attempts to get status and rules of the same policy: it may be reloaded between both answers.
const TRIES: u32 = 3;

/// Answers of a firewall to the requests `status`, `stats` and `rules`, given one after another.
pub struct Answers {
    pub status: Value,
    pub stats: Value,
    pub rules: Rules,
}

/// Rules of the firewall's policy: the answer to `rules`.
#[derive(Deserialize)]
pub struct Rules {
    generation: u64,
    pub rules: Vec<Rule>,
}

/// Rule of the policy, with its counter and log statements.
#[derive(Deserialize)]
pub struct Rule {
    pub rule: String,
    pub table: String,
    pub chain: String,
    pub comment: Option<String>,
    pub counters: Vec<Statement>,
    pub logs: Vec<Statement>,
}

/// Counter or log statement of a rule, with its counts.
#[derive(Deserialize)]
pub struct Statement {
    pub statement: u32,
    pub packets: u64,
    /// Counted bytes; 0 for a log statement.
    #[serde(default)]
    pub bytes: u64,
}

/// Reads the line of one answer.
async fn read(stream: &mut BufReader<UnixStream>) -> Result<Vec<u8>, String> {
    let mut line = Vec::new();
    let mut stream = stream.take(LINE_MAX);
    let read = stream.read_until(b'\n', &mut line).await;
    read.map_err(|error| error.to_string())?;
    if line.last() != Some(&b'\n') {
        return Err("its answer ends early".to_owned());
    }
    Ok(line)
}

/// Parses an answer. Fails with the firewall's error text if the firewall refuses.
fn parse<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    serde_json::from_slice(line).map_err(|error| {
        serde_json::from_slice::<Refusal>(line).map_or_else(
            |_| format!("unsupported reply: {error}"),
            |refusal| refusal.error,
        )
    })
}

/// Requests all data once. The generations of status and rules may differ.
async fn ask_once(path: &Path) -> Result<Answers, String> {
    let stream = UnixStream::connect(path).await;
    let mut stream = BufReader::new(stream.map_err(|error| error.to_string())?);
    let requests = ["status", "stats", "rules"].map(|name| format!("{{\"command\":\"{name}\"}}\n"));
    let requests = requests.concat();
    // A firewall that refuses has already closed its end, after sending the reason.
    let written = stream.write_all(requests.as_bytes()).await;
    let status = read(&mut stream).await.map_err(|error| match written {
        Ok(()) => error,
        Err(written) => written.to_string(),
    })?;
    let status: Value = parse(&status)?;
    if let Some(error) = status.get("error").and_then(Value::as_str) {
        return Err(error.to_owned());
    }
    Ok(Answers {
        status,
        stats: parse(&read(&mut stream).await?)?,
        rules: parse(&read(&mut stream).await?)?,
    })
}

/// Requests all data for the metrics from a firewall, again if status and rules have different generations; after TRIES
/// attempts they may still differ. Fails with the reason.
pub async fn ask(path: &Path) -> Result<Answers, String> {
    let mut tries = 1;
    loop {
        let answers = ask_once(path).await?;
        let generation = answers.status.pointer("/policy/generation");
        let generation = generation.and_then(Value::as_u64).unwrap_or(0);
        if generation == answers.rules.generation || tries == TRIES {
            return Ok(answers);
        }
        tries += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of an answer to `rules` in bytes: 400,000 short rules.
    const LARGE: usize = 80_000_000;

    #[tokio::test]
    async fn the_rules_of_a_large_policy_are_read() {
        let (mut firewall, exporter) = UnixStream::pair().unwrap();
        let mut sent = vec![b' '; LARGE];
        sent.push(b'\n');
        let written = tokio::spawn(async move { firewall.write_all(&sent).await });
        let line = read(&mut BufReader::new(exporter)).await.unwrap();
        assert_eq!(line.len(), LARGE + 1);
        written.await.unwrap().unwrap();
    }
}
