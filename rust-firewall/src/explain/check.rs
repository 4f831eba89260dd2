// SPDX-License-Identifier: GPL-2.0-or-later
//! Command `check`: checks a policy.

use crate::base::log::{self, Failure, LogExit};
use crate::base::output;
use crate::engine::compile::{self, CompileSettings};
use crate::explain::describe;
use crate::options::Options;
use crate::policy::advice;
use crate::policy::parse;
use crate::policy::print;
use crate::policy::{
    field_facts, set_learns, Chain, Field, Part, Policy, Right, Rule, Statement, StatementKind,
    Table,
};

/// Maximum number of printed positions of rules that nft does not support.
const RULES_TOLD: usize = 8;

/// Returns true if a statement searches a set that learns addresses.
fn asks_learnt(table: &Table, statement: &Statement) -> bool {
    let StatementKind::Match(matched) = &statement.kind else {
        return false;
    };
    match &matched.right {
        Right::Named { set, .. } => set_learns(&table.sets[*set as usize]),
        _ => false,
    }
}

/// Returns true if a rule of a table matches a name, or an address learned from a name.
fn reads_names(table: &Table, rule: &Rule) -> bool {
    rule.statements.iter().any(|statement| {
        let fields = describe::key_of(statement).map_or(&[][..], |key| &key.fields);
        let is_name = |field: &Field| field_facts(*field).part == Part::Names;
        fields.iter().any(is_name) || asks_learnt(table, statement)
    })
}

/// Writes the positions of those rules of a chain that nft does not support, but no more than RULES_TOLD of all chains.
/// - told: in/out: number of rules so far, in all chains, that nft does not support.
fn put_chain(out: &mut String, policy: &Policy, table: &Table, chain: &Chain, told: &mut usize) {
    for rule in chain.rules.iter().filter(|rule| reads_names(table, rule)) {
        *told += 1;
        if *told > RULES_TOLD {
            continue;
        }
        let before = match *told {
            1 => "only Twinwall decides: ",
            _ => ", ",
        };
        let file = policy.files.get(rule.place.file as usize);
        let file = file.map_or("", String::as_str);
        out.push_str(&format!("{before}{file}:{}", rule.place.line));
    }
}

/// Writes the positions of the first RULES_TOLD rules that nft does not support, and the number of the remaining rules.
/// Writes nothing if nft supports all rules.
fn put_rules(out: &mut String, policy: &Policy) {
    let mut told = 0;
    for table in &policy.tables {
        for chain in &table.chains {
            put_chain(out, policy, table, chain, &mut told);
        }
    }
    if told > RULES_TOLD {
        out.push_str(&format!(" and {} more", told - RULES_TOLD));
    }
    if told > 0 {
        out.push('\n');
    }
}

/// Returns the report on a valid policy.
fn summary(policy: &Policy) -> String {
    let mut out = String::from("ok\n");
    put_rules(&mut out, policy);
    out
}

fn check(options: &Options) -> Result<(), Failure> {
    let policy = parse::file(options.policy.as_deref().unwrap_or_default())?;
    // `check` does not look up interfaces: the firewall does so when it loads the policy.
    let settings = CompileSettings {
        linear: false,
        interface_index: &|_| 0,
        interfaces_must_exist: false,
    };
    compile::policy(&policy, &settings)?;
    if options.print {
        output::print(&print::policy(&policy));
        return Ok(());
    }
    output::print(&summary(&policy));
    advice::report(&policy, &mut |text| output::print(&format!("{text}\n")));
    advice::advise(&policy, &mut |text| log::warn(text));
    Ok(())
}

/// Checks options.policy. Prints "ok", the rules that nft does not support and the number of names in each file of
/// names; logs warnings about rules with less effect than they seem to have. With options.print, prints only the
/// policy's canonical text. Logs the error of an invalid policy. Returns the exit code.
pub fn run(options: &Options) -> LogExit {
    match check(options) {
        Ok(()) => LogExit::Stopped,
        Err(failure) => log::fail(&failure),
    }
}
