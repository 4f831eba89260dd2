// SPDX-License-Identifier: GPL-2.0-or-later
//! Rules of other programs' tables that put connections into a flowtable. Packets of these connections skip the chains
//! of prerouting and forward: a policy decides them neither by names nor after a reload, and can't end them.

use std::fmt;

use crate::failure::Result;
use crate::nft;
use crate::source::Table;

/// Rule of another program's table with the statement `flow add`, which puts connections into a flowtable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    pub table: Table,
    pub chain: String,
    pub flowtable: String,
    /// Number by which nft deletes the rule.
    pub handle: String,
}

impl fmt::Display for Flow {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let Flow {
            table,
            chain,
            flowtable,
            handle,
        } = self;
        write!(
            to,
            "table {table}, chain {chain}: flow add @{flowtable} takes connections past this policy, whatever their names: \
             put the flowtable into the policy, or: nft delete rule {table} {chain} handle {handle}; nft delete flowtable {table} \
             {flowtable} (until then the connections in it go on)"
        )
    }
}

/// Returns the text without quoted strings, such as comments.
fn unquoted(line: &str) -> String {
    line.split('"').step_by(2).collect()
}

/// Returns the name of the flowtable to which a rule adds connections; None: the rule has no `flow add`.
fn flowtable(rule: &str) -> Option<String> {
    let words = unquoted(rule);
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut threes = words.windows(3);
    threes.find_map(|three| match three {
        ["flow", "add" | "offload", name] => Some(name.trim_start_matches('@').to_owned()),
        _ => None,
    })
}

/// Finds the rules that put connections into a flowtable, in a text of `nft --handle list ruleset`.
/// - own: tables that are left out.
fn find(text: &str, own: &[Table]) -> Vec<Flow> {
    let (mut table, mut chain) = (None, "");
    let mut flows = Vec::new();
    for line in text.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["table", family, name, ..] => {
                let named = Table {
                    family: family.to_owned(),
                    name: name.to_owned(),
                };
                table = (!own.contains(&named)).then_some(named);
            }
            ["chain", name, ..] => chain = name,
            _ => {
                let handle = line.rsplit_once("# handle ").map(|(_, handle)| handle);
                let found = table.as_ref().zip(flowtable(line));
                flows.extend(found.map(|(table, flowtable)| Flow {
                    table: table.clone(),
                    chain: chain.to_owned(),
                    flowtable,
                    handle: handle.unwrap_or("N").to_owned(),
                }));
            }
        }
    }
    flows
}

/// Returns the rules of the kernel's tables that put connections into a flowtable.
/// - own: tables that are left out.
pub fn of_others(own: &[Table]) -> Result<Vec<Flow>> {
    Ok(find(&nft::outlines()?, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of `nft --handle -t list ruleset` (nft 1.0.6 on Debian 12).
    const LISTED: &str = "table inet router { # handle 3
	set known { # handle 7
		type ipv4_addr
	}

	flowtable fast { # handle 2
		hook ingress priority filter
		devices = { veth0, veth2 }
	}

	chain prerouting { # handle 1
		type filter hook prerouting priority filter; policy accept;
	}

	chain forward { # handle 4
		type filter hook forward priority filter; policy accept;
		meta l4proto { tcp, udp } flow add @fast # handle 5
		tcp dport 80 accept comment \"no flow add @fast here\" # handle 6
	}
}
table inet host { # handle 9
	chain forward { # handle 1
		ct state established flow add @own counter packets 0 bytes 0 # handle 8
	}
}
";

    fn table(name: &str) -> Table {
        Table {
            family: "inet".to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn flows_of_others_are_found() {
        let found = find(LISTED, &[table("host")]);
        let flow = Flow {
            table: table("router"),
            chain: "forward".to_owned(),
            flowtable: "fast".to_owned(),
            handle: "5".to_owned(),
        };
        assert_eq!(found, std::slice::from_ref(&flow));
        let said = flow.to_string();
        assert!(
            said.starts_with("table inet router, chain forward: flow add @fast takes connections past this policy"),
            "{said}"
        );
        assert!(
            said.contains(
                "nft delete rule inet router forward handle 5; nft delete flowtable inet router "
            ),
            "{said}"
        );
        let names: Vec<String> = find(LISTED, &[])
            .into_iter()
            .map(|flow| flow.flowtable)
            .collect();
        assert_eq!(names, ["fast", "own"]);
        assert!(find(LISTED, &[table("host"), table("router")]).is_empty());
    }
}
