// SPDX-License-Identifier: GPL-2.0-or-later
//! Commands that repair rules: nft commands if the host's rules are nft's, with table, chain and handle.

use super::ruleset::QueueRule;
use super::tools;

/// Consecutive queues, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues(pub u16, pub u16);

impl Queues {
    /// Formats the queues for messages: "queue 0", "queues 0 to 3".
    pub fn words(self) -> String {
        match self.0 == self.1 {
            true => format!("queue {}", self.0),
            false => format!("queues {} to {}", self.0, self.1),
        }
    }

    /// Formats the queues for the firewall's option --queue: "0", "0:3".
    pub fn option(self) -> String {
        self.joined(":")
    }

    pub fn joined(self, by: &str) -> String {
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

    /// Formats the queue statement of nft. flags: "bypass" and "fanout"; fanout is left out for a single queue.
    fn of_nft(self, flags: &[&str]) -> String {
        let several = self.0 != self.1;
        let flags = flags.iter().copied();
        let flags: Vec<&str> = flags.filter(|flag| several || *flag != "fanout").collect();
        let statement = format!("queue num {} {}", self.joined("-"), flags.join(","));
        statement.trim_end().to_owned()
    }
}

/// Returns a shell command that runs nft as root with `words`, quoted as one argument.
fn nft(words: &str) -> String {
    format!("sudo nft '{}'", words.replace('\'', r"'\''"))
}

/// Returns a command that deletes a rule: "iptables: -A CHAIN …" becomes "sudo iptables -D CHAIN …".
/// - text: tool and rule, as in `QueueRule::text`.
pub fn delete(text: &str) -> String {
    match text.split_once(": ") {
        Some(("nft", place)) => format!("sudo nft delete rule {place}"),
        Some((tool, rule)) => format!("sudo {tool} {}", rule.replacen("-A ", "-D ", 1)),
        None => String::new(),
    }
}

/// Returns true if a word is a queue number "N", or a range of queue numbers "N-M".
fn is_numbers(word: &str) -> bool {
    let numbers = word.split_once('-').unwrap_or((word, word));
    [numbers.0, numbers.1]
        .iter()
        .all(|number| number.parse::<u16>().is_ok())
}

/// Returns an nft rule with its queue statement replaced; only the flag fanout is retained. None if the rule has no
/// queue statement, or computes its queue.
/// - body: the rule as `nft list` prints it.
fn nft_body(body: &str, queues: Queues, bypass: bool) -> Option<String> {
    let words: Vec<&str> = body.split(' ').collect();
    let at = words.iter().position(|word| *word == "queue")?;
    // "queue flags bypass,fanout to 0-1", or "queue num 0-1 bypass,fanout" of older versions.
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

/// Returns a command that replaces a rule by one with other queues or another bypass flag. If `listed` lacks the rule,
/// or the rule computes its queue, returns a command that only lists all rules.
/// - listed: the rule's chain, as `nft --handle list chain` prints it.
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

/// Returns an iptables command that replaces a rule by one with other queues or another bypass flag: "sudo iptables -R
/// CHAIN NUMBER …".
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

/// Returns a command that replaces a rule by one with other queues or another bypass flag.
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

/// Returns a command that replaces the queues of all these rules.
pub fn replace_all(rules: &[&QueueRule], queues: Queues) -> String {
    let commands: Vec<String> = rules
        .iter()
        .map(|rule| replace(rule, queues, rule.bypass))
        .collect();
    match commands.as_slice() {
        [one] => one.clone(),
        several => all_of(several),
    }
}

/// Joins commands to a single one, which ends at the first failure.
fn all_of(commands: &[String]) -> String {
    let words = |command: &String| {
        let words = command.strip_prefix("sudo ").unwrap_or(command);
        words.replace('\'', r"'\''")
    };
    let words: Vec<String> = commands.iter().map(words).collect();
    format!("sudo sh -c '{}'", words.join(" && "))
}

/// Returns an nft chain that queues all packets of a hook; of the hooks input and output, except packets of interface
/// lo.
/// - flags: flags of the queue statement: "bypass".
fn nft_chain(hook: &str, queues: Queues, flags: &[&str]) -> String {
    let test = match hook {
        "input" => "iifname != \"lo\" ",
        "output" => "oifname != \"lo\" ",
        _ => "",
    };
    // The kernel tracks connections, and reassembles fragments, only if a rule reads the state of connections.
    format!(
        "chain {hook} {{ type filter hook {hook} priority 10; policy accept; ct state new counter; \
         {test}counter {}; }}",
        queues.of_nft(flags)
    )
}

/// Returns an iptables command that queues all packets of a hook; of the hooks input and output, except packets of
/// interface lo.
fn iptables_rule(tool: &str, hook: &str, queues: Queues, bypass: bool) -> String {
    let place = match hook {
        "input" => "-A INPUT ! -i lo".to_owned(),
        "output" => "-A OUTPUT ! -o lo".to_owned(),
        "forward" => "-A FORWARD".to_owned(),
        other => format!("-t mangle -A {}", other.to_uppercase()),
    };
    let bypass = if bypass { " --queue-bypass" } else { "" };
    format!("{tool} {place} -j NFQUEUE {}{bypass}", queues.of_iptables())
}

/// Returns an iptables command that makes the kernel track connections, and so reassemble fragments before it queues
/// them: the name in a fragment can't be read.
fn iptables_track(tool: &str) -> String {
    format!("{tool} -I INPUT -m conntrack --ctstate NEW")
}

/// Returns a command that queues all IPv4 and IPv6 packets of these hooks; of input and output, except packets of
/// interface lo.
/// - nft_is_there: true: a command of nft; false: commands of iptables and ip6tables.
/// - bypass: true: packets pass while no process owns the queue; false: the kernel drops them.
pub fn add(nft_is_there: bool, queues: Queues, bypass: bool, hooks: &[&str]) -> String {
    if !nft_is_there {
        let tools = ["iptables", "ip6tables"].into_iter();
        let rules = tools.flat_map(|tool| {
            let rules = hooks
                .iter()
                .map(move |hook| iptables_rule(tool, hook, queues, bypass));
            [iptables_track(tool)].into_iter().chain(rules)
        });
        return all_of(&rules.collect::<Vec<String>>());
    }
    let flags: &[&str] = if bypass { &["bypass"] } else { &[] };
    let chains = hooks.iter().map(|hook| nft_chain(hook, queues, flags));
    let chains: Vec<String> = chains.collect();
    nft(&format!(
        "table inet twinwall_queue {{ {}; }}",
        chains.join("; ")
    ))
}

/// Returns true if nft rules can queue packets here: nft is installed, and the kernel accepts such a rule.
pub fn has_nft_queue() -> bool {
    const RULE: &str =
        "table inet twinwall_check { chain c { type filter hook input priority 0; queue num 0; }; }";
    tools::printed("nft", &["--check", RULE]).is_some()
}

/// Returns a command that makes the kernel track connections.
/// - nft_is_there: true: a command of nft; false: commands of iptables and ip6tables.
pub fn track(nft_is_there: bool) -> String {
    match nft_is_there {
        true => nft(
            "table inet twinwall_track { chain input { type filter hook input priority 0; policy accept; \
             ct state new counter; }; }",
        ),
        false => all_of(&["iptables", "ip6tables"].map(iptables_track)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(tool: &'static str, text: &str) -> QueueRule {
        QueueRule {
            tool,
            hook: String::new(),
            text: format!("{tool}: {text}"),
            number: 2,
            packets: None,
            first: 0,
            last: 0,
            bypass: true,
            is_of_resets: false,
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
    fn the_first_rules_are_for_all_packets_of_the_hooks() {
        assert_eq!(
            add(false, Queues(0, 1), false, &["input"]),
            "sudo sh -c 'iptables -I INPUT -m conntrack --ctstate NEW && iptables -A INPUT ! -i lo -j NFQUEUE \
             --queue-balance 0:1 && ip6tables -I INPUT -m conntrack --ctstate NEW && ip6tables -A INPUT ! -i lo -j \
             NFQUEUE --queue-balance 0:1'"
        );
        let both = add(true, Queues(0, 0), true, &["input", "output"]);
        assert!(
            both.contains("iifname != \"lo\" counter queue num 0 bypass; }; chain output { "),
            "{both}"
        );
    }

    #[test]
    fn connections_of_both_versions_are_tracked() {
        assert_eq!(
            track(false),
            "sudo sh -c 'iptables -I INPUT -m conntrack --ctstate NEW && ip6tables -I INPUT -m conntrack --ctstate NEW'"
        );
    }

    #[test]
    fn several_commands_are_one() {
        let commands = ["sudo nft 'a \"b\"'", "sudo iptables -R c 1"].map(str::to_owned);
        assert_eq!(
            all_of(&commands),
            r#"sudo sh -c 'nft '\''a "b"'\'' && iptables -R c 1'"#
        );
    }
}
