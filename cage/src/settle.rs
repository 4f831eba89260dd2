// SPDX-License-Identifier: GPL-2.0-or-later
//! Settled connections with a caller's own policy: they leave the queue once their names are final, as with `--allow`.
//!
//! This is possible if all later packets of a connection have the same verdict: the compared fields are constant within
//! a connection, and no rule limits rates or sizes, or sets marks. Then a table of the cage, after the policy, sets the
//! mark of each direction for accepted packets. Counters and logs are not read in a cage.

use std::path::Path;

use rust_firewall::policy::parse;
use rust_firewall::policy::{
    self, field_facts, Chain, Field, Hook, Match, Op, Policy, Right, StatementKind, Table, Target,
    Verdict,
};

use crate::queue_rules::{SETTLED_IN, SETTLED_OUT};

/// Name of the cage's own table.
const TABLE: &str = "cage_settled";
/// TCP flags with constant values in the unqueued packets of a settled connection: FIN, SYN and RST are 0, because
/// packets with one of them are always queued; ACK is 1, because connection tracking accepts other packets only with
/// ACK (RFC 9293, section 3.1).
const STEADY_FLAGS: u128 = 0x17;
/// Bit of `ct state` that all packets of a settled connection have: established.
const ESTABLISHED: u128 = 2;

/// Place and reason why later packets of a connection may have different verdicts.
type Unsteady = String;

/// Returns true if all later packets of a connection have the same value in a field; of `tcp flags`, in the bits that
/// are compared.
/// - compared: match of the field.
fn is_steady(field: Field, compared: &Match) -> bool {
    use rust_firewall::policy::Part;
    match field_facts(field).part {
        Part::Names | Part::InterfaceName | Part::CtState | Part::Protocol => {
            field != Field::Ip6Nexthdr
        }
        Part::Ipv4 => matches!(field, Field::IpSaddr | Field::IpDaddr),
        Part::Ipv6 => matches!(field, Field::Ip6Saddr | Field::Ip6Daddr),
        Part::Meta => field != Field::MetaMark,
        Part::Transport if field == Field::TcpFlags => {
            let bits = match (compared.op, &compared.right) {
                (Op::BitsAny, Right::Range(range)) => Some(range.low),
                _ => compared.mask,
            };
            bits.is_some_and(|bits| bits & !STEADY_FLAGS == 0)
        }
        Part::Transport => true,
        Part::Extension | Part::TcpOption | Part::Length | Part::Owner | Part::CtMark => false,
    }
}

/// Returns the result of a `ct state` match for packets of a settled connection, which are established. None: another
/// kind of match.
fn holds(compared: &Match) -> Option<bool> {
    match (compared.key.fields.as_slice(), compared.op, &compared.right) {
        ([Field::CtState], Op::BitsAny, Right::Range(range)) => Some(range.low & ESTABLISHED != 0),
        _ => None,
    }
}

struct Walk<'a> {
    policy: &'a Policy,
    table: &'a Table,
    seen: Vec<bool>,
}

impl Walk<'_> {
    fn compare(&self, compared: &Match) -> Result<(), Unsteady> {
        let fields = &compared.key.fields;
        if let Some(field) = fields.iter().find(|field| !is_steady(**field, compared)) {
            return Err(format!(
                "\"{}\" differs between packets of a connection",
                field_facts(*field).text
            ));
        }
        match &compared.right {
            Right::Named { set, name } if policy::set_learns(&self.table.sets[*set as usize]) => {
                Err(format!("set {name} forgets addresses"))
            }
            _ => Ok(()),
        }
    }

    fn follow(&mut self, target: &Target) -> Result<(), Unsteady> {
        match target.verdict {
            Verdict::Jump | Verdict::Goto => self.chain(target.chain_index as usize),
            _ => Ok(()),
        }
    }

    fn elements(&mut self, compared: &Match) -> Result<(), Unsteady> {
        let elements = match &compared.right {
            Right::Named { set, .. } => &self.table.sets[*set as usize].elements,
            Right::Literal(elements) => elements,
            Right::Range(_) => return Ok(()),
        };
        elements
            .targets
            .iter()
            .try_for_each(|target| self.follow(target))
    }

    /// Checks a rule. Returns true if packets of a settled connection can reach the next rule.
    fn rule(&mut self, statements: &[policy::Statement]) -> Result<bool, Unsteady> {
        let mut is_certain = true;
        for statement in statements {
            let placed = |why: Unsteady| {
                let file = self
                    .policy
                    .files
                    .get(statement.place.file as usize)
                    .map_or("", |file| file.as_str());
                format!("{file}:{}: {why}", statement.place.line)
            };
            match &statement.kind {
                StatementKind::Match(compared) => {
                    match holds(compared) {
                        Some(true) => continue,
                        Some(false) => return Ok(true),
                        None => is_certain = false,
                    }
                    self.compare(compared).map_err(placed)?;
                }
                StatementKind::Vmap(compared) => {
                    self.compare(compared).map_err(placed)?;
                    self.elements(compared)?;
                }
                StatementKind::Limit(_) | StatementKind::Quota(_) => {
                    return Err(placed("a limit or quota has to see each packet".to_owned()))
                }
                StatementKind::MarkSet(_) => {
                    return Err(placed("it sets a mark itself".to_owned()))
                }
                StatementKind::Verdict(target) => {
                    self.follow(target)?;
                    let is_last = !matches!(target.verdict, Verdict::Continue | Verdict::Jump);
                    return Ok(!(is_certain && is_last));
                }
                StatementKind::Reject(_) => return Ok(!is_certain),
                StatementKind::Counter(_) | StatementKind::Log(_) => {}
            }
        }
        Ok(true)
    }

    fn chain(&mut self, number: usize) -> Result<(), Unsteady> {
        if std::mem::replace(&mut self.seen[number], true) {
            return Ok(());
        }
        let table = self.table;
        for rule in &table.chains[number].rules {
            if !self.rule(&rule.statements)? {
                break;
            }
        }
        Ok(())
    }
}

/// Returns true if packets in a cage reach a base chain: only the hooks input and output have queues.
fn is_asked(chain: &Chain) -> bool {
    chain
        .base
        .as_ref()
        .is_some_and(|base| matches!(base.hook, Hook::Input | Hook::Output))
}

fn check(policy: &Policy) -> Result<(), Unsteady> {
    for table in &policy.tables {
        if table.name == TABLE {
            return Err(format!("table {TABLE} has the name of the cage's own"));
        }
        let seen = vec![false; table.chains.len()];
        let mut walk = Walk {
            policy,
            table,
            seen,
        };
        for (number, _) in table
            .chains
            .iter()
            .enumerate()
            .filter(|(_, chain)| is_asked(chain))
        {
            walk.chain(number)?;
        }
    }
    Ok(())
}

/// Returns the text of a policy that includes the caller's policy and adds the table that settles connections. Fails
/// with place and reason if all packets must be queued. Also fails if the policy can't be parsed; then the firewall
/// prints the error.
pub fn wrap(file: &Path) -> Result<String, Unsteady> {
    let name = file.to_string_lossy();
    if name.contains(['"', '\\']) || name.chars().any(char::is_control) {
        return Err(format!(
            "{name}: a policy can't include a file of this name"
        ));
    }
    let read = parse::file(&name).map_err(|failure| failure.text)?;
    check(&read)?;
    let chain = |hook: &str, bit: u32| {
        format!(
            "\tchain {hook} {{\n\t\ttype filter hook {hook} priority 1000; policy accept;\n\t\tmeta mark set {bit:#x}\n\t}}\n"
        )
    };
    let (output, input) = (chain("output", SETTLED_OUT), chain("input", SETTLED_IN));
    Ok(format!(
        "include \"{name}\"\ntable inet {TABLE} {{\n{output}{input}}}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(rules: &str) -> String {
        let text = format!(
            "table inet a {{\n\tset learnt {{ type ipv4_addr; learn dns \"a.example\"; }}\n\tchain web {{ tls sni \"a.example\" accept; }}\n\
             \tchain output {{\n\t\ttype filter hook output priority filter; policy drop;\n{rules}\n\t}}\n\
             \tchain forward {{ type filter hook forward priority filter; meta length 5 drop; }}\n}}\n"
        );
        let read = parse::text("p.nft", text.as_bytes()).unwrap();
        check(&read).err().unwrap_or_default()
    }

    #[test]
    fn what_stays_the_same_over_a_connection_settles() {
        for rules in [
            "tls sni \"a.example\" counter accept",
            "oif \"lo\" accept\ntcp sport { 22, 80 } tcp flags & (syn | ack) != syn accept",
            "ip daddr 192.0.2.0/24 meta l4proto { tcp, udp } th dport vmap { 80 : accept, 443 : jump web }",
            "ct state established,related accept\nip daddr @learnt limit rate 5/second accept",
            "ct state new ip daddr @learnt accept\ntls sni \"a.example\" reject",
        ] {
            assert_eq!(said(rules), "", "{rules}");
        }
    }

    #[test]
    fn what_differs_between_packets_does_not() {
        for (rules, expected) in [
            (
                "tls sni \"a.example\" limit rate 5/second accept",
                "p.nft:6: a limit or quota has to see each packet",
            ),
            (
                "quota over 5 bytes drop",
                "p.nft:6: a limit or quota has to see each packet",
            ),
            (
                "ip daddr @learnt accept",
                "p.nft:6: set learnt forgets addresses",
            ),
            (
                "meta length 100 drop",
                "p.nft:6: \"meta length\" differs between packets of a connection",
            ),
            (
                "tcp flags & psh == psh drop",
                "p.nft:6: \"tcp flags\" differs between packets of a connection",
            ),
            (
                "meta skuid 0 accept",
                "p.nft:6: \"meta skuid\" differs between packets of a connection",
            ),
            ("meta mark set 1 accept", "p.nft:6: it sets a mark itself"),
            (
                "ct state established jump web\nip ttl 5 drop",
                "p.nft:7: \"ip ttl\" differs between packets of a connection",
            ),
        ] {
            assert_eq!(said(rules), expected, "{rules}");
        }
    }
}
