// SPDX-License-Identifier: GPL-2.0-or-later
//! A folder of a case's own with a policy in it, a firewall that runs with it, and its control socket.

use testbed::twin::{Twin, TWINS};
use twinwall_tests::case::Case;

/// A case's body, for one twin.
pub type Body = fn(Twin) -> anyhow::Result<()>;

/// Cases named `PART/NAME/TWIN`.
pub fn of_both(part: &str, bodies: &[(&str, Body)]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, body) in bodies.iter().copied() {
        for twin in TWINS {
            let name = format!("{part}/{name}/{}", twin.name());
            cases.push(Case::new(name, 120, move || body(twin)));
        }
    }
    cases
}

/// Lines of the filter table that send what comes in for the port to the queue.
pub const RULES: &str = "-A INPUT -p udp --dport 9999 -j NFQUEUE --queue-num 0
-A INPUT -p tcp --dport 9999 -j NFQUEUE --queue-num 0";

/// Counts and drops what comes in for UDP port 9999; more rules may stand before.
pub fn policy(rules: &str) -> String {
    format!(
        "table inet t {{\n\tchain c {{\n\t\ttype filter hook input priority 0; policy accept;\n{rules}\n\
         \t\tudp dport 9999 counter drop\n\t}}\n}}\n"
    )
}
