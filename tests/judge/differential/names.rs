// SPDX-License-Identifier: GPL-2.0-or-later
//! Model of unknown names: a match on an unknown name may hold or not. A packet may pass if some variant of the policy
//! accepts it: a variant lacks some of these matches, as if they held, and the others never hold. Variants contain no
//! names. For such policies, certify compares the twins with the kernel.

use std::collections::BTreeSet;

use anyhow::Context;
use serde_json::Value;

use twinwall_judge::boundary::packets;
use twinwall_judge::generate::{policy, Profile};
use twinwall_judge::random::Random;
use twinwall_judge::tree::{Hook, Policy, Statement, HOOKS};
use twinwall_judge::{keep, pcap};

use crate::ask::{line, Asker, PACKETS, POLICY};
use crate::Tally;

/// Maximum number of name matches in a policy. A policy with n of them is tested in 2^n variants.
const MATCHES_MAX: usize = 4;
const PACKETS_PER_POLICY: usize = 300;
const JUDGE: &str = "names";
/// A match that never holds, regardless of the rule's other matches.
const NEVER: &str = "meta length 0";

/// Position of a match: table, chain, rule, statement.
type Place = (usize, usize, usize, usize);

/// Returns random positions for one or more inserted matches. A match is inserted before an existing statement, so that
/// no match follows the rule's verdict.
fn places(random: &mut Random, made: &Policy) -> Vec<Place> {
    let mut all = Vec::new();
    for (table, tables) in made.tables.iter().enumerate() {
        for (chain, chains) in tables.chains.iter().enumerate() {
            for (rule, rules) in chains.rules.iter().enumerate() {
                all.extend((0..rules.statements.len()).map(|at| (table, chain, rule, at)));
            }
        }
    }
    let wanted = 1 + random.below(MATCHES_MAX);
    let mut chosen = BTreeSet::new();
    for _ in 0..wanted.min(all.len()) {
        chosen.insert(*random.pick(&all));
    }
    chosen.into_iter().collect()
}

/// Returns the text of the policy with a statement inserted at each place.
/// - statement: returns the text for the place with this index; None: nothing is inserted there.
fn with(made: &Policy, places: &[Place], statement: impl Fn(usize) -> Option<String>) -> String {
    let mut policy = made.clone();
    // In reverse order, so that earlier positions stay valid.
    for (number, &(table, chain, rule, at)) in places.iter().enumerate().rev() {
        if let Some(head) = statement(number) {
            let rule = &mut policy.tables[table].chains[chain].rules[rule];
            let statement = Statement {
                head,
                ..Statement::default()
            };
            rule.statements.insert(at, statement);
        }
    }
    policy.to_string()
}

/// Returns the explanation of each packet. Err: the difference between the twins, or the error of both.
fn explain(asker: &Asker, hook: Hook, text: &str) -> anyhow::Result<Result<Vec<Value>, String>> {
    asker.write(POLICY, text.as_bytes())?;
    let arguments = [
        "explain",
        "--json",
        "--hook",
        hook.text(),
        "--fail",
        "open",
        POLICY,
        PACKETS,
    ];
    let said = match asker.ask(&arguments)? {
        Ok(said) => said,
        Err(difference) => return Ok(Err(difference)),
    };
    if said.code != Some(0) {
        return Ok(Err(format!("both refuse: {}", line(&said.stderr, 0))));
    }
    let text = String::from_utf8(said.stdout)?;
    let lines = text.lines().map(serde_json::from_str);
    let mut told = lines.collect::<Result<Vec<Value>, _>>().context("JSON")?;
    told.pop();
    Ok(Ok(told))
}

/// Returns true if a rule reported an unknown name.
fn is_open(told: &Value) -> bool {
    let rules = told["rules"].as_array();
    rules.is_some_and(|rules| {
        let why = |rule: &Value| rule["why"].as_str() == Some("tls sni is not known");
        rules.iter().any(why)
    })
}

/// Verdicts on a packet under all variants of the policy, combined.
#[derive(Clone, Copy, Default)]
struct Ways {
    /// True if a variant accepts the packet.
    passes: bool,
    /// True if --fail decided the packet under a variant: fewer bytes are copied for a policy without names.
    failed: bool,
}

/// Returns the first wrong verdict, given the results of each packet under all variants. None if all verdicts are
/// right.
/// - opens: in/out: incremented for each packet with an unknown name.
fn compare(told: &[Value], ways: &[Ways], opens: &mut u64) -> Option<String> {
    for (number, (told, &Ways { passes, failed })) in told.iter().zip(ways).enumerate() {
        if failed || told["status"] != "ok" {
            continue;
        }
        let accepted = told["verdict"] == "accept";
        let open = is_open(told);
        *opens += u64::from(open);
        if accepted && !passes || open && passes && !accepted {
            return Some(format!(
                "packet {}: {} by {}, but {} way is accepted",
                number + 1,
                told["verdict"],
                told["by"],
                if passes { "a" } else { "no" }
            ));
        }
    }
    None
}

/// Returns None if the twins decide as the model does, otherwise the first difference.
/// - count: number of packets.
/// - opens: in/out: incremented for each packet with an unknown name.
fn judge(
    asker: &Asker,
    hook: Hook,
    made: &Policy,
    places: &[Place],
    count: usize,
    opens: &mut u64,
) -> anyhow::Result<Option<String>> {
    let mut ways = vec![Ways::default(); count];
    for way in 0..1u32 << places.len() {
        let text = with(made, places, |number| {
            (way >> number & 1 == 0).then(|| NEVER.to_owned())
        });
        match explain(asker, hook, &text)? {
            Ok(told) => {
                for (ways, told) in ways.iter_mut().zip(&told) {
                    ways.passes |= told["verdict"] == "accept";
                    ways.failed |= told["by"] == "fail";
                }
            }
            Err(difference) => return Ok(Some(difference)),
        }
    }
    let named = with(made, places, |number| {
        Some(format!("tls sni \"n{number}.example\""))
    });
    Ok(match explain(asker, hook, &named)? {
        Ok(told) => compare(&told, &ways, opens),
        Err(difference) => Some(difference),
    })
}

/// Judges a policy of a run, with its packets. All base chains have the same hook, so that later chains test names,
/// too. Limits and quotas are excluded: each variant would use them up separately. Marks are small, so that rules test
/// those that other rules set.
pub fn part(asker: &Asker, seed: u64, part: u64, tally: &mut Tally) -> anyhow::Result<()> {
    let mut random = Random::split(seed, part);
    let hook = *random.pick(&HOOKS);
    let profile = Profile {
        hooks: vec![hook],
        limits: false,
        mark_bits: 7,
        ..Profile::full()
    };
    let made = policy(&mut random, &profile);
    let groups = made.groups();
    let packets: Vec<Vec<u8>> = packets(&mut random, &groups, PACKETS_PER_POLICY)
        .iter()
        .map(|packet| packet.bytes())
        .collect();
    let places = places(&mut random, &made);
    asker.write(PACKETS, &pcap::write(&packets))?;
    tally.policies += 1;
    tally.decisions += packets.len() as u64;
    let found = judge(asker, hook, &made, &places, packets.len(), &mut tally.opens)?;
    if let Some(difference) = found {
        tally.disagreements += 1;
        println!("names-{seed}-{part}: {difference}");
        let text = with(&made, &places, |number| {
            Some(format!("tls sni \"n{number}.example\""))
        });
        let asked = [format!("--hook {} --fail open", hook.text())];
        let name = format!("names-{seed}-{part}");
        let path = keep::write(&name, JUDGE, &difference, &asked, &text, &packets)?;
        println!("  kept as {}", path.display());
    }
    Ok(())
}
