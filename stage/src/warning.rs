// SPDX-License-Identifier: GPL-2.0-or-later
//! Warnings about effects of a policy with names that its author may not expect, and refusals.

use crate::names::{NameRule, Names};
use crate::reach::Ways;
use crate::source::Source;
use crate::token::Tokens;
use crate::tree::{Rule, Tree};
use crate::{Refusal, Warning};

/// Returns all tokens in rules that equal a word.
fn places<'a>(
    tokens: &'a Tokens,
    tree: &'a Tree,
    word: &'a str,
) -> impl Iterator<Item = usize> + 'a {
    let all = tree.rules.iter().flat_map(|rule| rule.tokens.clone());
    all.filter(move |at| tokens.get(*at) == word)
}

/// Refuses commands that insert between, replace or remove earlier rules or elements of a table with names: copies of
/// its chains (see trial.rs) would have other rules than the chains.
fn refuse_changes(tokens: &Tokens, tree: &Tree, names: &Names) -> Result<(), Refusal> {
    let table_of = |named: &NameRule| tree.chains[tree.rules[named.rule].chain].table;
    let is_named = |table| names.rules.iter().any(|named| table_of(named) == table);
    let Some((_, at)) = tree.changes.iter().find(|(table, _)| is_named(*table)) else {
        return Ok(());
    };
    let reason = "a command that inserts between, replaces or removes earlier rules or elements of a table with names";
    let cure = "write the rules in their final order, without this command";
    Err(Refusal::at(tokens, *at, reason, cure))
}

/// Refuses a defined name (`$NAME`) with two values. In nft a definition holds in its block, and up to the next one; in
/// `Tree` it holds everywhere.
fn refuse_redefined(tokens: &Tokens, tree: &Tree) -> Result<(), Refusal> {
    let refuse = |at: &usize| {
        let reason = format!("a second value of ${}", tokens.get(at + 1));
        Err(Refusal::at(tokens, *at, reason, "define another name"))
    };
    tree.redefined.first().map_or(Ok(()), refuse)
}

/// Refuses a policy that answers a connection in place of its server, that changes earlier rules of a table with names,
/// or that gives a defined name two values.
pub fn refuse(tokens: &Tokens, tree: &Tree, names: &Names) -> Result<(), Refusal> {
    refuse_changes(tokens, tree, names)?;
    refuse_redefined(tokens, tree)?;
    let Some(at) = places(tokens, tree, "synproxy").next() else {
        return Ok(());
    };
    let reason = "a proxy of SYNs answers before the server, so no name is followed";
    let cure = "take this rule out, or let the firewall decide the whole policy (--policy)";
    Err(Refusal::at(tokens, at, reason, cure))
}

/// Returns a warning for each rule that exempts packets from connection tracking.
fn untracked(source: &Source, tokens: &Tokens, tree: &Tree) -> Vec<Warning> {
    let warn = |at| {
        Warning {
        text: "packets of this rule belong to no connection: if a rule reads a name, their names count as unreadable".to_owned(),
        place: source.place(tokens.start(at)),
    }
    };
    places(tokens, tree, "notrack").map(warn).collect()
}

/// Returns a warning for each rule with names to which no chain with a hook leads.
fn unreached(source: &Source, ways: &Ways, names: &Names) -> Vec<Warning> {
    let (tokens, tree) = (ways.tokens, ways.tree);
    let is_unreached = |named: &&NameRule| ways.to(&ways.before_test(named)).is_empty();
    let warn = |named: &NameRule| {
        let rule = &tree.rules[named.rule];
        let chain = &tree.chains[rule.chain].name;
        Warning {
            text: format!(
                "no packet reaches this rule: no chain with a hook leads to {chain}: packets are not queued for its names"
            ),
            place: source.place(tokens.start(rule.tokens.start)),
        }
    };
    names.rules.iter().filter(is_unreached).map(warn).collect()
}

/// Returns true if a rule accepts all packets of established connections, without other matches.
fn accepts_established(tokens: &Tokens, rule: &Rule) -> bool {
    let words: Vec<&str> = rule.tokens.clone().map(|at| tokens.get(at)).collect();
    let Some(rest) = words.strip_prefix(&["ct", "state"]) else {
        return false;
    };
    let is_of_list =
        |word: &&&str| ["established", "related", ",", "{", "}", "==", "|"].contains(*word);
    let listed = rest.iter().take_while(is_of_list).count();
    let behind = rest.get(listed..).unwrap_or_default();
    let is_accepted = match behind {
        ["vmap", ..] => rest
            .windows(3)
            .any(|three| three == ["established", ":", "accept"]),
        ["counter", "accept", ..] | ["accept", ..] => true,
        _ => false,
    };
    is_accepted && rest.contains(&"established")
}

/// Finds rules with names after a rule that accepts established connections: over TCP they never see a name. Also finds
/// rules that exempt packets from connection tracking, and rules with names that no packet reaches.
pub fn find(source: &Source, ways: &Ways, names: &Names) -> Vec<Warning> {
    let (tokens, tree) = (ways.tokens, ways.tree);
    let mut warnings = untracked(source, tokens, tree);
    warnings.extend(unreached(source, ways, names));
    for named in &names.rules {
        // The rule itself, and the rules that lead to its chain.
        let mut places = vec![named.rule];
        let mut looked = 0;
        while let Some(&place) = places.get(looked) {
            let chain = tree.rules[place].chain;
            let calls = (0..tree.rules.len()).filter(|rule| ways.calls(&tree.rules[*rule], chain));
            let calls: Vec<usize> = calls.filter(|rule| !places.contains(rule)).collect();
            places.extend(calls);
            looked += 1;
        }
        let is_before = |rule: &usize| {
            let same =
                |place: &usize| tree.rules[*place].chain == tree.rules[*rule].chain && rule < place;
            places.iter().any(same) && accepts_established(tokens, &tree.rules[*rule])
        };
        if let Some(accept) = (0..tree.rules.len()).find(is_before) {
            let own = source.place(tokens.start(tree.rules[named.rule].tokens.start));
            let before = source.place(tokens.start(tree.rules[accept].tokens.start));
            warnings.push(Warning {
                text: format!(
                    "this rule never gets a name of TCP: {before} accepts established connections before it: move that line after this rule"
                ),
                place: own,
            });
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use crate::{split, text, Options};

    #[test]
    fn a_rule_that_no_packet_reaches_gets_a_warning() {
        let warnings = |lead: &str| {
            let policy = format!(
                "table inet f {{\n\tchain c {{\n\t\ttype filter hook input priority 0\n\t\t{lead}\n\t\ttls sni exists accept\n\t}}\n\
                 \tchain x {{\n\t\ttls sni missing drop\n\t}}\n}}\n"
            );
            let split = split(&text("p.nft", &policy).unwrap(), &Options::default()).unwrap();
            split
                .warnings
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let want = "p.nft:8: no packet reaches this rule: no chain with a hook leads to x: packets are not queued for its names";
        assert_eq!(warnings("accept"), [want]);
        assert_eq!(warnings("jump x"), [""; 0]);
    }
}
