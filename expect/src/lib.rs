// SPDX-License-Identifier: GPL-2.0-or-later
//! Expectations of a policy: comments with the expected verdict of a packet or connection (docs/POLICY.md). The Rust
//! twin's engine decides the packets.

mod comment;
mod judge;
mod line;
mod packet;

use std::fmt;

pub use judge::Settings;
use stage::{Place, Source};

/// Expectation that the policy breaks, or that can't be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub place: Place,
    /// Error text: "CAUSE: CURE" if the expectation can't be decided, otherwise "expected …, got …".
    pub text: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// Decides all expectations (comments `# expect: …`) of a policy. Returns their number, and the broken ones in the
/// order of the text. If the engine can't compile the policy, returns the first expectation as broken, with the cause.
/// - source: policy in which the paths of lists are absolute.
pub fn hold(source: &Source, settings: &Settings) -> (usize, Vec<Broken>) {
    let found = comment::find(&source.text);
    if found.is_empty() {
        return (0, Vec::new());
    }
    let broken = |at: usize, text: String| Broken {
        place: source.place(at),
        text,
    };
    let judge = match judge::Judge::new(source, settings) {
        Ok(judge) => judge,
        Err(why) => {
            let text = format!("the expectation can't be decided, since {why}: remove the expectations, or the words that GRAMMAR does not have");
            return (found.len(), vec![broken(found[0].at, text)]);
        }
    };
    let check = |comment: &comment::Comment| {
        let expected = line::read(comment.text);
        let result = expected.and_then(|expected| judge.check(&expected));
        result.err().map(|text| broken(comment.at, text))
    };
    (found.len(), found.iter().filter_map(check).collect())
}

#[cfg(test)]
mod tests {
    use rust_firewall::options::{self, OptionsAction};

    use super::*;

    fn settings() -> Settings {
        let words = ["rust-firewall", "--policy", "p.nft"].map(std::ffi::OsString::from);
        match options::parse(&words) {
            Ok(OptionsAction::Run(options)) => Settings::of_kernel(&options),
            _ => panic!("no options"),
        }
    }

    const POLICY: &str = "table inet f {
\tset ads { type hostname; elements = { \"ads.example\" } }
\tchain input {
\t\ttype filter hook input priority filter; policy drop;
\t\tiif \"lo\" accept
\t\ttls sni @ads drop
\t\tct state established,related accept
\t\ttcp dport { 22, 443 } ip saddr 198.51.100.0/24 accept
\t\tudp dport 443 accept
\t\ticmp type echo-request accept
\t}
\tchain output {
\t\ttype filter hook output priority filter; policy accept;
\t\toifname \"wg0\" meta skuid != 0 reject
\t}
}
";

    /// Returns the texts of the broken expectations.
    fn said(policy: &str, expectations: &str) -> Vec<String> {
        let source = stage::text("p.nft", &format!("{policy}{expectations}")).unwrap();
        let (_, broken) = hold(&source, &settings());
        broken.iter().map(Broken::to_string).collect()
    }

    #[test]
    fn what_holds() {
        for line in [
            "tcp 198.51.100.7 -> 10.0.2.1:22 new accept",
            "tcp 203.0.113.7 -> 10.0.2.1:22 new drop",
            "tcp 203.0.113.7 -> 10.0.2.1:22 established accept",
            "tcp 203.0.113.7 -> 10.0.2.1:22 iif lo new accept",
            "tcp 198.51.100.7 -> :443 tls sni ads.example drop",
            "tcp 198.51.100.7 -> :443 tls sni good.example accept",
            "tcp 203.0.113.7 -> :443 tls sni good.example drop",
            "quic sni ads.example drop",
            "quic sni good.example accept",
            "icmp accept",
            "icmp timestamp-request drop",
            "icmpv6 drop",
            "out tcp -> :22 oif eth0 accept",
            "out tcp -> :22 oif wg0 uid 1000 reject",
            "tcp -> :22 oif wg0 uid 0 accept",
            "tcp -> :22 invalid drop",
        ] {
            assert_eq!(
                said(POLICY, &format!("# expect: {line}\n")),
                [""; 0],
                "{line}"
            );
        }
    }

    #[test]
    fn what_breaks_names_place_and_rule() {
        for (line, expected) in [
            ("tcp 198.51.100.7 -> :22 drop", "p.nft:17: expected drop, got accept (in) by p.nft:8: tcp dport { 22, 443 } ip saddr 198.51.100.0/24 accept"),
            ("tcp -> :25 accept", "p.nft:17: expected accept, got drop (in) by the policy of chain inet f input"),
            ("tcp 198.51.100.7 -> :443 tls sni ads.example accept", "p.nft:17: expected accept, got drop (in) by p.nft:6: tls sni @ads drop"),
            ("tls sni good.example accept", "p.nft:17: expected accept, got drop of the first packet (in) by the policy of chain inet f input"),
            ("forward tcp -> :22 drop", "p.nft:17: expected drop, got accept (forward) by no chain in hook forward"),
        ] {
            assert_eq!(said(POLICY, &format!("# expect: {line}\n")), [expected], "{line}");
        }
    }

    #[test]
    fn a_name_behind_an_accept_of_established_connections_is_found() {
        let policy = POLICY
            .replace("\t\ttls sni @ads drop\n", "")
            .replace("\t\tudp dport", "\t\ttls sni @ads drop\n\t\tudp dport");
        let found = said(
            &policy,
            "# expect: tcp 198.51.100.7 -> :443 tls sni ads.example drop\n",
        );
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("by p.nft:6: ct state established,related accept"),
            "{found:?}"
        );
    }

    #[test]
    fn translation_is_left_out_and_the_unknown_is_said() {
        let nat = "table ip n {\n\tchain c {\n\t\ttype nat hook postrouting priority srcnat;\n\t\tmasquerade\n\t}\n}\n";
        assert_eq!(
            said(&format!("{nat}{POLICY}"), "# expect: tcp -> :25 drop\n"),
            [""; 0]
        );
        let found = said(
            &format!(
                "{POLICY}table ip x {{\n\tchain c {{\n\t\ttcp dport 1 dup to 10.0.0.1\n\t}}\n}}\n"
            ),
            "# expect: tcp -> :25 drop\n# expect: tcp -> :26 drop\n",
        );
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("p.nft:22: the expectation can't be decided, since p.nft:19:"),
            "{found:?}"
        );
        assert_eq!(said("nonsense\n", ""), [""; 0]);
    }
}
