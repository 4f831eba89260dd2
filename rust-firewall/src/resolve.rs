// SPDX-License-Identifier: GPL-2.0-or-later
//! What needs the whole text: names of sets and chains, elements of named sets, ways through chains.

use crate::lexer::Lexer;
use crate::log::Failure;
use crate::overlap;
use crate::parse_elements::{self, Shape};
use crate::parse_set;
use crate::parse_state::{Parser, Scope};
use crate::policy::{
    type_name, Chain, Elements, Hook, MapsTo, MarkSet, Match, Place, Right, Set, StatementKind,
    Table, Target, Verdict, WAY_MAX,
};

/// What names are looked up in.
struct Names<'a> {
    lexer: &'a Lexer,
    scope: &'a Scope,
    set_places: &'a [Place],
    /// Of each chain of the table, whether it is a base chain.
    bases: Vec<bool>,
}

/// Finds the chain that a verdict goes to.
fn target(names: &Names, target: &mut Target) -> Result<(), Failure> {
    if !matches!(target.verdict, Verdict::Jump | Verdict::Goto) {
        return Ok(());
    }
    let Some(index) = names.scope.chains.get(&target.chain) else {
        let text = format!("\"{}\": no chain of this name in the table", target.chain);
        return Err(names.lexer.fail(target.place, text));
    };
    if names.bases[*index as usize] {
        let text = format!("\"{}\": a base chain, which nothing jumps to", target.chain);
        return Err(names.lexer.fail(target.place, text));
    }
    target.chain_index = *index;
    Ok(())
}

/// Finds the chains that the elements of a map go to.
fn targets(names: &Names, elements: &mut Elements) -> Result<(), Failure> {
    for found in &mut elements.targets {
        target(names, found)?;
    }
    Ok(())
}

/// The types of a set's fields, as in its declaration.
fn type_names(shape: &Shape) -> String {
    let names: Vec<&str> = shape
        .fields
        .iter()
        .map(|(kind, _)| type_name(*kind))
        .collect();
    names.join(" . ")
}

/// Why a set can't be looked up by a key, as a set or a map to something.
fn mismatch(set: &Set, found: &Match, maps_to: MapsTo) -> Option<String> {
    if set.maps_to != maps_to {
        let cause = match maps_to {
            MapsTo::Set => "a map, and no set",
            MapsTo::VerdictMap => "no map to verdicts",
            MapsTo::MarkMap => "no map to marks",
        };
        return Some(cause.to_owned());
    }
    let wanted = parse_elements::shape(&found.key, maps_to, false);
    let shape = parse_set::shape(set);
    if shape.fields == wanted.fields {
        return None;
    }
    let (has, needs) = (type_names(&shape), type_names(&wanted));
    Some(if has == needs {
        "its fields have other sizes than the key's".to_owned()
    } else {
        format!("its type is {has}, the key's {needs}")
    })
}

/// Finds the set that a match names, or the chains that its elements go to.
fn lookup(names: &Names, sets: &[Set], found: &mut Match, maps_to: MapsTo) -> Result<(), Failure> {
    let (reference, name) = match &mut found.right {
        Right::Range(_) => return Ok(()),
        Right::Literal(elements) => return targets(names, elements),
        Right::Named { set, name } => (*set, name.clone()),
    };
    let place = names.set_places[reference as usize];
    let Some(index) = names.scope.sets.get(&name).copied() else {
        let text = format!("\"{name}\": no set or map of this name in the table");
        return Err(names.lexer.fail(place, text));
    };
    if let Some(cause) = mismatch(&sets[index as usize], found, maps_to) {
        return Err(names.lexer.fail(place, format!("\"{name}\": {cause}")));
    }
    found.right = Right::Named { set: index, name };
    Ok(())
}

/// Finds what a statement names.
fn statement(names: &Names, sets: &[Set], kind: &mut StatementKind) -> Result<(), Failure> {
    match kind {
        StatementKind::Match(found) => lookup(names, sets, found, MapsTo::Set),
        StatementKind::Vmap(found) => lookup(names, sets, found, MapsTo::VerdictMap),
        StatementKind::MarkSet(set) => match &mut **set {
            MarkSet::Map(found) => lookup(names, sets, found, MapsTo::MarkMap),
            MarkSet::Bits { .. } => Ok(()),
        },
        StatementKind::Verdict(found) => target(names, found),
        _ => Ok(()),
    }
}

/// Finds what a table's sets and rules name, and checks the elements of its sets.
fn table(names: &Names, table: &mut Table) -> Result<(), Failure> {
    for set in &mut table.sets {
        let shape = parse_set::shape(set);
        overlap::check(names.lexer, &shape, &mut set.elements, set.auto_merge)?;
        targets(names, &mut set.elements)?;
    }
    for rule in table.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
        for found in &mut rule.statements {
            let place = &mut found.kind;
            statement(names, &table.sets, place)?;
        }
    }
    Ok(())
}

/// A step from a chain or a map to another. Chains are counted from 0, then sets.
#[derive(Clone, Copy)]
struct Step {
    to: u32,
    place: Place,
}

/// All steps of a table; those of node n are `steps[starts[n]..starts[n + 1]]`.
struct Ways {
    starts: Vec<u32>,
    steps: Vec<Step>,
}

fn add_target(ways: &mut Ways, target: &Target) {
    if matches!(target.verdict, Verdict::Jump | Verdict::Goto) {
        ways.steps.push(Step {
            to: target.chain_index,
            place: target.place,
        });
    }
}

fn add_lookup(ways: &mut Ways, chains: usize, found: &Match, place: Place) {
    match &found.right {
        Right::Named { set, .. } => ways.steps.push(Step {
            to: chains as u32 + set,
            place,
        }),
        Right::Literal(elements) => elements
            .targets
            .iter()
            .for_each(|target| add_target(ways, target)),
        Right::Range(_) => {}
    }
}

/// Collects the steps of a table.
fn steps(table: &Table) -> Ways {
    let mut ways = Ways {
        starts: vec![0],
        steps: Vec::new(),
    };
    for chain in &table.chains {
        for statement in chain.rules.iter().flat_map(|rule| &rule.statements) {
            match &statement.kind {
                StatementKind::Verdict(target) => add_target(&mut ways, target),
                StatementKind::Vmap(found) => {
                    add_lookup(&mut ways, table.chains.len(), found, statement.place);
                }
                _ => {}
            }
        }
        ways.starts.push(ways.steps.len() as u32);
    }
    for set in &table.sets {
        for target in &set.elements.targets {
            add_target(&mut ways, target);
        }
        ways.starts.push(ways.steps.len() as u32);
    }
    ways
}

/// The name of a chain or set by its number among the ways.
fn step_name(table: &Table, node: u32) -> &str {
    let node = node as usize;
    match table.chains.get(node) {
        Some(chain) => &chain.name,
        None => &table.sets[node - table.chains.len()].name,
    }
}

/// Fails if chains lead back to themselves, or a way is too long.
fn check_ways(lexer: &Lexer, table: &Table, ways: &Ways) -> Result<(), Failure> {
    const NEW: u32 = 0;
    const OPEN: u32 = u32::MAX;
    let nodes = ways.starts.len() - 1;
    // NEW, OPEN, or one more than the chains of the longest way from there on.
    let mut lengths = vec![NEW; nodes];
    let mut longest = vec![0; nodes];
    let mut at = ways.starts.clone();
    let mut open: Vec<u32> = Vec::new();
    for root in 0..nodes as u32 {
        if lengths[root as usize] != NEW {
            continue;
        }
        lengths[root as usize] = OPEN;
        open.push(root);
        while let Some(node) = open.last().map(|node| *node as usize) {
            let is_chain = u32::from(node < table.chains.len());
            if at[node] == ways.starts[node + 1] {
                lengths[node] = 1 + is_chain + longest[node];
                open.pop();
                continue;
            }
            let step = ways.steps[at[node] as usize];
            let to = step.to as usize;
            let name = step_name(table, step.to);
            if lengths[to] == OPEN {
                let text = format!("\"{name}\": this closes a loop");
                return Err(lexer.fail(step.place, text));
            }
            if lengths[to] == NEW {
                lengths[to] = OPEN;
                open.push(step.to);
                continue;
            }
            longest[node] = longest[node].max(lengths[to] - 1);
            if (is_chain + longest[node]) as usize > WAY_MAX {
                let text = format!("\"{name}\": a way of more than {WAY_MAX} chains");
                return Err(lexer.fail(step.place, text));
            }
            at[node] += 1;
        }
    }
    Ok(())
}

/// Fails if a chain that a postrouting chain leads to rejects.
fn check_rejects(lexer: &Lexer, table: &Table, ways: &Ways) -> Result<(), Failure> {
    let is_start = |chain: &Chain| {
        chain
            .base
            .is_some_and(|base| base.hook == Hook::Postrouting)
    };
    let mut reached = vec![false; ways.starts.len() - 1];
    let mut open: Vec<usize> = Vec::new();
    for (index, chain) in table.chains.iter().enumerate() {
        if is_start(chain) {
            reached[index] = true;
            open.push(index);
        }
    }
    while let Some(node) = open.pop() {
        for step in &ways.steps[ways.starts[node] as usize..ways.starts[node + 1] as usize] {
            let to = step.to as usize;
            if !reached[to] {
                reached[to] = true;
                open.push(to);
            }
        }
    }
    let chains = table
        .chains
        .iter()
        .zip(&reached)
        .filter(|(_, reached)| **reached);
    for statement in chains
        .flat_map(|(chain, _)| &chain.rules)
        .flat_map(|rule| &rule.statements)
    {
        if matches!(statement.kind, StatementKind::Reject(_)) {
            let text = "\"reject\": not in a chain that postrouting reaches";
            return Err(lexer.fail(statement.place, text));
        }
    }
    Ok(())
}

/// Resolves the names of a policy whose text was read, and checks what could not be before.
pub fn policy(parser: &mut Parser) -> Result<(), Failure> {
    for (index, found) in parser.policy.tables.iter_mut().enumerate() {
        let names = Names {
            lexer: &parser.lexer,
            scope: &parser.scopes[index],
            set_places: &parser.set_places,
            bases: found
                .chains
                .iter()
                .map(|chain| chain.base.is_some())
                .collect(),
        };
        table(&names, found)?;
        let ways = steps(found);
        check_ways(&parser.lexer, found, &ways)?;
        check_rejects(&parser.lexer, found, &ways)?;
    }
    Ok(())
}
