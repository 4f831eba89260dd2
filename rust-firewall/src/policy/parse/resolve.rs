// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks that need the complete text: names of sets and chains, elements of named sets, paths through chains.

use crate::base::log::Failure;
use crate::policy::hostname::Hostnames;
use crate::policy::parse::elements::{self, Shape};
use crate::policy::parse::lexer::Lexer;
use crate::policy::parse::overlap;
use crate::policy::parse::set;
use crate::policy::parse::state::{Parser, Scope};
use crate::policy::{
    type_name, Chain, Elements, Hook, MapsTo, MarkSet, Match, Place, Right, Set, Statement,
    StatementKind, Table, Target, Verdict, WAY_MAX,
};

/// Declared names of a table, and the data that checks of references to them need.
struct Names<'a> {
    lexer: &'a Lexer,
    scope: &'a Scope,
    set_places: &'a [Place],
    hostnames: &'a Hostnames,
    /// For each chain of the table, true if it is a base chain.
    bases: Vec<bool>,
}

/// Finds the target chain of a jump or goto, and stores the chain's index. Fails if the table has no chain of this
/// name, or if the chain is a base chain. Does nothing for other verdicts.
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

/// Finds the target chains of a map's elements, and stores their indexes.
fn targets(names: &Names, elements: &mut Elements) -> Result<(), Failure> {
    for found in &mut elements.targets {
        target(names, found)?;
    }
    Ok(())
}

/// Returns the types of a set's fields as in its declaration, joined by ` . `.
fn type_names(shape: &Shape) -> String {
    let names: Vec<&str> = shape
        .fields
        .iter()
        .map(|(kind, _)| type_name(*kind))
        .collect();
    names.join(" . ")
}

/// Checks that a set has the types of a match's key, and that it is what the match needs: a set, or a map to verdicts
/// or marks.
fn check_set(
    lexer: &Lexer,
    set: &Set,
    found: &Match,
    maps_to: MapsTo,
    place: Place,
) -> Result<(), Failure> {
    let name = &set.name;
    if set.maps_to != maps_to {
        let cause = match maps_to {
            MapsTo::Set => "a map, and no set",
            MapsTo::VerdictMap => "no map to verdicts",
            MapsTo::MarkMap => "no map to marks",
        };
        return Err(lexer.fail(place, format_args!("\"{name}\": {cause}")));
    }
    let wanted = elements::shape(&found.key, maps_to, false);
    let shape = set::shape(set);
    if shape.fields == wanted.fields {
        return Ok(());
    }
    let (has, needs) = (type_names(&shape), type_names(&wanted));
    if has == needs {
        let text = format!("\"{name}\": its fields have other sizes than the key's");
        return Err(lexer.fail(place, text));
    }
    let text = format!("\"{name}\": its type is {has}, the key's {needs}");
    Err(lexer.fail(place, text))
}

/// Stores the index of the set that a match names, and checks the set's type. For a literal set, finds the chains that
/// the elements name.
fn resolve_match(
    names: &Names,
    sets: &[Set],
    found: &mut Match,
    maps_to: MapsTo,
) -> Result<(), Failure> {
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
    check_set(names.lexer, &sets[index as usize], found, maps_to, place)?;
    found.right = Right::Named { set: index, name };
    Ok(())
}

/// Finds the sets and chains that a statement names, and stores their indexes.
fn statement(names: &Names, sets: &[Set], kind: &mut StatementKind) -> Result<(), Failure> {
    match kind {
        StatementKind::Match(found) => resolve_match(names, sets, found, MapsTo::Set),
        StatementKind::Vmap(found) => resolve_match(names, sets, found, MapsTo::VerdictMap),
        StatementKind::MarkSet(set) => match &mut **set {
            MarkSet::Map(found) => resolve_match(names, sets, found, MapsTo::MarkMap),
            MarkSet::Bits { .. } => Ok(()),
        },
        StatementKind::Verdict(found) => target(names, found),
        _ => Ok(()),
    }
}

/// Finds the sets and chains that a chain's rules name, and stores their indexes.
fn chain(names: &Names, sets: &[Set], chain: &mut Chain) -> Result<(), Failure> {
    for found in chain.rules.iter_mut().flat_map(|rule| &mut rule.statements) {
        statement(names, sets, &mut found.kind)?;
    }
    Ok(())
}

/// Finds the sets and chains that a table's sets and rules name, and stores their indexes. Checks the elements of the
/// table's sets.
fn table(names: &Names, table: &mut Table) -> Result<(), Failure> {
    for set in &mut table.sets {
        let shape = set::shape(set);
        overlap::check(
            names.lexer,
            names.hostnames,
            &shape,
            &mut set.elements,
            set.auto_merge,
        )?;
        targets(names, &mut set.elements)?;
    }
    for found in &mut table.chains {
        chain(names, &table.sets, found)?;
    }
    Ok(())
}

/// Step from one node to another: from a chain to a chain or a verdict map, or from a verdict map to a chain. The nodes
/// are the chains, numbered from 0, then the sets.
#[derive(Clone, Copy)]
struct Step {
    to: u32,
    place: Place,
}

/// All steps of a table. The steps from node n are `steps[starts[n]..starts[n + 1]]`.
struct Ways {
    starts: Vec<u32>,
    steps: Vec<Step>,
}

fn add_step(ways: &mut Ways, to: u32, place: Place) {
    ways.steps.push(Step { to, place });
}

fn add_target(ways: &mut Ways, target: &Target) {
    if matches!(target.verdict, Verdict::Jump | Verdict::Goto) {
        add_step(ways, target.chain_index, target.place);
    }
}

fn add_targets(ways: &mut Ways, elements: &Elements) {
    for target in &elements.targets {
        add_target(ways, target);
    }
}

fn add_statement(ways: &mut Ways, chains: usize, statement: &Statement) {
    match &statement.kind {
        StatementKind::Verdict(target) => add_target(ways, target),
        StatementKind::Vmap(found) => match &found.right {
            Right::Named { set, .. } => add_step(ways, chains as u32 + set, statement.place),
            Right::Literal(elements) => add_targets(ways, elements),
            Right::Range(_) => {}
        },
        _ => {}
    }
}

fn add_chain(ways: &mut Ways, chains: usize, chain: &Chain) {
    for statement in chain.rules.iter().flat_map(|rule| &rule.statements) {
        add_statement(ways, chains, statement);
    }
}

/// Collects the steps of a table: from its chains by jump, goto and vmap, and from the elements of its verdict maps.
fn collect_ways(table: &Table) -> Ways {
    let mut ways = Ways {
        starts: vec![0],
        steps: Vec::new(),
    };
    for chain in &table.chains {
        add_chain(&mut ways, table.chains.len(), chain);
        ways.starts.push(ways.steps.len() as u32);
    }
    for set in &table.sets {
        add_targets(&mut ways, &set.elements);
        ways.starts.push(ways.steps.len() as u32);
    }
    ways
}

/// Returns the name of the chain or set with a node's number.
fn step_name(table: &Table, node: u32) -> &str {
    let node = node as usize;
    match table.chains.get(node) {
        Some(chain) => &chain.name,
        None => &table.sets[node - table.chains.len()].name,
    }
}

/// State of a node in the search: not reached, on the current path, or with all its paths followed.
#[derive(Clone, Copy, PartialEq)]
enum NodeState {
    New,
    Open,
    Done,
}

#[derive(Clone, Copy)]
struct Node {
    state: NodeState,
    /// Index of the next step to follow.
    at: u32,
    /// Number of chains on the longest followed path from this node. Includes the node itself only in the state Done,
    /// and only if it is a chain.
    length: u32,
}

/// Follows all paths from a node. Fails if a path contains a loop or more than WAY_MAX chains.
fn walk(
    lexer: &Lexer,
    table: &Table,
    ways: &Ways,
    nodes: &mut [Node],
    root: u32,
) -> Result<(), Failure> {
    let mut open = vec![root];
    nodes[root as usize].state = NodeState::Open;
    while let Some(node) = open.last().map(|node| *node as usize) {
        let is_chain = u32::from(node < table.chains.len());
        if nodes[node].at == ways.starts[node + 1] {
            nodes[node].state = NodeState::Done;
            nodes[node].length += is_chain;
            open.pop();
            continue;
        }
        let step = ways.steps[nodes[node].at as usize];
        let name = step_name(table, step.to);
        let to = nodes[step.to as usize];
        if to.state == NodeState::Open {
            let text = format!("\"{name}\": this closes a loop");
            return Err(lexer.fail(step.place, text));
        }
        if to.state == NodeState::New {
            nodes[step.to as usize].state = NodeState::Open;
            open.push(step.to);
            continue;
        }
        nodes[node].length = nodes[node].length.max(to.length);
        if (is_chain + nodes[node].length) as usize > WAY_MAX {
            let text = format!("\"{name}\": a way of more than {WAY_MAX} chains");
            return Err(lexer.fail(step.place, text));
        }
        nodes[node].at += 1;
    }
    Ok(())
}

/// Fails if a path through the chains contains a loop or more than WAY_MAX chains.
fn check_ways(lexer: &Lexer, table: &Table, ways: &Ways) -> Result<(), Failure> {
    let node = |at: &u32| Node {
        state: NodeState::New,
        at: *at,
        length: 0,
    };
    let count = ways.starts.len() - 1;
    let mut nodes: Vec<Node> = ways.starts[..count].iter().map(node).collect();
    for root in 0..count {
        if nodes[root].state == NodeState::New {
            walk(lexer, table, ways, &mut nodes, root as u32)?;
        }
    }
    Ok(())
}

/// Fails if a chain has a reject statement.
fn check_no_reject(lexer: &Lexer, chain: &Chain) -> Result<(), Failure> {
    for statement in chain.rules.iter().flat_map(|rule| &rule.statements) {
        if matches!(statement.kind, StatementKind::Reject(_)) {
            let text = "\"reject\": not in a chain that postrouting reaches";
            return Err(lexer.fail(statement.place, text));
        }
    }
    Ok(())
}

/// Fails if a chain that packets reach from the hook postrouting has a reject statement.
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
    let chains = table.chains.iter().zip(&reached);
    for (chain, _) in chains.filter(|(_, reached)| **reached) {
        check_no_reject(lexer, chain)?;
    }
    Ok(())
}

/// Checks the paths through a table's chains: no loops, at most WAY_MAX chains, no reject in a chain that the hook
/// postrouting reaches.
fn resolve_ways(lexer: &Lexer, table: &Table) -> Result<(), Failure> {
    let ways = collect_ways(table);
    check_ways(lexer, table, &ways)?;
    check_rejects(lexer, table, &ways)
}

/// Resolves the names of a parsed policy, and makes the checks that need the complete text.
pub fn policy(parser: &mut Parser) -> Result<(), Failure> {
    for (index, found) in parser.policy.tables.iter_mut().enumerate() {
        let names = Names {
            lexer: &parser.lexer,
            scope: &parser.scopes[index],
            set_places: &parser.set_places,
            hostnames: &parser.policy.hostnames,
            bases: found
                .chains
                .iter()
                .map(|chain| chain.base.is_some())
                .collect(),
        };
        table(&names, found)?;
        resolve_ways(&parser.lexer, found)?;
    }
    Ok(())
}
