// SPDX-License-Identifier: GPL-2.0-or-later
//! Compilation of a policy into the form that decide evaluates: constants are folded, names and jumps are resolved,
//! sets become lookups, and rules that compare one field with constants are found by the field's value. The result
//! never changes, and all workers share it.

use crate::base::log::{failure_set, Failure, LogExit};
use crate::engine::compiled::{
    CompileAsk, CompileChain, CompileCounter, CompileFinder, CompileOp, CompileRule, CompileWide,
    Compiled, FlowLimit, FlowQuota, LIMIT_SIZE_MAX, REACH_COUNT,
};
use crate::engine::dependency;
use crate::engine::fields;
use crate::engine::hostnames;
use crate::engine::index;
use crate::engine::learning;
use crate::engine::set::{self, Set};
use crate::engine::types::CompilePlace;
use crate::policy::print;
use crate::policy::requirement::{self, Requirement};
use crate::policy::{
    self, field_facts, key_types, Base, Chain, Counter, Elements, Family, Field, Key, Limit,
    MarkSet, Match, Op, Place, Policy, Quota, Range, Right, Rule, Statement, StatementKind, Table,
    Type, Verdict,
};

/// Number of nanoseconds in a second.
const NANOSECONDS: u64 = 1_000_000_000;

pub struct CompileSettings<'a> {
    /// True if every rule is evaluated, without indexes, as explain needs. Outcomes and counters stay the same.
    pub linear: bool,
    /// Returns the index of a network interface; 0 = there is none with this name.
    pub interface_index: &'a dyn Fn(&str) -> u32,
    /// True if a missing interface is an error; otherwise no packet's interface is equal to it.
    pub interfaces_must_exist: bool,
}

/// State of a compilation.
struct Build<'a> {
    policy: &'a Policy,
    settings: &'a CompileSettings<'a>,
    out: Compiled,
    table: &'a Table,
    /// Number of the table's first chain.
    first_chain: u32,
    /// Number of the table's first named set.
    first_set: u32,
}

/// Appends an item to an array. Returns the item's index.
fn add<T>(array: &mut Vec<T>, item: T) -> u32 {
    array.push(item);
    array.len() as u32 - 1
}

/// Returns a failure with its cause and its place (file, line and column) in the policy's text.
fn refuse(build: &Build, place: &Place, token: &str, cause: &str) -> Failure {
    let file = &build.policy.files[place.file as usize];
    let (line, column) = (place.line, place.column);
    failure_set(
        LogExit::Usage,
        format_args!("{file}:{line}:{column}: \"{token}\": {cause}"),
    )
}

/// Returns the index of an interface as a range. If the interface is missing, returns an empty range, or fails if
/// interfaces must exist.
fn resolve_interface(build: &Build, place: &Place, range: &Range) -> Result<Range, Failure> {
    let bytes = range.low.to_be_bytes();
    let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    let index = (build.settings.interface_index)(&name);
    if index == 0 && build.settings.interfaces_must_exist {
        return Err(refuse(
            build,
            place,
            &name,
            "there is no network interface of this name: create it first, or match its name with \
             iifname or oifname",
        ));
    }
    Ok(match u128::from(index) {
        0 => Range { low: 1, high: 0 },
        index => Range {
            low: index,
            high: index,
        },
    })
}

/// Replaces a name in a range: an interface's name by the interface's index, a host name by the numbers of the name and
/// of the names below it. Returns other ranges unchanged.
fn resolve_range(
    build: &Build,
    place: &Place,
    kind: Type,
    range: &Range,
) -> Result<Range, Failure> {
    match kind {
        Type::IfaceIndex => resolve_interface(build, place, range),
        Type::Hostname => Ok(hostnames::interval(&build.out.hosts, range.low as u32)),
        _ => Ok(*range),
    }
}

/// Returns the ranges of elements with all names replaced as by `resolve_range`. An element with a missing interface
/// has an empty first range: `set::make` leaves it out.
fn resolve_elements(
    build: &Build,
    elements: &Elements,
    types: &[Type],
) -> Result<Vec<Range>, Failure> {
    let mut ranges = elements.ranges.clone();
    for (element, place) in ranges
        .chunks_exact_mut(elements.fields.max(1))
        .zip(&elements.places)
    {
        for (field, kind) in types.iter().enumerate() {
            element[field] = resolve_range(build, place, *kind, &element[field])?;
            if element[field].low > element[field].high {
                element[0] = element[field];
            }
        }
    }
    Ok(ranges)
}

/// Adds a set. Returns its number.
/// - listed: numbers of host names from files, which become additional elements.
fn add_set(
    build: &mut Build,
    elements: &Elements,
    types: &[Type],
    listed: &[u32],
) -> Result<u32, Failure> {
    let mut ranges = resolve_elements(build, elements, types)?;
    let hosts = &build.out.hosts;
    ranges.extend(listed.iter().map(|id| hostnames::interval(hosts, *id)));
    let made = set::make(types, elements, &ranges, build.first_chain);
    Ok(add(&mut build.out.sets, made))
}

fn add_named_set(build: &mut Build, set: &policy::Set) -> Result<(), Failure> {
    add_set(build, &set.elements, &set.types, &set.listed.ids)?;
    learning::add(&mut build.out, build.policy, build.table, set);
    Ok(())
}

/// Compiles the key of a match or map for the lookup in its set, and returns its kind. Only a key with one field is
/// masked.
fn run_set(build: &mut Build, matched: &Match) -> CompileAsk {
    let field = matched.key.fields[0];
    let mask = matched.mask.unwrap_or(u128::MAX);
    if matched.key.fields.len() > 1 {
        return CompileAsk::Key(add(&mut build.out.keys, matched.key.clone()));
    }
    let Some(slot) = fields::wide_slot(field) else {
        let mask = mask as u32;
        return CompileAsk::Narrow { field, mask };
    };
    let wide = CompileWide {
        field,
        slot,
        mask,
        low: 0,
        span: 0,
    };
    CompileAsk::Wide(add(&mut build.out.wides, wide))
}

/// Compiles the set and the key of a match or map. Adds the set, unless it is a named set. Returns the set's number and
/// the key's kind.
fn compile_set(build: &mut Build, matched: &Match) -> Result<(u32, CompileAsk), Failure> {
    let ask = run_set(build, matched);
    let set = match &matched.right {
        Right::Named { set, .. } => build.first_set + set,
        Right::Literal(elements) => add_set(build, elements, &key_types(&matched.key), &[])?,
        // The comparison never holds: its set is empty.
        Right::Range(_) => add(&mut build.out.sets, Set::default()),
    };
    Ok((set, ask))
}

/// Returns the values for which a comparison holds; None if there are none. `!=` is treated as `==`.
fn fold(op: Op, range: &Range, highest: u128) -> Option<Range> {
    let value = range.low;
    let (low, high) = match op {
        Op::Lt => (0, value.checked_sub(1)?),
        Op::Le => (0, value),
        Op::Gt if value < highest => (value + 1, highest),
        Op::Gt => return None,
        Op::Ge => (value, highest),
        Op::BitsAny => (1, highest),
        Op::Eq | Op::Ne => (range.low, range.high),
    };
    Some(Range { low, high })
}

fn compile_range(
    build: &mut Build,
    matched: &Match,
    right: &Range,
    place: &Place,
) -> Result<CompileOp, Failure> {
    let field = matched.key.fields[0];
    let negated = matched.op == Op::Ne;
    let slot = fields::wide_slot(field);
    let highest = slot.map_or(u32::MAX.into(), |_| u128::MAX);
    let mask = match matched.op {
        Op::BitsAny => right.low,
        _ => matched.mask.unwrap_or(highest),
    };
    let range = fold(matched.op, right, highest);
    let kind = field_facts(field).kind;
    let resolve = |range: Range| resolve_range(build, place, kind, &range);
    let range = range.map(resolve).transpose()?;
    let Some(Range { low, high }) = range.filter(|range| range.low <= range.high) else {
        let (set, ask) = compile_set(build, matched)?;
        return Ok(CompileOp::Set { set, ask, negated });
    };
    let span = high - low;
    if let Some(slot) = slot {
        let wide = CompileWide {
            field,
            slot,
            mask,
            low,
            span,
        };
        let wide = add(&mut build.out.wides, wide);
        return Ok(CompileOp::Wide { wide, negated });
    }
    Ok(CompileOp::Narrow {
        field,
        negated,
        mask: mask as u32,
        low: low as u32,
        span: span as u32,
    })
}

fn want(build: &mut Build, key: &Key) {
    for &field in &key.fields {
        build.out.wanted |= fields::bit(field);
    }
}

/// Returns a mask with the bit that the compiled policy uses for an ALPN protocol. Fails if the policy has more than 32
/// protocols.
fn protocol_bit(build: &mut Build, place: &Place, protocol: u128) -> Result<u32, Failure> {
    hostnames::add_protocol(&mut build.out.hosts, protocol).ok_or_else(|| {
        let mut token = print::value(Type::Alpn, protocol);
        token.retain(|letter| letter != '"');
        let cause = "more than 32 protocols of tls alpn in a policy";
        refuse(build, place, &token, cause)
    })
}

/// Compiles a match of the ALPN protocols that a client offers. Its comparison holds if at least one of them is in the
/// match's list.
fn compile_protocols(
    build: &mut Build,
    matched: &Match,
    place: &Place,
) -> Result<CompileOp, Failure> {
    let ranges = match &matched.right {
        Right::Range(range) => std::slice::from_ref(range),
        Right::Literal(elements) => &elements.ranges,
        Right::Named { .. } => &[],
    };
    let mut mask = 0;
    for range in ranges {
        mask |= protocol_bit(build, place, range.low)?;
    }
    Ok(CompileOp::Narrow {
        field: Field::TlsAlpn,
        negated: matched.op == Op::Ne,
        mask,
        low: 1,
        span: u32::MAX - 1,
    })
}

fn compile_match(build: &mut Build, matched: &Match, place: &Place) -> Result<CompileOp, Failure> {
    want(build, &matched.key);
    if matched.key.fields == [Field::TlsAlpn] {
        return compile_protocols(build, matched, place);
    }
    if let Right::Range(range) = &matched.right {
        return compile_range(build, matched, range, place);
    }
    let (set, ask) = compile_set(build, matched)?;
    let negated = matched.op == Op::Ne;
    Ok(match learning::find(&build.out, set) {
        Some(learning) => CompileOp::Learned {
            learning,
            ask,
            negated,
        },
        None => CompileOp::Set { set, ask, negated },
    })
}

fn compile_map(build: &mut Build, map: &Match) -> Result<(u32, CompileAsk), Failure> {
    want(build, &map.key);
    compile_set(build, map)
}

/// Compiles a limit into nanoseconds, like nft_limit_init. `parse` has refused values that overflow.
fn compile_limit(build: &mut Build, limit: &Limit) -> CompileOp {
    let nsecs = limit.unit_s * NANOSECONDS;
    let cost = nsecs / limit.rate;
    let size = match cost {
        _ if limit.of_bytes => nsecs * (limit.rate + limit.burst) / limit.rate,
        0 => LIMIT_SIZE_MAX as u64, // packets cost nothing: the limit is never exceeded
        cost => cost * limit.burst,
    };
    let made = FlowLimit {
        nsecs,
        rate: limit.rate,
        size: i64::try_from(size).map_or(LIMIT_SIZE_MAX, |size| size.min(LIMIT_SIZE_MAX)),
        cost: cost as i64,
        of_bytes: limit.of_bytes,
        over: limit.over,
    };
    CompileOp::Limit(add(&mut build.out.limits, made))
}

fn compile_quota(build: &mut Build, quota: &Quota) -> CompileOp {
    let &Quota { over, bytes, used } = quota;
    let made = FlowQuota { bytes, used, over };
    CompileOp::Quota(add(&mut build.out.quotas, made))
}

fn compile_mark(build: &mut Build, mark: &MarkSet) -> Result<CompileOp, Failure> {
    match mark {
        MarkSet::Map(map) => {
            let (set, ask) = compile_map(build, map)?;
            Ok(CompileOp::MarkMap { set, ask })
        }
        &MarkSet::Bits { keep, toggle } => Ok(CompileOp::Mark { keep, toggle }),
    }
}

fn compile_statement(
    build: &mut Build,
    statement: &Statement,
    place: CompilePlace,
) -> Result<CompileOp, Failure> {
    match &statement.kind {
        StatementKind::Match(matched) => compile_match(build, matched, &statement.place),
        &StatementKind::Counter(start) => {
            let made = CompileCounter { place, start };
            Ok(CompileOp::Counter(add(&mut build.out.counters, made)))
        }
        StatementKind::Limit(limit) => Ok(compile_limit(build, limit)),
        StatementKind::Quota(quota) => Ok(compile_quota(build, quota)),
        StatementKind::Log(_) => Ok(CompileOp::Log(add(&mut build.out.logs, place))),
        StatementKind::MarkSet(mark) => compile_mark(build, mark),
        StatementKind::Verdict(target) => Ok(CompileOp::Verdict {
            verdict: target.verdict,
            chain: build.first_chain + target.chain_index,
        }),
        &StatementKind::Reject(reject) => Ok(CompileOp::Reject(reject)),
        StatementKind::Vmap(map) => {
            let (set, ask) = compile_map(build, map)?;
            Ok(CompileOp::Vmap { set, ask })
        }
    }
}

fn compile_rule(build: &mut Build, rule: &Rule, place: CompilePlace) -> Result<(), Failure> {
    let made = CompileRule {
        first: build.out.ops.len() as u32,
        count: rule.statements.len() as u32,
        needs: dependency::needs(build.table.family, rule),
        names_at: dependency::names_at(rule),
    };
    build.out.rules.push(made);
    for (number, statement) in (0..).zip(&rule.statements) {
        let statement_place = CompilePlace {
            statement: number,
            ..place
        };
        let op = compile_statement(build, statement, statement_place)?;
        build.out.ops.push(op);
    }
    Ok(())
}

fn compile_chain(build: &mut Build, chain: &Chain, place: CompilePlace) -> Result<(), Failure> {
    let made = CompileChain {
        first_rule: build.out.rules.len() as u32,
        rule_count: chain.rules.len() as u32,
        finders: [CompileFinder::default(); REACH_COUNT],
        policy: chain.base.map_or(Verdict::Accept, |base| base.policy),
        place,
    };
    let number = add(&mut build.out.chains, made) as usize;
    for (rule_number, rule) in (0..).zip(&chain.rules) {
        let rule_place = CompilePlace {
            rule: rule_number,
            ..place
        };
        compile_rule(build, rule, rule_place)?;
    }
    if build.settings.linear {
        index::none(&mut build.out, number);
    } else {
        index::chain(&mut build.out, build.table, chain, number);
    }
    Ok(())
}

fn compile_table(build: &mut Build, number: u32) -> Result<(), Failure> {
    build.first_chain = build.out.chains.len() as u32;
    build.first_set = build.out.sets.len() as u32;
    for set in &build.table.sets {
        add_named_set(build, set)?;
    }
    for (chain_number, chain) in (0..).zip(&build.table.chains) {
        let place = CompilePlace {
            table: number,
            chain: chain_number,
            ..CompilePlace::default()
        };
        compile_chain(build, chain, place)?;
    }
    Ok(())
}

/// Adds the base chains to their hooks, by ascending priority. Of chains with the same priority, the chain that is
/// declared last comes first.
fn compile_bases(policy: &Policy, out: &mut Compiled) {
    let chains = policy
        .tables
        .iter()
        .flat_map(|table| table.chains.iter().map(|chain| (table.family, chain.base)));
    let mut bases: Vec<(Base, Family, u32)> = chains
        .zip(0..)
        .filter_map(|((family, base), number)| Some((base?, family, number)))
        .collect();
    bases.sort_unstable_by_key(|(base, ..)| (base.priority, std::cmp::Reverse(base.declared)));
    for (base, family, number) in bases {
        let [ipv4, ipv6] = &mut out.hooks[base.hook as usize];
        if family != Family::Ip6 {
            ipv4.push(number);
        }
        if family != Family::Ip {
            ipv6.push(number);
        }
    }
}

fn compile_requirements(policy: &Policy, out: &mut Compiled) {
    for ipv6 in [false, true] {
        requirement::join(&mut out.requirement, &requirement::of(policy, ipv6));
    }
}

/// Compiles a policy that `parse` has checked. Fails with `LogExit::Usage`, "FILE:LINE:COLUMN: …", for a missing
/// interface that must exist, and for more than 32 ALPN protocols.
pub fn policy(policy: &Policy, settings: &CompileSettings) -> Result<Compiled, Failure> {
    let mut out = Compiled {
        hosts: hostnames::make(&policy.hostnames),
        ..Compiled::default()
    };
    for (number, table) in (0..).zip(&policy.tables) {
        let mut build = Build {
            policy,
            settings,
            out,
            table,
            first_chain: 0,
            first_set: 0,
        };
        compile_table(&mut build, number)?;
        out = build.out;
    }
    compile_bases(policy, &mut out);
    compile_requirements(policy, &mut out);
    Ok(out)
}

pub fn requirement(compiled: &Compiled) -> &Requirement {
    &compiled.requirement
}

/// Returns the number of counter statements in the policy. They are numbered in the policy's order: tables, chains,
/// rules, statements.
pub fn counters(compiled: &Compiled) -> u32 {
    compiled.counters.len() as u32
}

/// Returns the position of a counter in the policy.
/// - counter: less than `counters`.
pub fn counter_at(compiled: &Compiled, counter: u32) -> CompilePlace {
    compiled.counters[counter as usize].place
}

/// Returns the initial value of a counter.
/// - counter: less than `counters`.
pub fn counter_start(compiled: &Compiled, counter: u32) -> Counter {
    compiled.counters[counter as usize].start
}

/// Returns the number of log statements in the policy. They are numbered like counters.
pub fn logs(compiled: &Compiled) -> u32 {
    compiled.logs.len() as u32
}

/// Returns the position of a log statement in the policy.
/// - log: less than `logs`.
pub fn log_at(compiled: &Compiled, log: u32) -> CompilePlace {
    compiled.logs[log as usize]
}

/// Returns the position of a chain in the policy, by the number in `DecideOutcome::chain`; rule and statement are 0.
pub fn chain_at(compiled: &Compiled, chain: u32) -> CompilePlace {
    compiled.chains[chain as usize].place
}

/// Returns the position of a rule in the policy, by the number in `DecideOutcome::rule`; statement is 0.
pub fn rule_at(compiled: &Compiled, rule: u32) -> CompilePlace {
    // The rule's chain is the last chain whose first rule is this rule or an earlier rule. An empty chain has the same
    // first rule as the chain after it.
    let behind = compiled
        .chains
        .partition_point(|chain| chain.first_rule <= rule);
    let chain = &compiled.chains[behind - 1];
    CompilePlace {
        rule: rule - chain.first_rule,
        ..chain.place
    }
}
