// SPDX-License-Identifier: GPL-2.0-or-later
//! Requirement of a policy: the packet data that it reads and the effects that it has, in all chains that a packet can
//! reach.

use crate::packet;
use crate::policy::{
    self, field_facts, Chain, Family, Field, Layer3, MarkSet, Match, Part, Policy, RejectKind,
    Right, Set, Statement, StatementKind, Table, Target, Verdict,
};

/// Number of bytes to copy so that the kernel reports a packet's length.
pub const LENGTH_BYTES: u32 = 1;
/// Number of bytes to copy for fields of the IPv4 header.
pub const IPV4_BYTES: u32 = 20;
/// Number of bytes to copy for fields of the fixed IPv6 header.
pub const IPV6_BYTES: u32 = 40;
/// Number of bytes to copy for layer 4 after the longest IPv4 header.
pub const IPV4_L4_BYTES: u32 = 80;
/// Number of bytes to copy for TCP options after the longest IPv4 header.
pub const IPV4_OPTION_BYTES: u32 = 120;
/// Number of bytes to copy for headers after the fixed IPv6 header, and for reject.
pub const ALL_BYTES: u32 = packet::COPY_BYTES;

/// Number of bytes to copy if the policy reads names or learns addresses: 16 KiB of data, and the headers before them.
pub const NAMES_BYTES: u32 = 16_512;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requirement {
    /// Minimum number of bytes of a packet to copy; 0 = metadata only.
    pub copy_bytes: u32,
    /// True if the policy needs data after the network header: for fields, for learning, or for a TCP reset.
    pub layer4: bool,
    /// True if the policy reads meta skuid or meta skgid.
    pub uid_gid: bool,
    /// True if the policy reads ct state.
    pub conntrack_state: bool,
    /// True if the policy reads ct mark.
    pub conntrack_mark: bool,
    /// True if the policy reads iifname or oifname.
    pub interface_names: bool,
    /// True if the policy reads names: fields of tls, http or dns.
    pub names: bool,
    /// True if the policy reads a field of HTTP requests (host or method).
    pub requests: bool,
    /// True if the policy uses a set that learns addresses.
    pub learns: bool,
    /// True if the policy rejects packets.
    pub reject: bool,
}

/// Search through those chains of a table that packets of one family can reach.
struct Search<'a> {
    table: &'a Table,
    ipv6: bool,
    /// Indexes of the reached chains, in the order in which they were found.
    found: Vec<usize>,
    /// For each chain, true if `found` contains it.
    known: Vec<bool>,
    requirement: &'a mut Requirement,
}

fn require(search: &mut Search, copy_bytes: u32) {
    let required = &mut search.requirement.copy_bytes;
    *required = copy_bytes.max(*required);
}

/// Adds layer 4, and all headers before it, to the requirement.
fn require_layer4(search: &mut Search) {
    let copy_bytes = if search.ipv6 {
        ALL_BYTES
    } else {
        IPV4_L4_BYTES
    };
    require(search, copy_bytes);
    search.requirement.layer4 = true;
}

/// Returns true if the field belongs to HTTP requests, so that each request of a connection has its own value.
fn is_of_requests(field: Field) -> bool {
    matches!(
        field,
        Field::HttpHost | Field::HttpHostExists | Field::HttpMethod
    )
}

fn require_field(search: &mut Search, field: Field) {
    let facts = field_facts(field);
    let other_family = if search.ipv6 {
        Layer3::NeedsIpv4
    } else {
        Layer3::NeedsIpv6
    };
    // Packets of this family never have the field, whatever is copied.
    if facts.layer3 == other_family {
        return;
    }
    match facts.part {
        Part::Ipv4 => require(search, IPV4_BYTES),
        Part::Ipv6 => require(search, IPV6_BYTES),
        Part::Extension | Part::Transport => require_layer4(search),
        Part::TcpOption => {
            require_layer4(search);
            require(search, IPV4_OPTION_BYTES);
        }
        Part::Protocol if search.ipv6 => require_layer4(search),
        Part::Protocol => require(search, IPV4_BYTES),
        Part::Length => require(search, LENGTH_BYTES),
        Part::InterfaceName => search.requirement.interface_names = true,
        Part::Owner => search.requirement.uid_gid = true,
        Part::CtState => search.requirement.conntrack_state = true,
        Part::Names => {
            require_layer4(search);
            require(search, NAMES_BYTES);
            search.requirement.names = true;
            search.requirement.requests |= is_of_requests(field);
        }
        Part::CtMark => search.requirement.conntrack_mark = true,
        Part::Meta => {}
    }
}

fn find(search: &mut Search, chain: usize) {
    if std::mem::replace(&mut search.known[chain], true) {
        return;
    }
    search.found.push(chain);
}

fn find_target(search: &mut Search, target: &Target) {
    if matches!(target.verdict, Verdict::Jump | Verdict::Goto) {
        find(search, target.chain_index as usize);
    }
}

/// Adds complete DNS messages to the requirement, if a set learns addresses from them.
fn require_learning(search: &mut Search, set: &Set) {
    if policy::set_learns(set) {
        require_layer4(search);
        require(search, NAMES_BYTES);
        search.requirement.learns = true;
    }
}

fn require_match(search: &mut Search, matched: &Match) {
    for &field in &matched.key.fields {
        require_field(search, field);
    }
    let elements = match &matched.right {
        Right::Range(_) => return,
        Right::Named { set, .. } => {
            let set = &search.table.sets[*set as usize];
            require_learning(search, set);
            &set.elements
        }
        Right::Literal(elements) => elements,
    };
    for target in &elements.targets {
        find_target(search, target);
    }
}

fn require_statement(search: &mut Search, statement: &Statement) {
    match &statement.kind {
        StatementKind::Match(matched) | StatementKind::Vmap(matched) => {
            require_match(search, matched);
        }
        StatementKind::Limit(limit) => {
            if limit.of_bytes {
                require(search, LENGTH_BYTES);
            }
        }
        StatementKind::Counter(_) | StatementKind::Quota(_) => require(search, LENGTH_BYTES),
        StatementKind::MarkSet(mark) => {
            if let MarkSet::Map(map) = &**mark {
                require_match(search, map);
            }
        }
        StatementKind::Verdict(target) => find_target(search, target),
        StatementKind::Reject(reject) => {
            require(search, ALL_BYTES);
            search.requirement.reject = true;
            if reject.kind == RejectKind::TcpReset {
                require_layer4(search);
            }
        }
        StatementKind::Log(_) => {}
    }
}

fn require_chain(search: &mut Search, chain: &Chain) {
    for statement in chain.rules.iter().flat_map(|rule| &rule.statements) {
        require_statement(search, statement);
    }
}

/// Adds the requirement of those chains of a table that packets of one family can reach.
fn require_table(table: &Table, ipv6: bool, requirement: &mut Requirement) {
    let mut search = Search {
        table,
        ipv6,
        found: Vec::new(),
        known: vec![false; table.chains.len()],
        requirement,
    };
    for (number, chain) in table.chains.iter().enumerate() {
        if chain.base.is_some() {
            find(&mut search, number);
        }
    }
    let mut next = 0;
    while let Some(&number) = search.found.get(next) {
        require_chain(&mut search, &table.chains[number]);
        next += 1;
    }
}

/// Returns the requirement of all chains that IPv4 packets, or IPv6 packets, can reach.
pub fn of(policy: &Policy, ipv6: bool) -> Requirement {
    let other = if ipv6 { Family::Ip } else { Family::Ip6 };
    let mut requirement = Requirement::default();
    for table in policy.tables.iter().filter(|table| table.family != other) {
        require_table(table, ipv6, &mut requirement);
    }
    requirement
}

/// Returns true if names are read, for decisions or for learning.
pub fn reads_names(requirement: &Requirement) -> bool {
    requirement.names || requirement.learns
}

/// Extends a requirement so that it also covers the other requirement.
/// - requirement: in/out: requirement that is extended.
pub fn join(requirement: &mut Requirement, other: &Requirement) {
    requirement.copy_bytes = requirement.copy_bytes.max(other.copy_bytes);
    requirement.layer4 |= other.layer4;
    requirement.uid_gid |= other.uid_gid;
    requirement.conntrack_state |= other.conntrack_state;
    requirement.conntrack_mark |= other.conntrack_mark;
    requirement.interface_names |= other.interface_names;
    requirement.names |= other.names;
    requirement.requests |= other.requests;
    requirement.learns |= other.learns;
    requirement.reject |= other.reject;
}
