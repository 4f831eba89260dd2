// SPDX-License-Identifier: GPL-2.0-or-later
//! Report on a policy's files of host names, and warnings about parts of a valid policy that most likely have less
//! effect than they seem to have, one line each.

use crate::policy::{
    field_facts, Chain, Elements, Field, ListedFile, MarkSet, Match, Op, Part, Place, Policy,
    RejectKind, Right, Rule, StatementKind, Table, Target, Verdict,
};

/// Value of `ct state established`.
const ESTABLISHED: u128 = 2;
/// Maximum number of rules that a search examines, because there may be very many paths through the chains.
const STEPS_MAX: u32 = 1 << 20;
/// Share of unused lines in a file of host names above which a warning is due: one line in LEFT_OUT_SHARE.
const LEFT_OUT_SHARE: u32 = 10;

/// Search for a rule that reads names (tls, http or dns fields) after a rule that accepts established connections.
struct Search<'a> {
    table: &'a Table,
    /// Place of the rule that accepts established connections, once it is found; None = none.
    accepts: Option<Place>,
    /// Place of the first rule with a tls, http or dns field after `accepts`; None = none.
    behind: Option<Place>,
    steps: u32,
}

fn file_of(policy: &Policy, file: u32) -> &str {
    let name = policy.files.get(file as usize);
    name.map_or("", String::as_str)
}

/// Returns a place as text: "FILE:LINE".
fn shown(policy: &Policy, place: Place) -> String {
    format!("{}:{}", file_of(policy, place.file), place.line)
}

fn elements_of<'a>(table: &'a Table, right: &'a Right) -> Option<&'a Elements> {
    match right {
        Right::Range(_) => None,
        Right::Named { set, .. } => Some(&table.sets[*set as usize].elements),
        Right::Literal(elements) => Some(elements),
    }
}

/// Returns true if an element whose first field is ct state contains the state of established connections.
fn is_established(elements: &Elements, index: usize) -> bool {
    let range = &elements.ranges[index * elements.fields];
    (range.low..=range.high).contains(&ESTABLISHED)
}

/// Returns true if a match holds for all packets of established connections. A match of meta l4proto or meta nfproto
/// counts as if it held for all packets.
fn holds(table: &Table, matched: &Match) -> bool {
    match matched.key.fields[..] {
        [Field::MetaL4proto | Field::MetaNfproto] => return true,
        [Field::CtState] => {}
        _ => return false,
    }
    let found = match (&matched.right, elements_of(table, &matched.right)) {
        (Right::Range(range), _) if matched.op == Op::BitsAny => {
            return range.low & ESTABLISHED != 0
        }
        (Right::Range(range), _) => {
            let value = ESTABLISHED & matched.mask.unwrap_or(ESTABLISHED);
            (range.low..=range.high).contains(&value)
        }
        (_, Some(elements)) => (0..elements.count()).any(|index| is_established(elements, index)),
        (_, None) => false,
    };
    match matched.op {
        Op::Eq => found,
        Op::Ne => !found,
        _ => false,
    }
}

/// Returns true if a verdict map accepts established connections.
fn map_accepts(table: &Table, map: &Match) -> bool {
    let elements = elements_of(table, &map.right);
    let Some(elements) = elements.filter(|_| map.key.fields == [Field::CtState]) else {
        return false;
    };
    let mut targets = elements.targets.iter().zip(0..);
    targets
        .any(|(target, index)| target.verdict == Verdict::Accept && is_established(elements, index))
}

/// Returns true if a rule accepts all packets of established connections, perhaps of some protocols only.
fn accepts_established(table: &Table, rule: &Rule) -> bool {
    let mut reads_state = false;
    for statement in &rule.statements {
        match &statement.kind {
            StatementKind::Match(matched) if holds(table, matched) => {
                reads_state |= matched.key.fields[0] == Field::CtState;
            }
            StatementKind::Counter(_) | StatementKind::Log(_) => {}
            // A map without the packet's key ends the rule.
            StatementKind::MarkSet(set) if matches!(**set, MarkSet::Bits { .. }) => {}
            StatementKind::Verdict(target) => {
                return reads_state && target.verdict == Verdict::Accept
            }
            StatementKind::Vmap(map) => return map_accepts(table, map),
            _ => return false,
        }
    }
    false
}

/// Returns true if a match or verdict map of a rule reads a field for which `wanted` returns true.
fn reads(rule: &Rule, wanted: &dyn Fn(Field) -> bool) -> bool {
    rule.statements
        .iter()
        .any(|statement| match &statement.kind {
            StatementKind::Match(matched) | StatementKind::Vmap(matched) => {
                matched.key.fields.iter().any(|field| wanted(*field))
            }
            _ => false,
        })
}

fn is_name(field: Field) -> bool {
    field_facts(field).part == Part::Names
}

/// Searches the chain that a jump or goto leads to, like `search_chain`. Does nothing for other verdicts.
/// - always: true if the jump or goto has no condition. Then a rule of its chain that accepts established connections
///   also counts for the calling chain.
fn search_target(search: &mut Search, target: &Target, always: bool) {
    if !matches!(target.verdict, Verdict::Jump | Verdict::Goto) {
        return;
    }
    let before = search.accepts;
    let table = search.table;
    search_chain(search, &table.chains[target.chain_index as usize]);
    if !always {
        search.accepts = before;
    }
}

/// Searches a chain and the chains that its jumps and gotos lead to. Stops at the first rule that reads names (tls,
/// http or dns fields) after a rule that accepts established connections, or after STEPS_MAX rules.
fn search_chain(search: &mut Search, chain: &Chain) {
    let table = search.table;
    for rule in &chain.rules {
        if search.behind.is_some() || search.steps == 0 {
            return;
        }
        search.steps -= 1;
        if search.accepts.is_some() && reads(rule, &is_name) {
            search.behind = Some(rule.place);
            return;
        }
        if search.accepts.is_none() && accepts_established(table, rule) {
            search.accepts = Some(rule.place);
        }
        match rule.statements.last().map(|last| &last.kind) {
            Some(StatementKind::Verdict(target)) => {
                search_target(search, target, rule.statements.len() == 1);
            }
            Some(StatementKind::Vmap(map)) => {
                let targets = elements_of(table, &map.right).map(|elements| &elements.targets);
                for target in targets.into_iter().flatten() {
                    search_target(search, target, false);
                }
            }
            _ => {}
        }
    }
}

/// Warns about a base chain that accepts established connections before a rule that reads names (tls, http or dns
/// fields).
fn tell_established(policy: &Policy, table: &Table, chain: &Chain, tell: &mut dyn FnMut(&str)) {
    let mut search = Search {
        table,
        accepts: None,
        behind: None,
        steps: STEPS_MAX,
    };
    search_chain(&mut search, chain);
    if let (Some(accepts), Some(behind)) = (search.accepts, search.behind) {
        tell(&format!(
            "{}: reads names after {}, which accepts established connections: these are accepted \
             before they show a name: put this rule before that one",
            shown(policy, behind),
            shown(policy, accepts)
        ));
    }
}

/// Warns about a rule that reads TLS fields and has `reject with tcp reset`, but no match of the protocol or of
/// layer 4: QUIC with the same name passes it.
fn tell_reset(policy: &Policy, rule: &Rule, tell: &mut dyn FnMut(&str)) {
    let reset = rule.statements.last().is_some_and(|last| {
        matches!(&last.kind, StatementKind::Reject(reject) if reject.kind == RejectKind::TcpReset)
    });
    let tls = Field::TlsSni as u32..=Field::TlsEch as u32;
    let is_tls = |field: Field| tls.contains(&(field as u32));
    let is_told = |field: Field| {
        let part = field_facts(field).part;
        part == Part::Transport || part == Part::Protocol || field == Field::IpProtocol
    };
    if reset && reads(rule, &is_tls) && !reads(rule, &is_told) {
        tell(&format!(
            "{}: answers TCP only and lets QUIC with the same name pass: write `reject`",
            shown(policy, rule.place)
        ));
    }
}

/// Warns about a file of host names that has no names or many unused lines.
fn tell_file(policy: &Policy, file: &ListedFile, tell: &mut dyn FnMut(&str)) {
    let name = file_of(policy, file.file);
    if file.names == 0 {
        tell(&format!("{name}: has no names: is it the right file?"));
    } else if u64::from(file.left_out) * u64::from(LEFT_OUT_SHARE) > u64::from(file.lines) {
        tell(&format!(
            "{name}:{}: {} of {} lines have an unknown format and were left out, the first one \
             here: see `file` in GRAMMAR.md",
            file.first_left_out, file.left_out, file.lines
        ));
    }
}

/// Reports one line for each file of host names: its numbers of lines, of names, of skipped names (those of the machine
/// itself, such as localhost), and of left-out lines (those of an unknown format). Omits each of the last two if it is
/// 0.
pub fn report(policy: &Policy, tell: &mut dyn FnMut(&str)) {
    let sets = policy.tables.iter().flat_map(|table| &table.sets);
    for file in sets.flat_map(|set| &set.listed.files) {
        let name = file_of(policy, file.file);
        let mut text = format!("{name}: lines {}, names {}", file.lines, file.names);
        if file.local > 0 {
            let of_machine = ", names of this machine skipped";
            text.push_str(&format!("{of_machine} {}", file.local));
        }
        if file.left_out > 0 {
            let (left_out, first) = (file.left_out, file.first_left_out);
            let first = format!(", the first at {name}:{first}");
            text.push_str(&format!(", left out {left_out}{first}"));
        }
        tell(&text);
    }
}

/// Warns, one line each, about parts that most likely have less effect than intended: rules that read names (tls, http
/// or dns fields) after a rule that accepts established connections, `reject with tcp reset` of TLS names, and files of
/// host names without names or with many unused lines.
pub fn advise(policy: &Policy, tell: &mut dyn FnMut(&str)) {
    for table in &policy.tables {
        for chain in &table.chains {
            if chain.base.is_some() {
                tell_established(policy, table, chain, tell);
            }
            for rule in &chain.rules {
                tell_reset(policy, rule, tell);
            }
        }
        for file in table.sets.iter().flat_map(|set| &set.listed.files) {
            tell_file(policy, file, tell);
        }
    }
}
