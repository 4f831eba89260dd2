// SPDX-License-Identifier: GPL-2.0-or-later
//! Policy, rules and case names that the other files of this folder share.

use testbed::twin::{Twin, TWINS};
use twinwall_tests::case::Case;

/// Body of a case, for one twin.
pub type Body = fn(Twin) -> anyhow::Result<()>;

/// Returns cases named `PART/NAME/TWIN`.
pub fn of_both(part: &str, bodies: &[(&str, Body)]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, body) in bodies.iter().copied() {
        for twin in TWINS {
            let name = format!("{part}/{name}/{}", twin.name());
            cases.push(Case::new(name, move || body(twin)));
        }
    }
    cases
}

/// Lines of iptables' filter table that queue incoming packets to port 9999.
pub const RULES: &str = "-A INPUT -p udp --dport 9999 -j NFQUEUE --queue-num 0
-A INPUT -p tcp --dport 9999 -j NFQUEUE --queue-num 0";

/// Returns a policy that counts and drops incoming packets to UDP port 9999.
/// - rules: rules before this one.
pub fn policy(rules: &str) -> String {
    format!(
        "table inet t {{\n\tchain c {{\n\t\ttype filter hook input priority 0; policy accept;\n{rules}\n\
         \t\tudp dport 9999 counter drop\n\t}}\n}}\n"
    )
}
