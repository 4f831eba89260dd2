// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies with names: shipped policies, policies of the corpus with names added, and random policies.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use testbed::twin::root;
use twinwall_judge::generate::{policy, Profile};
use twinwall_judge::names;
use twinwall_judge::random::Random;
use twinwall_judge::tree::{Element, Hook, Policy, Rule, Set, Statement, Table, HOOKS};

use crate::bench::NFT_NOTE;
use crate::cell::INTERFACES;

use super::deviations::counts_vary;

/// Matches of names that are added to policies.
const NAMES: [&str; 15] = [
    "tls sni \"denied.example\"",
    "tls sni { \"a.example\", \"*.b.example\" }",
    "tls sni != \"*.b.example\"",
    "tls sni missing",
    "tls sni exists",
    "tls alpn \"h2\"",
    "tls alpn != \"h2\"",
    "tls version 1.3",
    "http host \"denied.example\"",
    "http host != { \"a.example\", \"*.b.example\" }",
    "http method \"GET\"",
    "dns name \"denied.example\"",
    "dns name \"*.b.example\"",
    "dns type a",
    "dns name missing",
];

/// First words of the fields that test names.
const FIELDS: [&str; 3] = ["tls ", "http ", "dns "];

/// Returns true if a policy tests names. Its text must have no comments.
pub fn has_names(text: &str) -> bool {
    FIELDS.iter().any(|field| text.contains(field))
}

/// Returns the policies of a folder. Leaves out policies of the parser's corpus that the parser refuses, and policies
/// without names that nft refuses.
pub fn of_folder(folder: &str) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(root().join(folder)).with_context(|| folder.to_owned())?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    let is_accepted = |path: &Path| folder != CORPUS || path.with_extension("ok").exists();
    // Without names, nft refuses a policy for another reason, such as overlapping elements.
    let is_nfts = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        !text.contains(NFT_NOTE) || has_names(&names::without_comments(&text))
    };
    paths.retain(|path| {
        path.extension().is_some_and(|end| end == "nft") && is_accepted(path) && is_nfts(path)
    });
    paths.sort();
    Ok(paths)
}

pub const SHIPPED: &str = "rules/policy";
/// Policies of usual hosts, with names.
pub const HOSTS: &str = "tests/corpus/host";
pub const CORPUS: &str = "tests/corpus/policy";

/// Returns the text of a policy with tests of names added at random places. None if it has no place for a test, or
/// reads other files.
pub fn with_names(text: &str, random: &mut Random) -> Option<String> {
    let code = names::without_comments(text);
    let has_files = code.contains("include ") || code.contains("file \"");
    match has_files {
        true => None,
        false => names::written(&code, &NAMES, random),
    }
}

/// Sets and maps with names for random policies: keyword, name, lines, elements. Their verdicts jump to no chain.
const SETS: [(&str, &str, &[&str], &[&str]); 4] = [
    (
        "set",
        "hosts",
        &["type hostname"],
        &["\"a.example\"", "\"*.b.example\""],
    ),
    (
        "set",
        "joined",
        &["type inet_service . hostname", "flags interval"],
        &[
            "443 . \"denied.example\"",
            "1-1000 . \"*.b.example\"",
            "80 . \"a.example\"",
        ],
    ),
    (
        "map",
        "verdicts",
        &["type hostname : verdict"],
        &[
            "\"denied.example\" : drop",
            "\"*.example\" : accept",
            "\"*.b.example\" : continue",
        ],
    ),
    (
        "map",
        "values",
        &["type hostname : mark"],
        &["\"denied.example\" : 1", "\"*.b.example\" : 2"],
    ),
];
/// Matches that look names up in sets.
const MEMBERS: [&str; 7] = [
    "tls sni @hosts",
    "tls sni != @hosts",
    "http host @hosts",
    "dns name @hosts",
    "th dport . tls sni @joined",
    "th dport . http host @joined",
    "th dport . tls sni != { 443 . \"a.example\", 1-500 . \"*.b.example\" }",
];
/// Statements that look names up in maps, as the last or only statement of a rule.
const MAPS: [&str; 6] = [
    "tls sni vmap @verdicts",
    "http host vmap { \"denied.example\" : drop, \"*.b.example\" : accept }",
    "dns name vmap { \"*.example\" : drop, \"a.example\" : accept }",
    "th dport . tls sni vmap { 443 . \"denied.example\" : drop, 1-1000 . \"*.b.example\" : accept }",
    "meta mark set tls sni map @values",
    "meta mark set tls sni map { \"a.example\" : 4, \"*.b.example\" : 8 }",
];

/// Priorities of chains in which names can be tested.
const PRIORITIES: [&str; 5] = ["filter", "0", "-10", "filter + 7", "security"];
/// Bits of marks that policies use. The remaining bits are for classes.
const MARK_BITS: u32 = 0xffff;

/// Returns a random policy with names. A part of the policies has a second table, without names.
pub fn random(random: &mut Random) -> Policy {
    let profile = Profile {
        hooks: vec![Hook::Input, Hook::Forward, Hook::Output, Hook::Prerouting],
        ct_state: random.percent(20),
        ct_mark: false,
        limits: true,
        reject: true,
        interfaces: &INTERFACES,
        mark_bits: MARK_BITS,
        ..Profile::full()
    };
    loop {
        let mut made = table(random, &profile);
        let is_added = add(random, &mut made.tables[0]);
        let text = made.to_string();
        let has_limits = text.contains("limit ") || text.contains("quota ");
        if is_added && !(has_limits && counts_vary(&text)) {
            if random.percent(25) {
                let profile = Profile {
                    hooks: HOOKS.to_vec(),
                    ..profile
                };
                let mut other = table(random, &profile).tables.remove(0);
                other.name.insert_str(0, "other-");
                made.tables.push(other);
            }
            return made;
        }
    }
}

/// Returns a random policy of one table: names may be tested in one table only, since each packet is sent to the twin
/// once.
fn table(random: &mut Random, profile: &Profile) -> Policy {
    let mut made = policy(random, profile);
    made.tables.truncate(1);
    for chain in &mut made.tables[0].chains {
        if let Some(base) = &mut chain.base {
            base.priority = (*random.pick(&PRIORITIES)).to_owned();
        }
    }
    made
}

fn statement(head: &str) -> Statement {
    let set = head.split_once('@').map(|(_, name)| name.to_owned());
    Statement {
        head: head.to_owned(),
        set,
        ..Statement::default()
    }
}

/// Adds the sets of names that a table's rules use.
fn declare(table: &mut Table) {
    let rules = table.chains.iter().flat_map(|chain| &chain.rules);
    let statements = rules.flat_map(|rule| &rule.statements);
    let used: Vec<String> = statements.filter_map(|one| one.set.clone()).collect();
    for (word, name, lines, elements) in SETS {
        if used.iter().any(|one| one == name) {
            let element = |text: &&str| Element {
                text: (*text).to_owned(),
                ranges: Vec::new(),
            };
            table.sets.push(Set {
                word,
                name: name.to_owned(),
                lines: lines.iter().map(|line| (*line).to_owned()).collect(),
                elements: elements.iter().map(element).collect(),
            });
        }
    }
}

/// Adds one to four tests of names. Returns false if there is no rule to which one can be added.
fn add(random: &mut Random, table: &mut Table) -> bool {
    let chains = table.chains.iter_mut().map(|chain| &mut chain.rules);
    let mut chains: Vec<&mut Vec<Rule>> = chains.filter(|rules| !rules.is_empty()).collect();
    if chains.is_empty() {
        return false;
    }
    for _ in 0..1 + random.below(4) {
        let chain = random.below(chains.len());
        let rules = &mut *chains[chain];
        let at = random.below(rules.len());
        if random.percent(20) {
            let map: &&str = random.pick(&MAPS);
            let statements = vec![statement(map)];
            rules.insert(
                at,
                Rule {
                    statements,
                    comment: None,
                },
            );
            continue;
        }
        // A rule has one lookup of names in a set.
        let has_lookup = rules[at].statements.iter().any(|one| {
            one.set.as_deref() == Some("joined")
                || one.head.contains(" . ")
                || one.head.contains("map")
        });
        let head = match has_lookup || random.percent(60) {
            true => *random.pick(&NAMES),
            false => *random.pick(&MEMBERS),
        };
        let place = random.below(rules[at].statements.len().max(1));
        rules[at].statements.insert(place, statement(head));
    }
    declare(table);
    true
}
