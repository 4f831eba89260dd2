// SPDX-License-Identifier: GPL-2.0-or-later
//! Random policies with names, each decided twice: by a twin that has the whole policy, and by a kernel for which a
//! twin only reads names (docs/STAGE.md). The same clients must reach the server.

use std::collections::{BTreeMap, BTreeSet};
use std::env;

use anyhow::{ensure, Context};
use testbed::twin::Twin;
use twinwall_judge::random::Random;
use twinwall_tests::case::Row;

use crate::evasion::client::Client;
use crate::evasion::hello::{self, Opening};
use crate::evasion::net::{Net, Sees};
use crate::evasion::strategies::{Strategy, STRATEGIES};
use crate::evasion::tried::{self, patience, Tried};
use crate::evasion::wire::Version;
use crate::evasion::By;

pub const ROWS: &[Row] = &[("a-policy-whole-and-split", agree)];

/// Number of policies of a run; the environment's TWINWALL_SPLITS overrides it.
const POLICIES: u64 = 8;
/// Step between the used ways to send an opening: every EVERY-th of the honest ways is used.
const EVERY: usize = 7;

const HOSTS: [&str; 3] = ["one.example", "two.one.example", "three.example"];
const MATCHES: [&str; 9] = [
    "",
    "tcp dport 443",
    "tcp dport { 80, 443 }",
    "tcp dport 80",
    "iifname \"left\"",
    "ip daddr 10.9.3.0/24",
    "ip saddr != 10.9.1.66",
    "meta l4proto tcp",
    "tcp dport 1-100 ip ttl > 3",
];
const NAMES: [&str; 13] = [
    "tls sni \"one.example\"",
    "tls sni @some",
    "tls sni != @some",
    "tls sni missing",
    "tls alpn \"http/1.1\"",
    "tls sni { \"three.example\", \"*.one.example\" } tls version 1.3",
    "http host \"three.example\"",
    "http host != \"one.example\"",
    "http host @some",
    "http method \"GET\"",
    "ip daddr . tls sni { 10.9.3.0/24 . \"*.one.example\", 10.9.0.0-10.9.3.99 . \"one.example\" }",
    "tls sni . tcp dport != { \"one.example\" . 443, \"*.one.example\" . 1-1000 }",
    "tcp dport . http host @joined",
];
/// Statements that look names up in maps.
const MAPS: [&str; 3] = [
    "tls sni . tcp dport vmap { \"*.one.example\" . 443 : drop, \"one.example\" . 1-1000 : accept, \"three.example\" . 443 : jump more }",
    "http host vmap { \"*.example\" : drop, \"one.example\" : accept }",
    "meta mark set ip daddr . tls sni map { 10.9.0.0/16 . \"*.one.example\" : 7, 10.9.3.0/24 . \"one.example\" : 7, 10.9.3.0/24 . \"three.example\" : 8 }\n\t\tmeta mark 7 counter drop",
];
const VERDICTS: [&str; 6] = [
    "drop",
    "accept",
    "drop",
    "jump more",
    "goto more",
    "counter",
];

/// Returns a random rule with a counter after its matches.
fn rule(random: &mut Random, verdicts: &[&str]) -> String {
    let (first, last) = (random.pick(&MATCHES), random.pick(&MATCHES));
    let name = if random.percent(70) {
        random.pick(&NAMES)
    } else {
        ""
    };
    // A second match of a port may exclude all packets, which nft refuses.
    let last = if first.is_empty() { last } else { "" };
    format!(
        "\t\t{first} {name} {last} counter {}\n",
        random.pick(verdicts)
    )
}

fn rules(random: &mut Random, verdicts: &[&str]) -> String {
    (0..1 + random.below(4))
        .map(|_| rule(random, verdicts))
        .collect()
}

fn policy(random: &mut Random) -> String {
    let (verdict, last) = match random.percent(50) {
        true => ("accept", ""),
        // The server's packets must pass: rules with names are about clients' requests.
        false => ("drop", "\t\ttcp sport { 80, 443 } counter accept\n"),
    };
    let map = match random.percent(50) {
        true => format!("\t\t{}\n", random.pick(&MAPS)),
        false => String::new(),
    };
    let body = rules(random, &VERDICTS) + &map;
    let one = format!(
        "\t\t{} counter {}\n",
        random.pick(&NAMES),
        random.pick(&VERDICTS)
    );
    format!(
        "table inet filter {{\n\tset some {{ type hostname; elements = {{ \"one.example\", \"*.one.example\" }} }}\n\
         \tset joined {{ type inet_service . hostname; flags interval; elements = {{ 80 . \"one.example\", 1-100 . \"*.one.example\" }} }}\n\
         \tchain more {{\n{}\t}}\n\
         \tchain forward {{\n\t\ttype filter hook forward priority 0; policy {verdict};\n{last}{body}{one}\t}}\n}}\n",
        rules(random, &VERDICTS[..3])
    )
}

/// Returns the clients' openings: TLS and HTTP for each host.
fn openings() -> Vec<(String, Opening)> {
    let of = |host: &&str| {
        [
            (format!("TLS, {host}"), hello::tls(host, 0)),
            (format!("HTTP, {host}"), hello::http(host, "\r\n")),
        ]
    };
    HOSTS.iter().flat_map(of).collect()
}

/// Result of each client: true if it reached the server.
type Answers = BTreeMap<String, bool>;

/// Returns a client's name in the results.
fn way(strategy: &Strategy, opening: &str) -> String {
    format!("{}, {opening}", strategy.name)
}

/// Runs the clients.
/// - late: runs only these clients, for which an answer is expected.
fn ask(net: &Net, late: Option<&BTreeSet<String>>) -> anyhow::Result<Answers> {
    let openings = openings();
    let honest = STRATEGIES
        .iter()
        .filter(|strategy| strategy.honest)
        .step_by(EVERY);
    let jobs: Vec<_> = honest
        .flat_map(|strategy| {
            openings
                .iter()
                .map(move |(what, opening)| (strategy, what, opening))
        })
        .filter(|(strategy, what, _)| late.is_none_or(|late| late.contains(&way(strategy, what))))
        .filter_map(|(strategy, what, opening)| {
            Some((
                strategy,
                what,
                opening,
                (strategy.script)(opening, opening)?,
            ))
        })
        .collect();
    let tried = tried::try_all(net, &jobs, |link, (strategy, what, opening, script)| {
        Tried::new(&way(strategy, what), "opening", late.is_some(), |port| {
            let client = Client {
                net,
                link,
                version: Version::V4,
                ports: (port, opening.port),
                patience: patience(late.is_some()),
            };
            let answer = client.run(script)?;
            Ok(Some(
                answer.is_some_and(|answer| answer.starts_with(opening.answer)),
            ))
        })
    })?;
    Ok(tried
        .into_iter()
        .map(|one| (one.way, one.completed))
        .collect())
}

/// One of the two subjects that are compared, in its own network: a twin that decides the whole policy, or the kernel
/// with a twin that reads names.
struct Side {
    net: Net,
    by: By,
}

impl Side {
    fn new(by: By) -> anyhow::Result<Side> {
        let net = Net::new(Sees::Both)?;
        Ok(Side { net, by })
    }

    /// - late: as for `ask`.
    fn try_policy(&self, text: &str, late: Option<&BTreeSet<String>>) -> anyhow::Result<Answers> {
        let running = self.by.start(&self.net, text)?;
        let answers = ask(&self.net, late)?;
        running.finish()?;
        Ok(answers)
    }

    /// Runs the clients again that reached the server on the other side only, with the patience for an expected answer.
    fn complete(&self, text: &str, answers: &mut Answers, other: &Answers) -> anyhow::Result<()> {
        let came = |way: &String| other.get(way) == Some(&true);
        let late: BTreeSet<String> = answers
            .iter()
            .filter(|(way, own)| !**own && came(way))
            .map(|(way, _)| way.clone())
            .collect();
        if !late.is_empty() {
            answers.extend(self.try_policy(text, Some(&late))?);
        }
        Ok(())
    }
}

/// Runs the clients with both sides and the same policy. Fails if in each of three attempts a client reaches the server
/// on one side only. Several attempts are needed, since packets may get lost on a busy machine. Returns the number of
/// clients that reached the server.
/// - text: the policy.
fn compare(whole: &Side, split: &Side, text: &str) -> anyhow::Result<usize> {
    let mut differ = Vec::new();
    for _ in 0..3 {
        let mut by_twin = whole.try_policy(text, None)?;
        let mut by_kernel = split.try_policy(text, None)?;
        whole.complete(text, &mut by_twin, &by_kernel)?;
        split.complete(text, &mut by_kernel, &by_twin)?;
        let pairs = by_twin
            .iter()
            .filter(|(way, came)| by_kernel.get(*way) != Some(*came));
        differ = pairs
            .map(|(way, came)| format!("{way}: by the twin {came}, split {}", !came))
            .collect();
        if differ.is_empty() {
            return Ok(by_twin.values().filter(|came| **came).count());
        }
    }
    anyhow::bail!("{text}{}", differ.join("\n"))
}

fn agree(twin: Twin) -> anyhow::Result<()> {
    let count = match env::var("TWINWALL_SPLITS") {
        Ok(count) => count.parse().context("TWINWALL_SPLITS is no number")?,
        Err(_) => POLICIES,
    };
    let (whole, split) = (Side::new(By::Twin(twin))?, Side::new(By::Stage(twin))?);
    let mut came = Vec::new();
    for seed in 1..=count {
        let text = policy(&mut Random::new(seed));
        came.push(compare(&whole, &split, &text).with_context(|| format!("seed {seed}"))?);
    }
    let clients = 2
        * HOSTS.len()
        * STRATEGIES
            .iter()
            .filter(|strategy| strategy.honest)
            .count()
            .div_ceil(EVERY);
    println!("{count} policies, {clients} clients at most: {came:?} reached the server, alike");
    // Policies that allow all clients or none would prove little.
    ensure!(
        came.iter().any(|came| (1..clients).contains(came)),
        "{came:?}"
    );
    Ok(())
}
