// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs `explain --json` on random policies and packets. explain itself compares the decision of the compiled policy
//! with a walk over its rules, and exits with 1 if they differ.

use twinwall_judge::boundary::{mangled, packets, told};
use twinwall_judge::field::{interface_name, write, Field, Kind};
use twinwall_judge::generate::{policy, Profile};
use twinwall_judge::random::Random;
use twinwall_judge::style::styled;
use twinwall_judge::tree::{Group, Hook, Policy, HOOKS};
use twinwall_judge::{keep, pcap, shrink};

use crate::ask::{line, name, Asker, PACKETS, POLICY};
use crate::Tally;

/// Number of packets per policy. It is large, because the start of a program takes longer than the decisions.
const PACKETS_PER_POLICY: usize = 2000;
const JUDGE: &str = "explain";

/// Returns random values for the options of `explain` that describe metadata outside of packets, such as hook,
/// interfaces and marks. They apply to all packets of a run.
fn told_words(
    random: &mut Random,
    groups: &[Group],
    hooks: &[Hook],
    profile: &Profile,
) -> Vec<String> {
    let mut words = Vec::new();
    let mut tell = |name: &str, value: String| words.extend([name.to_string(), value]);
    let hook = match random.percent(85) && !hooks.is_empty() {
        true => *random.pick(hooks),
        false => *random.pick(&HOOKS),
    };
    tell("--hook", hook.text().to_string());
    let value = |random: &mut Random, field| told(random, groups, field, profile.interfaces);
    for (name, field) in [("--iif", Field::MetaIifname), ("--oif", Field::MetaOifname)] {
        let field = match (random.percent(30), field) {
            (true, Field::MetaIifname) => Field::MetaIif,
            (true, _) => Field::MetaOif,
            (false, field) => field,
        };
        if random.percent(70) {
            tell(name, interface_name(value(random, field)));
        }
    }
    for (name, field) in [
        ("--mark", Field::MetaMark),
        ("--uid", Field::MetaSkuid),
        ("--gid", Field::MetaSkgid),
        ("--ct-mark", Field::CtMark),
    ] {
        if random.percent(60) {
            tell(name, value(random, field).to_string());
        }
    }
    if random.percent(60) {
        let state = value(random, Field::CtState) & 0x4f;
        let state = if state == 0 { 8 } else { state };
        tell("--ct-state", write(Kind::CtState, state, None));
    }
    for (name, values) in [
        ("--fail", ["open", "closed"]),
        ("--default", ["accept", "drop"]),
        ("--malformed", ["fail", "policy"]),
    ] {
        if random.percent(50) {
            tell(name, random.pick(&values).to_string());
        }
    }
    words
}

/// Returns None if both twins explain all packets without an error and print the same, otherwise the difference.
fn judge(
    asker: &Asker,
    words: &[String],
    text: &str,
    packets: &[Vec<u8>],
) -> anyhow::Result<Option<String>> {
    asker.write(POLICY, text.as_bytes())?;
    asker.write(PACKETS, &pcap::write(packets))?;
    let mut arguments = vec!["explain", "--json"];
    arguments.extend(words.iter().map(String::as_str));
    arguments.extend([POLICY, PACKETS]);
    let said = match asker.ask(&arguments)? {
        Ok(said) => said,
        Err(difference) => return Ok(Some(difference)),
    };
    if said.code != Some(0) {
        return Ok(Some(format!(
            "both end with {:?}: {}",
            said.code,
            line(&said.stderr, 0)
        )));
    }
    let lines = said.stdout.iter().filter(|byte| **byte == b'\n').count();
    if lines != packets.len() + 1 || !said.stderr.is_empty() {
        return Ok(Some(format!(
            "{lines} lines for {} packets, stderr: {}",
            packets.len(),
            line(&said.stderr, 0)
        )));
    }
    Ok(None)
}

/// Judges a policy of a run, with its packets.
pub fn part(asker: &Asker, seed: u64, part: u64, tally: &mut Tally) -> anyhow::Result<()> {
    let mut random = Random::split(seed, part);
    let profile = Profile::full();
    let made = policy(&mut random, &profile);
    let groups = made.groups();
    let words = told_words(&mut random, &groups, &made.hooks(), &profile);
    let packets: Vec<Vec<u8>> = packets(&mut random, &groups, PACKETS_PER_POLICY)
        .iter()
        .map(|packet| match random.percent(5) {
            true => mangled(&mut random, packet),
            false => packet.bytes(),
        })
        .collect();
    let text = match random.percent(30) {
        true => styled(&made, &mut random),
        false => made.to_string(),
    };
    tally.policies += 1;
    tally.decisions += packets.len() as u64;
    if let Some(difference) = judge(asker, &words, &text, &packets)? {
        tally.disagreements += 1;
        let name = format!("explain-{seed}-{part}");
        println!("{name}: {difference}");
        shrink_policy(asker, &name, &words, &made, &text, packets)?;
    }
    Ok(())
}

fn shrink_policy(
    asker: &Asker,
    name: &str,
    words: &[String],
    made: &Policy,
    text: &str,
    mut packets: Vec<Vec<u8>>,
) -> anyhow::Result<()> {
    // Removing parts must not turn the fault into a different one: a policy that both twins refuse.
    let refused = |difference: &str| difference.starts_with("both end");
    let first = judge(asker, words, text, &packets)?.unwrap_or_default();
    let fails = |words: &[String], text: &str, packets: &[Vec<u8>]| match judge(
        asker, words, text, packets,
    ) {
        Ok(Some(difference)) => refused(&difference) == refused(&first),
        _ => false,
    };
    packets = shrink::list(&packets, |fewer| fails(words, text, fewer));
    // Shrinks the plain text, unless the fault depends on the style of the text.
    let mut small = text.to_string();
    if fails(words, &made.to_string(), &packets) {
        small = shrink::policy(made, |smaller| fails(words, &smaller.to_string(), &packets))
            .to_string();
        packets = shrink::list(&packets, |fewer| fails(words, &small, fewer));
    }
    let pairs: Vec<&[String]> = words.chunks(2).collect();
    let pairs = shrink::list(&pairs, |fewer| fails(&fewer.concat(), &small, &packets));
    let words = pairs.concat();
    let note = judge(asker, &words, &small, &packets)?.unwrap_or_default();
    println!("  shrunk to {} packets: {note}", packets.len());
    let asked = [words.join(" ")];
    let path = keep::write(name, JUDGE, &note, &asked, &small, &packets)?;
    println!("  kept as {}", path.display());
    Ok(())
}

/// Judges the cases saved by earlier runs.
pub fn again(asker: &Asker, tally: &mut Tally) -> anyhow::Result<()> {
    for kept in keep::read_all(&keep::folder(), JUDGE)? {
        let words: Vec<String> = kept.asked[0]
            .split_whitespace()
            .map(str::to_string)
            .collect();
        let text = std::fs::read_to_string(&kept.path)?;
        tally.policies += 1;
        tally.decisions += kept.packets.len() as u64;
        if let Some(difference) = judge(asker, &words, &text, &kept.packets)? {
            tally.disagreements += 1;
            println!("{}: {difference}", name(&kept.path));
        }
    }
    Ok(())
}
