// SPDX-License-Identifier: GPL-2.0-or-later
//! Printing of a policy as its canonical text, which parses to the same policy. rules/policy/GRAMMAR.md, "The canonical
//! print".
//!
//! Theory of operation: each table is printed as one block, unless the declarations of base chains alternate between
//! tables. The order of declaration decides which of two base chains with the same priority runs first. Therefore such
//! tables are printed in several blocks, which keep this order.

use std::fmt::Write;

use crate::policy::hostname::{self, Hostnames};
use crate::policy::value;
use crate::policy::{
    family_name, field_facts, hook_name, key_types, set_learns, type_name, Chain, Counter,
    Elements, Family, Key, Limit, Log, MapsTo, MarkSet, Match, Op, Policy, Quota, Range, Reject,
    RejectKind, Right, Rule, Set, Statement, StatementKind, Table, Target, Type, Verdict,
    ICMPX_PORT_UNREACHABLE,
};

/// Code of ICMP type 3 for an unreachable port.
const ICMP_PORT_UNREACHABLE: u8 = 3;
/// Code of ICMPv6 type 1 for an unreachable port.
const ICMPV6_PORT_UNREACHABLE: u8 = 4;
/// Level of a log without `level`.
const LEVEL_WARN: u8 = 4;

fn put(out: &mut String, text: std::fmt::Arguments) {
    out.write_fmt(text).expect("a String takes all");
}

fn print_key(out: &mut String, key: &Key) {
    for (index, field) in key.fields.iter().enumerate() {
        let text = field_facts(*field).text;
        put(
            out,
            format_args!("{}{text}", if index > 0 { " . " } else { "" }),
        );
    }
}

/// Prints a range of values like `value::print_range`, or a host name.
pub fn range(out: &mut String, hostnames: &Hostnames, kind: Type, values: &Range) {
    match kind {
        Type::Hostname => {
            let name = hostname::text(hostnames, values.low as u32);
            put(out, format_args!("\"{name}\""));
        }
        _ => value::print_range(out, kind, values),
    }
}

/// Returns the text of a match's operator; "" if the match has the same meaning without an operator.
fn op_text(match_: &Match, kind: Type) -> &'static str {
    let exact = value::is_flags(kind) && matches!(match_.right, Right::Range(_));
    match match_.op {
        Op::Eq if match_.mask.is_some() || exact => " ==",
        Op::Eq | Op::BitsAny => "",
        Op::Ne => " !=",
        Op::Lt => " <",
        Op::Gt => " >",
        Op::Le => " <=",
        Op::Ge => " >=",
    }
}

fn print_target(out: &mut String, target: &Target) {
    match target.verdict {
        Verdict::Accept => out.push_str("accept"),
        Verdict::Drop => out.push_str("drop"),
        Verdict::Continue => out.push_str("continue"),
        Verdict::Return => out.push_str("return"),
        Verdict::Jump => put(out, format_args!("jump {}", target.chain)),
        Verdict::Goto => put(out, format_args!("goto {}", target.chain)),
    }
}

fn print_elements(out: &mut String, hostnames: &Hostnames, types: &[Type], elements: &Elements) {
    out.push_str("{ ");
    for index in 0..elements.count() {
        if index > 0 {
            out.push_str(", ");
        }
        for (field, values) in elements.element(index).iter().enumerate() {
            if field > 0 {
                out.push_str(" . ");
            }
            range(out, hostnames, types[field], values);
        }
        if let Some(target) = elements.targets.get(index) {
            out.push_str(" : ");
            print_target(out, target);
        }
        if let Some(mark) = elements.marks.get(index) {
            put(out, format_args!(" : 0x{mark:08x}"));
        }
    }
    out.push_str(" }");
}

/// Prints the right side of a match, or the map of a lookup.
fn print_right(out: &mut String, hostnames: &Hostnames, match_: &Match, types: &[Type]) {
    match &match_.right {
        Right::Range(range) if match_.op == Op::BitsAny => {
            value::print(out, types[0], range.low, ",");
        }
        Right::Range(values) => range(out, hostnames, types[0], values),
        Right::Named { name, .. } => put(out, format_args!("@{name}")),
        Right::Literal(elements) => print_elements(out, hostnames, types, elements),
    }
}

fn print_match(out: &mut String, hostnames: &Hostnames, match_: &Match) {
    let types = key_types(&match_.key);
    print_key(out, &match_.key);
    if let Some(mask) = match_.mask {
        out.push_str(" & ");
        value::print_mask(out, types[0], mask);
    }
    out.push_str(op_text(match_, types[0]));
    out.push(' ');
    print_right(out, hostnames, match_, &types);
}

/// Prints a lookup: `KEY map @NAME`, `KEY vmap { … }`.
fn print_map(out: &mut String, hostnames: &Hostnames, match_: &Match, word: &str) {
    print_key(out, &match_.key);
    put(out, format_args!(" {word} "));
    print_right(out, hostnames, match_, &key_types(&match_.key));
}

fn print_limit(out: &mut String, limit: &Limit) {
    let Limit { rate, burst, .. } = limit;
    let over = if limit.over { "over " } else { "" };
    let bytes = if limit.of_bytes { " bytes" } else { "" };
    let unit = value::unit_name(limit.unit_s);
    put(out, format_args!("limit rate {over}{rate}{bytes}/{unit}"));
    if !limit.of_bytes {
        put(out, format_args!(" burst {burst} packets"));
    } else if *burst > 0 {
        put(out, format_args!(" burst {burst} bytes"));
    }
}

fn print_quota(out: &mut String, quota: &Quota) {
    let Quota { bytes, used, .. } = quota;
    let over = if quota.over { "over " } else { "" };
    put(out, format_args!("quota {over}{bytes} bytes"));
    if *used > 0 {
        put(out, format_args!(" used {used} bytes"));
    }
}

fn print_log(out: &mut String, log: &Log) {
    out.push_str("log");
    if !log.prefix.is_empty() {
        put(out, format_args!(" prefix \"{}\"", log.prefix));
    }
    if log.level != LEVEL_WARN {
        put(out, format_args!(" level {}", value::level_name(log.level)));
    }
}

fn print_bits(out: &mut String, keep: u32, toggle: u32) {
    if keep == 0 {
        put(out, format_args!("0x{toggle:08x}"));
    } else if toggle == 0 {
        put(out, format_args!("meta mark & 0x{keep:08x}"));
    } else if toggle == !keep {
        put(out, format_args!("meta mark | 0x{toggle:08x}"));
    } else if keep == u32::MAX {
        put(out, format_args!("meta mark ^ 0x{toggle:08x}"));
    } else {
        put(
            out,
            format_args!("meta mark & 0x{keep:08x} ^ 0x{toggle:08x}"),
        );
    }
}

fn print_mark_set(out: &mut String, hostnames: &Hostnames, mark_set: &MarkSet) {
    out.push_str("meta mark set ");
    match mark_set {
        MarkSet::Map(match_) => print_map(out, hostnames, match_, "map"),
        MarkSet::Bits { keep, toggle } => print_bits(out, *keep, *toggle),
    }
}

/// Returns the reject that `reject` without `with` means in a table of this family.
fn default_reject(family: Family) -> Reject {
    let (kind, code) = match family {
        Family::Ip => (RejectKind::Icmp, ICMP_PORT_UNREACHABLE),
        Family::Ip6 => (RejectKind::Icmpv6, ICMPV6_PORT_UNREACHABLE),
        Family::Inet => (RejectKind::Icmpx, ICMPX_PORT_UNREACHABLE),
    };
    Reject { kind, code }
}

fn print_reject(out: &mut String, table: &Table, reject: Reject) {
    out.push_str("reject");
    if reject == default_reject(table.family) {
        return;
    }
    let kind = match reject.kind {
        RejectKind::TcpReset => "tcp reset",
        RejectKind::Icmp => "icmp",
        RejectKind::Icmpv6 => "icmpv6",
        RejectKind::Icmpx => "icmpx",
    };
    put(out, format_args!(" with {kind}"));
    match value::reject_name(reject.kind, reject.code) {
        Some(code) => put(out, format_args!(" {code}")),
        None if reject.kind == RejectKind::TcpReset => {}
        None => put(out, format_args!(" {}", reject.code)),
    }
}

fn put_statement(out: &mut String, hostnames: &Hostnames, table: &Table, statement: &Statement) {
    match &statement.kind {
        StatementKind::Match(match_) => print_match(out, hostnames, match_),
        StatementKind::Counter(Counter { packets, bytes }) => {
            put(out, format_args!("counter packets {packets} bytes {bytes}"));
        }
        StatementKind::Limit(limit) => print_limit(out, limit),
        StatementKind::Quota(quota) => print_quota(out, quota),
        StatementKind::Log(log) => print_log(out, log),
        StatementKind::MarkSet(mark_set) => print_mark_set(out, hostnames, mark_set),
        StatementKind::Verdict(target) => print_target(out, target),
        StatementKind::Reject(reject) => print_reject(out, table, *reject),
        StatementKind::Vmap(match_) => print_map(out, hostnames, match_, "vmap"),
    }
}

fn put_rule(out: &mut String, hostnames: &Hostnames, table: &Table, rule: &Rule) {
    for (index, statement) in rule.statements.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        put_statement(out, hostnames, table, statement);
    }
    if let Some(comment) = &rule.comment {
        put(out, format_args!(" comment \"{comment}\""));
    }
}

fn print_chain(out: &mut String, hostnames: &Hostnames, table: &Table, chain: &Chain) {
    put(out, format_args!("\tchain {} {{\n", chain.name));
    if !chain.comment.is_empty() {
        put(out, format_args!("\t\tcomment \"{}\"\n", chain.comment));
    }
    if let Some(base) = &chain.base {
        let hook = hook_name(base.hook);
        let priority = base.priority;
        let policy = if base.policy == Verdict::Drop {
            "drop"
        } else {
            "accept"
        };
        put(
            out,
            format_args!("\t\ttype filter hook {hook} priority {priority}; policy {policy};\n"),
        );
    }
    for rule in &chain.rules {
        out.push_str("\t\t");
        put_rule(out, hostnames, table, rule);
        out.push('\n');
    }
    out.push_str("\t}\n");
}

fn print_set_type(out: &mut String, set: &Set) {
    out.push_str("\t\t");
    if let Some(key) = &set.key {
        out.push_str("typeof ");
        print_key(out, key);
    } else {
        for (index, kind) in set.types.iter().enumerate() {
            let before = if index > 0 { " . " } else { "type " };
            put(out, format_args!("{before}{}", type_name(*kind)));
        }
    }
    out.push_str(match (set.maps_to, &set.key) {
        (MapsTo::Set, _) => "\n",
        (MapsTo::VerdictMap, _) => " : verdict\n",
        (MapsTo::MarkMap, None) => " : mark\n",
        (MapsTo::MarkMap, Some(_)) => " : meta mark\n",
    });
}

fn print_learned(out: &mut String, hostnames: &Hostnames, learned: &Elements) {
    out.push_str("\t\tlearn dns ");
    match learned.ranges[..] {
        [name] => range(out, hostnames, Type::Hostname, &name),
        _ => print_elements(out, hostnames, &[Type::Hostname], learned),
    }
    out.push('\n');
}

fn print_set(out: &mut String, hostnames: &Hostnames, set: &Set) {
    let word = if set.maps_to == MapsTo::Set {
        "set"
    } else {
        "map"
    };
    put(out, format_args!("\t{word} {} {{\n", set.name));
    if !set.comment.is_empty() {
        put(out, format_args!("\t\tcomment \"{}\"\n", set.comment));
    }
    print_set_type(out, set);
    match (set.constant, set.interval) {
        (true, true) => out.push_str("\t\tflags constant,interval\n"),
        (true, false) => out.push_str("\t\tflags constant\n"),
        (false, true) => out.push_str("\t\tflags interval\n"),
        (false, false) => {}
    }
    if set.auto_merge {
        out.push_str("\t\tauto-merge\n");
    }
    for file in &set.listed.files {
        let parents = if file.with_parents {
            " with parents"
        } else {
            ""
        };
        put(out, format_args!("\t\tfile \"{}\"{parents}\n", file.path));
    }
    if set_learns(set) {
        print_learned(out, hostnames, &set.learned);
    }
    if set.elements.count() > 0 {
        out.push_str("\t\telements = ");
        print_elements(out, hostnames, &set.types, &set.elements);
        out.push('\n');
    }
    out.push_str("\t}\n");
}

/// Prints a block with those parts of a table that are not printed yet, up to a chain.
/// - printed: in/out: parts that are already printed.
/// - end: index of the first chain that is not printed.
fn print_block(
    out: &mut String,
    hostnames: &Hostnames,
    table: &Table,
    printed: &mut Printed,
    end: usize,
) {
    let mut between = "";
    let mut item = |out: &mut String| {
        out.push_str(between);
        between = "\n";
    };
    put(
        out,
        format_args!("table {} {} {{\n", family_name(table.family), table.name),
    );
    if !printed.opened {
        if !table.comment.is_empty() {
            item(out);
            put(out, format_args!("\tcomment \"{}\"\n", table.comment));
        }
        for set in &table.sets {
            item(out);
            print_set(out, hostnames, set);
        }
    }
    for chain in &table.chains[printed.chains..end] {
        item(out);
        print_chain(out, hostnames, table, chain);
    }
    out.push_str("}\n");
    *printed = Printed {
        opened: true,
        chains: end,
    };
}

/// Indexes of a base chain (of its table, and in its table), and its position in the order in which the text declares
/// base chains.
struct Declared {
    declared: u32,
    table: usize,
    chain: usize,
}

/// Parts of a table that are already printed. opened is true if the comment and the sets are printed; chains is the
/// number of printed chains.
#[derive(Clone, Copy, Default)]
struct Printed {
    opened: bool,
    chains: usize,
}

/// Returns the base chains in the order of declaration.
fn declared_chains(tables: &[Table]) -> Vec<Declared> {
    let mut list = Vec::new();
    for (table, chains) in tables.iter().map(|table| &table.chains).enumerate() {
        for (chain, base) in chains.iter().map(|chain| &chain.base).enumerate() {
            if let Some(base) = base {
                let declared = base.declared;
                list.push(Declared {
                    declared,
                    table,
                    chain,
                });
            }
        }
    }
    list.sort_by_key(|item| item.declared);
    list
}

fn has_base_chain(table: &Table) -> bool {
    table.chains.iter().any(|chain| chain.base.is_some())
}

/// Prints the tables from index `from` to index `end` (excluded); nothing of them was printed before. Prints a table
/// without base chains completely. Prints only the name of a table with base chains, because its blocks come later.
fn mention_tables(out: &mut String, policy: &Policy, from: usize, end: usize) {
    for table in policy.tables.iter().take(end).skip(from) {
        if has_base_chain(table) {
            put(
                out,
                format_args!("table {} {}\n", family_name(table.family), table.name),
            );
        } else {
            print_block(
                out,
                &policy.hostnames,
                table,
                &mut Printed::default(),
                table.chains.len(),
            );
        }
    }
}

fn print_tables(out: &mut String, policy: &Policy) {
    let tables = &policy.tables;
    let list = declared_chains(tables);
    let mut printed = vec![Printed::default(); tables.len()];
    let mut last = vec![0; tables.len()];
    let mut mentioned = 0;
    for (index, item) in list.iter().enumerate() {
        last[item.table] = index;
    }
    for (index, item) in list.iter().enumerate() {
        let table = &tables[item.table];
        let next = list.get(index + 1);
        if next.is_some_and(|next| next.table == item.table) {
            continue;
        }
        let all = last[item.table] == index;
        let end = if all {
            table.chains.len()
        } else {
            item.chain + 1
        };
        mention_tables(out, policy, mentioned, item.table);
        mentioned = mentioned.max(item.table + 1);
        print_block(out, &policy.hostnames, table, &mut printed[item.table], end);
    }
    mention_tables(out, policy, mentioned, tables.len());
}

/// Returns the text of a complete policy, with a line end after each line.
pub fn policy(policy: &Policy) -> String {
    let mut out = String::new();
    if policy.flush {
        out.push_str("flush ruleset\n");
    }
    print_tables(&mut out, policy);
    out
}

/// Returns the text of a rule on one line, with its comment, without indentation and line end.
pub fn rule(policy: &Policy, table: &Table, rule: &Rule) -> String {
    let mut out = String::new();
    put_rule(&mut out, &policy.hostnames, table, rule);
    out
}

/// Returns the text of a value (not a host name); flags are joined by commas.
pub fn value(kind: Type, value: u128) -> String {
    let mut out = String::new();
    value::print(&mut out, kind, value, ",");
    out
}
