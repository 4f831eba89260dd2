// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets that wait in another program's queue during apply and revert.

use anyhow::ensure;
use twinwall_tests::held::Held;

use super::place::{Place, Row, POLICY};

pub const ROWS: &[Row] = &[(
    "packets-in-queues-survive-a-change",
    packets_in_queues_survive,
)];

/// Policy with the table, the set's name and the chain of POLICY, but with other contents. The first lines are like
/// those that the name stage adds.
const CHANGED: &str = "table inet host
delete table inet host
table inet host {
	map known {
		type inet_service : verdict
		elements = { 7777 : jump other }
	}
	chain other {
		counter drop
	}
	chain input {
		type filter hook input priority filter; policy drop;
		udp dport 5000 accept
		udp dport vmap @known
	}
}
";
const ONE_MORE: &str = "table inet host {
	chain output {
		type filter hook output priority filter; policy accept;
		udp dport 8888 drop
	}
	chain input {
		type filter hook input priority filter;
		udp dport 7777 drop
	}
}
";

/// Checks that no waiting packet is lost while base chains stay or are added, in an apply and in a revert.
fn packets_in_queues_survive() -> anyhow::Result<()> {
    let place = Place::new()?;
    let held = Held::send(&place.namespace)?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    place.done(&["apply", "--now", &policy])?;
    held.check("the first policy")?;
    let before = place.rules()?;
    let changed = place.folder.write("changed.nft", CHANGED)?;
    place.done(&["apply", "--confirm", "600", &changed])?;
    held.check("a changed policy")?;
    let rules = place.rules()?;
    ensure!(
        rules.contains("policy drop;\n\t\tudp dport 5000 accept") && !rules.contains("192.0.2.1"),
        "{rules}"
    );
    place.done(&["revert"])?;
    held.check("a revert")?;
    place.check_rules(&before)?;
    place.done(&["apply", "--now", &changed])?;
    let more = place.folder.write("more.nft", ONE_MORE)?;
    place.done(&["apply", "--now", &more])?;
    held.check("one more base chain")?;
    let rules = place.rules()?;
    ensure!(
        rules.contains("policy accept;\n\t\tudp dport 7777 drop") && !rules.contains("chain other"),
        "{rules}"
    );
    held.release()
}
