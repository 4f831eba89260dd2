// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies with names: shipped policies, policies of the corpus with names added, and random policies.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use testbed::twin::root;
use twinwall_judge::generate::{policy, Profile};
use twinwall_judge::names;
use twinwall_judge::random::Random;
use twinwall_judge::tree::{Hook, Policy, Statement};

use crate::cell::INTERFACES;

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

/// Returns the policies of a folder: all shipped policies, or those of the corpus that the parser accepts.
pub fn of_folder(folder: &str) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(root().join(folder)).with_context(|| folder.to_owned())?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    let is_accepted = |path: &Path| folder == SHIPPED || path.with_extension("ok").exists();
    paths.retain(|path| path.extension().is_some_and(|end| end == "nft") && is_accepted(path));
    paths.sort();
    Ok(paths)
}

pub const SHIPPED: &str = "rules/policy";
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

/// Priorities of chains in which names can be tested.
const PRIORITIES: [&str; 5] = ["filter", "0", "-10", "filter + 7", "security"];

/// Returns a random policy with names.
pub fn random(random: &mut Random) -> Policy {
    let tracked = random.percent(20);
    let hooks = match tracked {
        true => vec![Hook::Input, Hook::Forward],
        false => vec![Hook::Input, Hook::Forward, Hook::Output, Hook::Prerouting],
    };
    let profile = Profile {
        hooks,
        ct_state: tracked,
        ct_mark: false,
        limits: true,
        reject: !tracked,
        interfaces: &INTERFACES,
        ..Profile::full()
    };
    loop {
        let mut made = policy(random, &profile);
        // Names may be tested in one table only, since each packet is sent to the twin once.
        made.tables.truncate(1);
        for chain in &mut made.tables[0].chains {
            if let Some(base) = &mut chain.base {
                base.priority = (*random.pick(&PRIORITIES)).to_owned();
            }
        }
        if add(random, &mut made) {
            return made;
        }
    }
}

/// Adds one to four tests of names. Returns false if there is no rule to which one can be added.
fn add(random: &mut Random, made: &mut Policy) -> bool {
    let mut rules: Vec<_> = made.tables[0]
        .chains
        .iter_mut()
        .flat_map(|chain| &mut chain.rules)
        .filter(|rule| !rule.statements.is_empty())
        .collect();
    if rules.is_empty() {
        return false;
    }
    for _ in 0..1 + random.below(4) {
        let at = random.below(rules.len());
        let place = random.below(rules[at].statements.len());
        let head = (*random.pick(&NAMES)).to_owned();
        let statement = Statement {
            head,
            ..Statement::default()
        };
        rules[at].statements.insert(place, statement);
    }
    true
}
