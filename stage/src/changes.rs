// SPDX-License-Identifier: GPL-2.0-or-later
//! Fields of a packet that NAT may change between the chain that queues it and a rule with names in the same hook. Any
//! program may load rules of NAT, so these fields may change in every policy. The output interface is that of the
//! hook's start for all chains of the hook, even if the kernel routes the packet again (nf_hook_state).

use std::ops::RangeInclusive;

use crate::matches::Match;

/// Priority of NAT of destinations, in prerouting and output (NF_IP_PRI_NAT_DST).
const NAT_DST: i32 = -100;
/// Priority of NAT of sources, in input (NF_IP_PRI_NAT_SRC).
const NAT_SRC: i32 = 100;

/// Fields that NAT may change between the chain that queues a packet and a rule with names.
pub struct Changes {
    sources: bool,
    destinations: bool,
}

impl Changes {
    /// Returns the fields that NAT may change in a hook between two priorities.
    /// - priorities: those of the chain that queues packets, and of the rule's base chain. The order of chains with the
    ///   same priority is unknown.
    pub fn between(hook: &str, priorities: RangeInclusive<i32>) -> Changes {
        let has_destinations = ["prerouting", "output"].contains(&hook);
        Changes {
            sources: hook == "input" && priorities.contains(&NAT_SRC),
            destinations: has_destinations && priorities.contains(&NAT_DST),
        }
    }

    /// Returns true if a match reads a field that NAT may change.
    pub fn concern(&self, found: &Match) -> bool {
        let reads = |words: [&str; 2]| words.iter().any(|word| found.field.ends_with(word));
        self.sources && reads(["saddr", "sport"]) || self.destinations && reads(["daddr", "dport"])
    }
}

#[cfg(test)]
mod tests {
    use crate::hooks::TRANSLATED;
    use crate::{split, text, Options, Queue};

    /// Splits a policy with a rule in a chain of a hook. Returns the matches by which this hook selects packets to be
    /// queued.
    /// - priority: priority of the rule's chain.
    /// - more: further chains of the table.
    fn lines(queue: Queue, hook: &str, priority: i32, rule: &str, more: &str) -> Vec<String> {
        let policy = format!(
            "table inet f {{\n\tchain c {{\n\t\ttype filter hook {hook} priority {priority}\n\t\t{rule}\n\t}}\n{more}}}\n"
        );
        let options = Options {
            queue,
            ..Options::default()
        };
        let kernel = split(&text("p.nft", &policy).unwrap(), &options)
            .unwrap()
            .kernel;
        let chain = kernel
            .split(&format!("chain stage-names-{hook} {{"))
            .nth(1)
            .unwrap();
        let own = chain.split("\n\t}").next().unwrap();
        let asked = own
            .lines()
            .filter_map(|line| line.strip_suffix(" goto stage-ask"));
        asked.map(|line| line.trim().to_owned()).collect()
    }

    const RULE: &str = "ip saddr 10.0.0.1 ip daddr 10.0.0.2 udp dport 443 tls sni exists drop";

    #[test]
    fn packets_are_queued_before_their_destination_changes() {
        for (queue, hook, priority, is_more) in [
            (Queue::Nft, "output", 0, false),
            (Queue::Nft, "output", -96, false),
            (Queue::Nft, "output", -97, true),
            (Queue::Nft, "output", -100, true),
            (Queue::Nft, "output", -101, false),
            (Queue::Nft, "forward", -98, false),
            (Queue::Nft, "input", -98, false),
            (Queue::Iptables, "output", 0, true),
            (Queue::Iptables, "output", -101, false),
            (Queue::Iptables, "forward", 0, false),
            (Queue::Iptables, "input", 0, false),
        ] {
            let all = lines(queue, hook, priority, RULE, "");
            let has_more = all.iter().any(|line| line.ends_with(TRANSLATED));
            assert_eq!(has_more, is_more, "{hook} {priority}: {all:?}");
        }
    }

    #[test]
    fn only_what_may_change_is_left_out() {
        for (rule, want) in [
            (
                "ip saddr 10.0.0.1 tcp dport 443 tls sni exists drop",
                vec![
                    "ip saddr 10.0.0.1 tcp dport 443",
                    "ip saddr 10.0.0.1 meta l4proto tcp",
                ],
            ),
            (
                "oifname \"e\" ip6 daddr ::1 tls sni exists drop",
                vec![
                    "oifname \"e\" ip6 daddr ::1 meta l4proto { tcp, udp, ah }",
                    "oifname \"e\" meta l4proto { tcp, udp, ah }",
                ],
            ),
            (
                "ip saddr 10.0.0.1 tls sni exists drop",
                vec!["ip saddr 10.0.0.1 meta l4proto { tcp, udp, ah }"],
            ),
            (
                "ip daddr 10.0.0.2 udp dport 53 dns name \"a.example\" drop",
                vec![
                    "ip daddr 10.0.0.2 meta l4proto { tcp, udp } th dport 53",
                    "meta l4proto ah",
                    "meta l4proto { tcp, udp } th dport 53",
                    "tcp sport 53",
                ],
            ),
        ] {
            let mut all = lines(Queue::Iptables, "output", 0, rule, "");
            let end = format!(" {TRANSLATED}");
            for line in &mut all {
                *line = line.replace(&end, "");
            }
            all.sort();
            let mut want = want;
            want.sort_unstable();
            assert_eq!(all, want, "{rule}");
        }
    }

    /// A rule of DNS over UDP has lines for queries only, none for answers. So a line must select queries whose
    /// destination NAT has not changed yet.
    #[test]
    fn queries_are_queued_before_their_destination_changes() {
        let rule = "ip daddr 10.0.0.2 udp dport 53 dns name \"a.example\" drop";
        let any = format!("meta l4proto {{ tcp, udp }} th dport 53 {TRANSLATED}");
        let has_any = |priority| lines(Queue::Nft, "prerouting", priority, rule, "").contains(&any);
        assert!(has_any(-98) && !has_any(0));
    }

    #[test]
    fn sources_change_in_input() {
        for (queue, priority, is_more) in [
            (Queue::Nft, 99, false),
            (Queue::Nft, 100, true),
            (Queue::Nft, 104, false),
            (Queue::Iptables, 104, true),
        ] {
            let rule = "ip saddr 10.0.0.1 tcp dport 443 tls sni exists drop";
            let all = lines(queue, "input", priority, rule, "");
            let has_more = all.iter().any(|line| line.ends_with(TRANSLATED));
            assert_eq!(has_more, is_more, "{priority}: {all:?}");
        }
    }

    /// The chain that queues packets comes before the chain of the lowest priority that reads names.
    #[test]
    fn another_chain_may_queue_early() {
        let more = "\tchain e {\n\t\ttype filter hook output priority -150\n\t\tip saddr 10.0.0.9 tls sni exists drop\n\t}\n";
        let has_more = |more: &str| {
            let all = lines(Queue::Nft, "output", 0, RULE, more);
            all.iter().any(|line| line.ends_with(TRANSLATED))
        };
        assert!(has_more(more) && !has_more(""));
    }
}
