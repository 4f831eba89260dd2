// SPDX-License-Identifier: GPL-2.0-or-later
//! Parsed policy: types only, no I/O. rules/policy/GRAMMAR.md specifies each part.
//!
//! Every value of every type is one number of up to 128 bits: the field's bytes on the wire as a big-endian number. An
//! interface name is its 16 bytes, NUL-padded, as a big-endian number, so that "eth*" is a range of numbers like
//! 10.0.0.0/8. A host name is its number in `Policy::hostnames`.

use std::sync::Arc;

use crate::policy::hostname::{self, Hostnames};
pub use crate::spec::field::*;

/// Maximum size of a name or a string, with the final NUL that it has in the C twin.
pub const NAME_BYTES: usize = 128;
/// Maximum number of fields of a concatenation.
pub const KEY_FIELDS_MAX: usize = 5;
/// Maximum number of chains on a path of jumps and gotos (NFT_JUMP_STACK_SIZE).
pub const WAY_MAX: usize = 16;
/// Maximum number of nested files, with the policy file.
pub const INCLUDE_DEPTH_MAX: usize = 16;
/// Maximum nesting depth of $NAME: the value of a definition may contain $NAME of another definition.
pub const DEFINE_DEPTH_MAX: usize = 64;
/// Maximum nesting depth of braces in a set.
pub const BRACE_DEPTH_MAX: usize = 16;
/// Maximum size of a policy with all its files, in bytes.
pub const TEXT_MAX: usize = 32 << 20;
/// Maximum number of tokens, after $NAME is replaced.
pub const TOKENS_MAX: u64 = 16 << 20;
/// Maximum number of sets that learn addresses from DNS replies.
pub const LEARNING_MAX: usize = 32;
/// Maximum number of elements of all sets together.
pub const ELEMENTS_MAX: usize = 2 << 20;
/// Maximum number of rules of all chains together.
pub const RULES_MAX: usize = 1 << 20;
/// Burst of a limit of packets without `burst` (NFT_LIMIT_PKT_BURST_DEFAULT).
pub const LIMIT_BURST_PACKETS: u64 = 5;

/// Position in the policy text of a part of the policy. The comparison of policies (`equal`) ignores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Index of the file in `Policy::files`.
    pub file: u32,
    /// Line number, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Ip,
    Ip6,
    Inet,
}

/// Values of enum nf_inet_hooks (linux/netfilter.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Hook {
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
}

pub const HOOK_COUNT: usize = Hook::Postrouting as usize + 1;

/// Key of a match or a set: 1 to KEY_FIELDS_MAX fields whose values are compared together, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    pub fields: Vec<Field>,
}

/// Range of values, low <= high; both ends are included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    pub low: u128,
    pub high: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Accept,
    Drop,
    Continue,
    Return,
    Jump,
    Goto,
}

#[derive(Clone, Debug)]
pub struct Target {
    pub verdict: Verdict,
    /// Name of the target chain for jump and goto, else "".
    pub chain: String,
    /// Index of the target chain for jump and goto in the table's chains; set by `parse`.
    pub chain_index: u32,
    /// Place of the chain's name for jump and goto, otherwise of the verdict's word.
    pub place: Place,
}

/// Elements of a set or map, in the order of the text. `ranges` has count * fields entries: the fields of the first
/// element, then of the second, …
#[derive(Clone, Debug, Default)]
pub struct Elements {
    /// Number of fields of each element's key.
    pub fields: usize,
    pub ranges: Vec<Range>,
    /// Verdicts of a verdict map, with the chains of jump and goto, one per element; empty for other sets and maps.
    pub targets: Vec<Target>,
    /// Marks of a map to marks, one per element; empty for other sets and maps.
    pub marks: Vec<u32>,
    /// Places of the elements in the policy text, one per element.
    pub places: Vec<Place>,
}

impl Elements {
    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Returns the ranges of an element, one per field.
    pub fn element(&self, index: usize) -> &[Range] {
        &self.ranges[index * self.fields..(index + 1) * self.fields]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapsTo {
    Set,
    VerdictMap,
    MarkMap,
}

/// File of host names that a set includes by `file`, with the counts of its lines and names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedFile {
    /// Path relative to the folder of the policy's first file; the unchanged path if the file lies outside this folder.
    pub path: String,
    /// Index of the file in `Policy::files`.
    pub file: u32,
    /// True for `with parents`: a line `*.x` also adds x itself.
    pub with_parents: bool,
    pub lines: u32,
    /// Number of names and wildcards that were added, with repetitions.
    pub names: u32,
    /// Number of skipped names of the machine itself, such as localhost.
    pub local: u32,
    /// Number of lines of which a part is not in a known format. Comments and empty lines are not counted.
    pub left_out: u32,
    /// Number of the first line that `left_out` counts, from 1; 0 = none.
    pub first_left_out: u32,
}

/// Host names of a set that were read from files.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    pub files: Vec<ListedFile>,
    /// Numbers of the names in `Policy::hostnames`, in the order of the files; a name may be repeated.
    pub ids: Vec<u32>,
}

/// A named set or map.
#[derive(Clone, Debug)]
pub struct Set {
    pub name: String,
    /// Comment of the set; "" = none.
    pub comment: String,
    pub place: Place,
    pub maps_to: MapsTo,
    /// Fields, if the set is declared with typeof; None if it is declared with type.
    pub key: Option<Key>,
    /// Types of the set's fields, one per field.
    pub types: Vec<Type>,
    pub interval: bool,
    pub constant: bool,
    pub auto_merge: bool,
    pub elements: Elements,
    /// Names from files, for a set of host names.
    pub listed: Listed,
    /// Names whose addresses the set learns from DNS replies; empty = it learns none.
    pub learned: Elements,
}

/// Comparison of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Eq,
    Ne,
    /// Less than the value `low` of the range; Gt, Le and Ge use this single value, too.
    Lt,
    Gt,
    Le,
    Ge,
    /// At least one of the bits is set: (field & low) != 0.
    BitsAny,
}

/// Right side of a match (a range of values, a named set, or a set in braces), or the map of a lookup (`map`, `vmap`).
#[derive(Clone, Debug)]
pub enum Right {
    Range(Range),
    /// Named set or map of the table: its index, set by `parse`, and its name.
    Named {
        set: u32,
        name: String,
    },
    Literal(Elements),
}

#[derive(Clone, Debug)]
pub struct Match {
    pub key: Key,
    /// Mask of the field: (field & mask) is compared. Such a match has a key of one field, and op is Eq or Ne.
    pub mask: Option<u128>,
    pub op: Op,
    pub right: Right,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Initial number of packets of the counter.
    pub packets: u64,
    /// Initial number of bytes of the counter.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub over: bool,
    /// True if the limit counts bytes, false if it counts packets.
    pub of_bytes: bool,
    /// Number of packets or bytes per unit of time; at least 1.
    pub rate: u64,
    /// Length of the unit of time in seconds: 1, 60, 3600, 86400 or 604800.
    pub unit_s: u64,
    /// Burst in packets or bytes; 0 = no burst, for bytes only.
    pub burst: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub over: bool,
    pub bytes: u64,
    pub used: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Prefix of the log line; "" = none.
    pub prefix: String,
    /// Level: 0 emerg .. 7 debug; 4 = warn, the default.
    pub level: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectKind {
    TcpReset,
    /// ICMP error of type 3 (destination unreachable), with this code.
    Icmp,
    /// ICMPv6 error of type 1 (destination unreachable), with this code.
    Icmpv6,
    /// ICMP error for an IPv4 packet, ICMPv6 error for an IPv6 packet; the code is one of ICMPX_*.
    Icmpx,
}

/// Values of enum nft_reject_inet_code (linux/netfilter/nf_tables.h).
pub const ICMPX_NO_ROUTE: u8 = 0;
pub const ICMPX_PORT_UNREACHABLE: u8 = 1;
pub const ICMPX_HOST_UNREACHABLE: u8 = 2;
pub const ICMPX_ADMIN_PROHIBITED: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    pub kind: RejectKind,
    pub code: u8,
}

/// New value of the packet's mark.
#[derive(Clone, Debug)]
pub enum MarkSet {
    /// The old mark with changed bits: (mark & keep) ^ toggle.
    Bits { keep: u32, toggle: u32 },
    /// Lookup in a map to marks: right is Named or Literal, op is Eq.
    Map(Match),
}

#[derive(Clone, Debug)]
pub struct Statement {
    pub place: Place,
    pub kind: StatementKind,
}

#[derive(Clone, Debug)]
pub enum StatementKind {
    Match(Box<Match>),
    Counter(Counter),
    Limit(Limit),
    Quota(Quota),
    Log(Box<Log>),
    MarkSet(Box<MarkSet>),
    Verdict(Box<Target>),
    Reject(Reject),
    /// Lookup in a verdict map: right is Named or Literal, op is Eq.
    Vmap(Box<Match>),
}

#[derive(Clone, Debug)]
pub struct Rule {
    /// Place of the rule's first token.
    pub place: Place,
    pub comment: Option<String>,
    pub statements: Vec<Statement>,
}

/// Properties of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    pub hook: Hook,
    pub priority: i32,
    /// Policy of the chain: Accept or Drop.
    pub policy: Verdict,
    /// Index of the chain's declaration among those of all base chains in the complete text, from 0.
    pub declared: u32,
}

#[derive(Clone, Debug)]
pub struct Chain {
    pub name: String,
    /// Comment of the chain; "" = none.
    pub comment: String,
    pub place: Place,
    pub base: Option<Base>,
    pub rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub family: Family,
    pub name: String,
    /// Comment of the table; "" = none.
    pub comment: String,
    pub sets: Vec<Set>,
    pub chains: Vec<Chain>,
}

#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub flush: bool,
    /// Paths of all files that were read, as they appear in messages; [0] is the policy file itself.
    pub files: Vec<String>,
    pub tables: Vec<Table>,
    /// Host names, which the compiled policy shares.
    pub hostnames: Arc<Hostnames>,
}

/// All families in order, with their names in the language.
pub const FAMILIES: [(Family, &str); 3] = [
    (Family::Ip, "ip"),
    (Family::Ip6, "ip6"),
    (Family::Inet, "inet"),
];

/// All hooks in order, with their names in the language.
pub const HOOKS: [(Hook, &str); HOOK_COUNT] = [
    (Hook::Prerouting, "prerouting"),
    (Hook::Input, "input"),
    (Hook::Forward, "forward"),
    (Hook::Output, "output"),
    (Hook::Postrouting, "postrouting"),
];

pub fn hook_name(hook: Hook) -> &'static str {
    HOOKS[hook as usize].1
}

/// Returns the name of a family in the language.
pub fn family_name(family: Family) -> &'static str {
    FAMILIES[family as usize].1
}

pub fn type_name(kind: Type) -> &'static str {
    TYPES[kind as usize].1
}

/// Returns the types of a key's fields.
pub fn key_types(key: &Key) -> Vec<Type> {
    let kinds = key.fields.iter().map(|field| field_facts(*field).kind);
    kinds.collect()
}

/// Returns true if a set is declared with `learn`: it holds addresses from DNS replies instead of elements.
pub fn set_learns(set: &Set) -> bool {
    set.learned.count() > 0
}

/// Host names of the two policies that are compared.
struct Both<'a>(&'a Hostnames, &'a Hostnames);

/// Returns true if two lists have equal items.
fn equal_all<T>(a: &[T], b: &[T], equal: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
}

/// Returns true if two ranges of a type are equal. Host names are compared by their text, because a name can have
/// different numbers in the two policies.
fn equal_range(both: &Both, kind: Type, a: &Range, b: &Range) -> bool {
    match kind {
        Type::Hostname => {
            hostname::get(both.0, a.low as u32) == hostname::get(both.1, b.low as u32)
        }
        _ => a == b,
    }
}

fn equal_target(a: &Target, b: &Target) -> bool {
    a.verdict == b.verdict && a.chain == b.chain
}

fn equal_elements(both: &Both, types: &[Type], a: &Elements, b: &Elements) -> bool {
    let mut ranges = a.ranges.iter().zip(&b.ranges).zip(types.iter().cycle());
    a.fields == b.fields
        && a.count() == b.count()
        && ranges.all(|((a, b), kind)| equal_range(both, *kind, a, b))
        && a.marks == b.marks
        && equal_all(&a.targets, &b.targets, equal_target)
}

fn equal_listed(both: &Both, a: &Listed, b: &Listed) -> bool {
    let same_name = |a: &u32, b: &u32| hostname::get(both.0, *a) == hostname::get(both.1, *b);
    let same_file =
        |a: &ListedFile, b: &ListedFile| (&a.path, a.with_parents) == (&b.path, b.with_parents);
    equal_all(&a.files, &b.files, same_file) && equal_all(&a.ids, &b.ids, same_name)
}

fn equal_set(both: &Both, a: &Set, b: &Set) -> bool {
    a.name == b.name
        && a.comment == b.comment
        && a.maps_to == b.maps_to
        && a.key == b.key
        && a.types == b.types
        && (a.interval, a.constant, a.auto_merge) == (b.interval, b.constant, b.auto_merge)
        && equal_elements(both, &a.types, &a.elements, &b.elements)
        && equal_listed(both, &a.listed, &b.listed)
        && equal_elements(both, &[Type::Hostname], &a.learned, &b.learned)
}

fn equal_match(both: &Both, a: &Match, b: &Match) -> bool {
    let types = key_types(&a.key);
    a.key == b.key
        && a.mask == b.mask
        && a.op == b.op
        && match (&a.right, &b.right) {
            (Right::Range(a), Right::Range(b)) => equal_range(both, types[0], a, b),
            (Right::Named { name: a, .. }, Right::Named { name: b, .. }) => a == b,
            (Right::Literal(a), Right::Literal(b)) => equal_elements(both, &types, a, b),
            _ => false,
        }
}

fn equal_mark_set(both: &Both, a: &MarkSet, b: &MarkSet) -> bool {
    match (a, b) {
        (MarkSet::Map(a), MarkSet::Map(b)) => equal_match(both, a, b),
        (
            MarkSet::Bits { keep, toggle },
            MarkSet::Bits {
                keep: other_keep,
                toggle: other_toggle,
            },
        ) => keep == other_keep && toggle == other_toggle,
        _ => false,
    }
}

fn equal_statement(both: &Both, a: &Statement, b: &Statement) -> bool {
    match (&a.kind, &b.kind) {
        (StatementKind::Match(a), StatementKind::Match(b))
        | (StatementKind::Vmap(a), StatementKind::Vmap(b)) => equal_match(both, a, b),
        (StatementKind::Counter(a), StatementKind::Counter(b)) => a == b,
        (StatementKind::Limit(a), StatementKind::Limit(b)) => a == b,
        (StatementKind::Quota(a), StatementKind::Quota(b)) => a == b,
        (StatementKind::Log(a), StatementKind::Log(b)) => a == b,
        (StatementKind::MarkSet(a), StatementKind::MarkSet(b)) => equal_mark_set(both, a, b),
        (StatementKind::Verdict(a), StatementKind::Verdict(b)) => equal_target(a, b),
        (StatementKind::Reject(a), StatementKind::Reject(b)) => a == b,
        _ => false,
    }
}

fn equal_rule(both: &Both, a: &Rule, b: &Rule) -> bool {
    let equal = |a: &Statement, b: &Statement| equal_statement(both, a, b);
    a.comment == b.comment && equal_all(&a.statements, &b.statements, equal)
}

fn equal_chain(both: &Both, a: &Chain, b: &Chain) -> bool {
    a.name == b.name
        && a.comment == b.comment
        && a.base == b.base
        && equal_all(&a.rules, &b.rules, |a, b| equal_rule(both, a, b))
}

fn equal_table(both: &Both, a: &Table, b: &Table) -> bool {
    a.family == b.family
        && a.name == b.name
        && a.comment == b.comment
        && equal_all(&a.sets, &b.sets, |a, b| equal_set(both, a, b))
        && equal_all(&a.chains, &b.chains, |a, b| equal_chain(both, a, b))
}

/// Returns true if two matches of one table are equal.
/// - hostnames: host names of the policy.
pub fn same_match(hostnames: &Hostnames, a: &Match, b: &Match) -> bool {
    equal_match(&Both(hostnames, hostnames), a, b)
}

/// Returns true if two policies are equal. Ignores places, and the list of the policy's files.
pub fn equal(a: &Policy, b: &Policy) -> bool {
    let both = Both(&a.hostnames, &b.hostnames);
    a.flush == b.flush && equal_all(&a.tables, &b.tables, |a, b| equal_table(&both, a, b))
}
