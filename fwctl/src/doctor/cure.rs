// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands that mend rules: those of nft where the host's rules are nft's, with table, chain and handle.

use super::ruleset::{QueueRule, Table};
use super::tools;

/// Consecutive queues, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues(pub u16, pub u16);

impl Queues {
    /// As messages name them: "queue 0", "queues 0 to 3".
    pub fn words(self) -> String {
        match self.0 == self.1 {
            true => format!("queue {}", self.0),
            false => format!("queues {} to {}", self.0, self.1),
        }
    }

    /// As --queue takes them.
    pub fn option(self) -> String {
        self.joined(":")
    }

    fn joined(self, by: &str) -> String {
        match self.0 == self.1 {
            true => self.0.to_string(),
            false => format!("{}{by}{}", self.0, self.1),
        }
    }

    fn of_iptables(self) -> String {
        let option = match self.0 == self.1 {
            true => "--queue-num",
            false => "--queue-balance",
        };
        format!("{option} {}", self.joined(":"))
    }

    /// flags: "bypass" and "fanout", of which the latter is for several queues only.
    fn of_nft(self, flags: &[&str]) -> String {
        let several = self.0 != self.1;
        let flags = flags.iter().copied();
        let flags: Vec<&str> = flags.filter(|flag| several || *flag != "fanout").collect();
        let statement = format!("queue num {} {}", self.joined("-"), flags.join(","));
        statement.trim_end().to_owned()
    }
}

/// A command of nft's, for a shell.
fn nft(words: &str) -> String {
    format!("sudo nft '{}'", words.replace('\'', r"'\''"))
}

/// A command that takes a rule away: what "iptables: -A CHAIN …" says, with -D.
pub fn delete(text: &str) -> String {
    match text.split_once(": ") {
        Some(("nft", place)) => format!("sudo nft delete rule {place}"),
        Some((tool, rule)) => format!("sudo {tool} {}", rule.replacen("-A ", "-D ", 1)),
        None => String::new(),
    }
}

/// Whether this is "N" or "N-M".
fn is_numbers(word: &str) -> bool {
    let numbers = word.split_once('-').unwrap_or((word, word));
    [numbers.0, numbers.1]
        .iter()
        .all(|number| number.parse::<u16>().is_ok())
}

/// A rule of nft's with another queue statement in place of its own. body: as `nft list` prints it. None if its queues are
/// computed.
fn nft_body(body: &str, queues: Queues, bypass: bool) -> Option<String> {
    let words: Vec<&str> = body.split(' ').collect();
    let at = words.iter().position(|word| *word == "queue")?;
    // "queue flags bypass,fanout to 0-1", or "queue num 0-1 bypass,fanout" of older ones.
    let (flags, numbers, behind) = match words.get(at + 1..)? {
        ["flags", flags, "to", numbers, behind @ ..] => (*flags, *numbers, behind),
        ["num", numbers, flags, behind @ ..] if *flags != "comment" => (*flags, *numbers, behind),
        ["to" | "num", numbers, behind @ ..] => ("", *numbers, behind),
        _ => return None,
    };
    if !is_numbers(numbers) {
        return None;
    }
    let mut given: Vec<&str> = Vec::new();
    if bypass {
        given.push("bypass");
    }
    if flags.contains("fanout") {
        given.push("fanout");
    }
    let statement = queues.of_nft(&given);
    let parts = words[..at].iter().copied();
    let parts = parts
        .chain([statement.as_str()])
        .chain(behind.iter().copied());
    Some(parts.collect::<Vec<&str>>().join(" "))
}

/// A command that gives a rule other queues, or another bypass, in its place. listed: the rule's chain, as nft lists it.
fn replace_in_nft(rule: &QueueRule, listed: &str, queues: Queues, bypass: bool) -> String {
    let (_, place) = rule.text.split_once(": ").unwrap_or_default();
    let handle = place.rsplit(' ').next().unwrap_or_default();
    let mut bodies = listed.lines().filter_map(|line| {
        let (body, number) = line.trim().rsplit_once(" # handle ")?;
        (number == handle).then_some(body)
    });
    match bodies
        .next()
        .and_then(|body| nft_body(body, queues, bypass))
    {
        Some(body) => nft(&format!("replace rule {place} {body}")),
        None => format!("sudo nft --handle list ruleset  # then: nft replace rule {place} …"),
    }
}

/// The same of iptables: the rule's number stands behind its chain.
fn replace_in_iptables(rule: &QueueRule, queues: Queues, bypass: bool) -> String {
    let (tool, text) = rule.text.split_once(": ").unwrap_or_default();
    let words: Vec<&str> = text.split(' ').collect();
    let mut out: Vec<String> = vec!["sudo".to_owned(), tool.to_owned()];
    let mut at = 0;
    while let Some(word) = words.get(at) {
        match *word {
            "-A" => {
                let chain = words.get(at + 1).copied().unwrap_or_default();
                out.push(format!("-R {chain} {}", rule.number));
                at += 1;
            }
            "--queue-num" | "--queue-balance" => {
                out.push(queues.of_iptables());
                at += 1;
            }
            "--queue-bypass" => {}
            word => out.push(word.to_owned()),
        }
        at += 1;
    }
    if bypass {
        out.push("--queue-bypass".to_owned());
    }
    out.join(" ")
}

/// A command that gives a rule other queues, or another bypass, in its place.
pub fn replace(rule: &QueueRule, queues: Queues, bypass: bool) -> String {
    if rule.tool != "nft" {
        return replace_in_iptables(rule, queues, bypass);
    }
    let (_, place) = rule.text.split_once(": ").unwrap_or_default();
    let chain = place.split(' ').take(3);
    let words: Vec<&str> = ["--handle", "list", "chain"]
        .into_iter()
        .chain(chain)
        .collect();
    let listed = tools::printed("nft", &words).unwrap_or_default();
    replace_in_nft(rule, &listed, queues, bypass)
}

/// A command that leads packets to queues on a host without such a rule.
pub fn add(tables: &[Table], iptables_is_there: bool, queues: Queues, bypass: bool) -> String {
    let mut own = tables.iter().filter(|table| table.tool == "nft");
    let is_nft = !iptables_is_there || own.clone().any(|table| !table.chains.is_empty());
    if !is_nft {
        let bypass = if bypass { " --queue-bypass" } else { "" };
        let queues = queues.of_iptables();
        return format!("sudo iptables -A INPUT -p tcp --dport 80 -j NFQUEUE {queues}{bypass}");
    }
    let flags: &[&str] = if bypass { &["bypass"] } else { &[] };
    let rule = format!("tcp dport 80 {}", queues.of_nft(flags));
    let input = own.find_map(|table| {
        let mut chains = table.chains.iter();
        let chain = chains.find(|chain| chain.hook.as_deref() == Some("input"))?;
        Some(format!("{} {}", table.name, chain.name))
    });
    match input {
        // Before what may accept there.
        Some(chain) => format!("sudo nft insert rule {chain} {rule}"),
        None => nft(&format!(
            "add table inet twinwall_queue; add chain inet twinwall_queue input {{ type filter hook input priority 10; }}; \
             add rule inet twinwall_queue input {rule}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(tool: &'static str, text: &str) -> QueueRule {
        QueueRule {
            tool,
            text: format!("{tool}: {text}"),
            number: 2,
            packets: None,
            first: 0,
            last: 0,
            bypass: true,
            blocked: None,
            skipped: Vec::new(),
        }
    }

    #[test]
    fn a_rule_is_taken_away_by_its_tool() {
        assert_eq!(
            delete("nft: inet t c handle 4"),
            "sudo nft delete rule inet t c handle 4"
        );
        assert_eq!(
            delete("iptables: -A INPUT -j ACCEPT"),
            "sudo iptables -D INPUT -j ACCEPT"
        );
        let mangled = delete("ip6tables: -t mangle -A INPUT -j ACCEPT");
        assert_eq!(mangled, "sudo ip6tables -t mangle -D INPUT -j ACCEPT");
    }

    #[test]
    fn a_rule_of_iptables_is_replaced_in_its_place() {
        let old = rule(
            "iptables",
            "-t mangle -A IN -i a -j NFQUEUE --queue-num 0 --queue-bypass",
        );
        assert_eq!(
            replace_in_iptables(&old, Queues(0, 1), false),
            "sudo iptables -t mangle -R IN 2 -i a -j NFQUEUE --queue-balance 0:1"
        );
        assert_eq!(
            replace_in_iptables(&old, Queues(3, 3), true),
            "sudo iptables -t mangle -R IN 2 -i a -j NFQUEUE --queue-num 3 --queue-bypass"
        );
    }

    #[test]
    fn a_rule_of_nft_is_replaced_in_its_place() {
        let old = rule("nft", "inet t c handle 4");
        let listed = "table inet t {\n\tchain c { # handle 1\n\t\taccept # handle 3\n\t\t\
                      iifname \"a\" queue flags bypass,fanout to 0-1 # handle 4\n\t}\n}\n";
        assert_eq!(
            replace_in_nft(&old, listed, Queues(0, 2), false),
            "sudo nft 'replace rule inet t c handle 4 iifname \"a\" queue num 0-2 fanout'"
        );
        let none = replace_in_nft(&old, "", Queues(0, 2), false);
        assert!(
            none.ends_with("# then: nft replace rule inet t c handle 4 …"),
            "{none}"
        );
    }

    #[test]
    fn queue_statements_of_all_forms_are_read() {
        let body = |body, bypass| nft_body(body, Queues(0, 0), bypass);
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(body("queue to 5", true), is("queue num 0 bypass"));
        assert_eq!(body("queue flags bypass to 5", false), is("queue num 0"));
        assert_eq!(body("queue num 5 bypass", false), is("queue num 0"));
        assert_eq!(
            body("queue num 5 comment \"web\"", true),
            is("queue num 0 bypass comment \"web\"")
        );
        assert_eq!(body("queue to numgen inc mod 3", false), None);
        assert_eq!(body("accept", false), None);
    }

    #[test]
    fn the_first_rule_is_one_for_all_queues() {
        let iptables = add(&[], true, Queues(0, 1), false);
        assert!(
            iptables.ends_with("-j NFQUEUE --queue-balance 0:1"),
            "{iptables}"
        );
        let nothing = add(&[], false, Queues(0, 0), true);
        assert!(
            nothing.ends_with("tcp dport 80 queue num 0 bypass'"),
            "{nothing}"
        );
    }
}
