// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the texts into which policies are split.

use super::*;

fn split_text(rules: &str, options: &Options) -> Result<Split, Refusal> {
    let policy = format!(
        "table inet f {{\n\tset b {{\n\t\ttype hostname\n\t\telements = {{ \"x.example\", \"*.x.example\" }}\n\t}}\n{rules}\n}}\n"
    );
    split(&text("p.nft", &policy).unwrap(), options)
}

fn in_forward(rules: &str) -> Result<Split, Refusal> {
    let rules = format!("\tchain c {{\n\t\ttype filter hook forward priority 0\n\t\t{rules}\n\t}}");
    split_text(&rules, &Options::default())
}

/// Returns the line of the kernel's text that contains these words.
fn line(split: &Split, words: &str) -> String {
    let found = split.kernel.lines().find(|line| line.contains(words));
    found
        .unwrap_or_else(|| panic!("{words}: {}", split.kernel))
        .trim()
        .to_owned()
}

#[test]
fn a_test_takes_the_place_of_a_name() {
    let split =
        in_forward("counter tcp dport 443 tls sni @b ip saddr 10.0.0.1 log prefix \"n\" drop")
            .unwrap();
    let want = "counter tcp dport 443  ip saddr 10.0.0.1 ct mark & 0x00060000 vmap { 0x00040000 : continue, 0x00060000 : drop } log prefix \"n\" drop";
    assert_eq!(line(&split, "log prefix"), want);
    assert!(!split.kernel.contains("hostname"));
    assert!(split.daemon.contains("tls sni @t0_b meta mark set"));
    assert_eq!(split.classes.len(), 2);
}

#[test]
fn maps_of_protocols_are_tried_with_a_mask() {
    for (map, want) in [
        ("ip protocol map { 1 : 1, 17 : 2 }", "& 0xff { 1, 17 } "),
        ("ct l3proto map { ipv4 : 1 }", "& 0xff == ipv4 "),
        (
            "ether type map { ip : 1, ip6 : 2 }",
            "& 0xffff { ip, ip6 } ",
        ),
    ] {
        let rule = format!("tls sni @b meta mark set {map} ip ttl 3 accept");
        let tried = line(&in_forward(&rule).unwrap(), want);
        assert!(tried.ends_with("ip ttl 3 accept"), "{tried}");
    }
}

#[test]
fn names_that_hold_together() {
    let split = in_forward("tls sni @b tls alpn \"h2\" drop\ntls alpn \"h2\" accept").unwrap();
    assert_eq!(split.classes.len(), 4);
    assert_eq!(split.rules[0].classes.len(), 1);
    assert_eq!(split.rules[1].classes.len(), 2);
    // While the name is unknown, a packet is accepted if it may be accepted once the name is known.
    assert!(!split.rules[0].tests[0].contains("0x00000000 : "));
    assert!(split.rules[1].tests[0].contains("0x00000000 : accept"));
}

#[test]
fn a_map_of_names_becomes_one_of_classes() {
    let map = "tls sni vmap { \"x.example\" : accept, \"*.example\" : jump d }";
    let chain = "\n\t}\n\tchain d {\n\t\tdrop";
    let split = in_forward(&format!("tcp dport 443 {map}{chain}")).unwrap();
    // Classes: no name; x.example, for which both keys hold; other names below example.
    assert_eq!(split.classes.len(), 3);
    let line = line(&split, "tcp dport 443 ct mark");
    assert_eq!(line.matches(": jump d").count(), 1, "{line}");
    assert!(line.contains("0x00000000 : accept"), "{line}");
    let exact = split
        .classes
        .iter()
        .find(|class| class.holds.len() == 2)
        .unwrap();
    assert!(
        line.contains(&format!("{:#010x} : accept", exact.mark)),
        "{line}"
    );
    let rules = "\tmap m {\n\t\ttype hostname : verdict\n\t\telements = { \"x.example\" : drop }\n\t}\n\tchain c {\n\t\t\
        type filter hook input priority 0\n\t\thttp host vmap @m\n\t}";
    let split = split_text(rules, &Options::default()).unwrap();
    assert!(!split.kernel.contains("map m {"), "{}", split.kernel);
    assert!(
        split
            .kernel
            .contains(" { 0x00060000 : drop, 0x00040000 : drop }"),
        "{}",
        split.kernel
    );
}

#[test]
fn names_in_a_chain_between_braces() {
    let split = in_forward("tcp dport 443 jump {\n tls sni @b drop\n}\naccept").unwrap();
    assert!(
        split
            .kernel
            .contains("jump {\n meta l4proto != { 0-5, 7-16, 18-50, 52-255 } ct mark &"),
        "{}",
        split.kernel
    );
    line(&split, "tcp dport 443 goto stage-ask");
    line(&split, "tcp sport 443 goto stage-ask");
}

#[test]
fn both_directions_are_asked_about() {
    let split = in_forward("meta l4proto { tcp, udp } jump d\n\t}\n\tchain d {\n\t\tip daddr 10.0.0.0/8 tcp dport 443 tls sni @b drop").unwrap();
    line(&split, "ip daddr 10.0.0.0/8 tcp dport 443 goto stage-ask");
    line(&split, "ip saddr 10.0.0.0/8 tcp sport 443 goto stage-ask");
    let rules = "\tchain c {\n\t\ttype filter hook output priority 10\n\t\toifname \"e\" dns name @b drop\n\t}";
    let split = split_text(rules, &Options::default()).unwrap();
    line(
        &split,
        "oifname \"e\" meta l4proto { tcp, udp } th dport 53 goto stage-ask",
    );
    // Rules also see the server's packets, and each hook sees packets of both ends.
    line(&split, "oifname \"e\" tcp sport 53 goto stage-ask");
    line(&split, "iifname \"e\" tcp sport 53 goto stage-ask");
    line(
        &split,
        "iifname \"e\" meta l4proto { tcp, udp } th dport 53 goto stage-ask",
    );
    line(&split, "oifname \"e\" meta l4proto ah goto stage-ask");
    line(&split, "hook input priority 7;");
    line(&split, "hook output priority 8;");
}

#[test]
fn a_test_at_the_end_of_a_rule_is_a_word_of_its_own() {
    let split = in_forward("tls sni @b tcp option mptcp exists").unwrap();
    let line = line(&split, "mptcp");
    assert!(line.contains(" exists "), "{line}");
}

/// The word `mark` without `meta` begins a match or a statement, so that the match before it ends there.
#[test]
fn a_mark_begins_a_match_or_a_statement() {
    let split = in_forward("tls sni @b icmp type 2 mark set 1").unwrap();
    let line = line(&split, "mark set 1");
    assert!(line.trim().starts_with("icmp type 2 "), "{line}");
}

/// nft also adds elements by `create element`, and by `element` without a verb.
#[test]
fn each_command_that_adds_elements_counts() {
    let made = |verb: &str| {
        let policy = format!(
            "table inet f {{\n\tset s {{ type ipv4_addr . hostname; }}\n\tset n {{ type hostname; }}\n\t\
             chain c {{\n\t\ttype filter hook input priority 0\n\t\t\
             ip daddr . tls sni @s drop\n\t\ttls sni @n drop\n\t}}\n}}\n\
             add element inet f s {{ 10.0.0.1 . \"a.example\" }}\n\
             {verb}element inet f s {{ 10.0.0.2 . \"b.example\" }}\n{verb}element inet f n {{ \"c.example\" }}\n"
        );
        split(&text("p.nft", &policy).unwrap(), &Options::default())
    };
    let want = made("add ").unwrap();
    assert!(want.kernel.contains(". 10.0.0.2 : "), "{}", want.kernel);
    assert!(want.daemon.contains("c.example"), "{}", want.daemon);
    for verb in ["create ", ""] {
        assert_eq!(made(verb).as_ref(), Ok(&want), "{verb}");
    }
}

/// Conntrack does not track neighbour discovery, and queued packets without a connection are dropped.
#[test]
fn packets_without_ports_are_not_asked_about() {
    let split = in_forward("meta l4proto { icmp, ipv6-icmp } jump d\n\t}\n\tchain d {\n\t\ttls sni @b icmpv6 type echo-reply accept").unwrap();
    let lines: Vec<&str> = split.kernel.lines().map(str::trim).collect();
    let ask = lines.iter().position(|line| *line == "chain stage-ask {");
    assert_eq!(
        lines[ask.unwrap() + 1],
        "meta l4proto != { tcp, udp, ah } accept"
    );
}

/// Before all other rules, marks and classes that the stage has not set are cleared, and then the packets of settled
/// connections that can't change a name are accepted.
#[test]
fn settled_segments_pass_before_all_matches_of_the_policy() {
    for (rule, but) in [
        ("tls sni", ""),
        ("dns name", " tcp dport != 53 tcp sport != 53"),
    ] {
        let split = in_forward(&format!("{rule} @b drop")).unwrap();
        let lines: Vec<&str> = split.kernel.lines().map(str::trim).collect();
        let chain = lines
            .iter()
            .position(|line| *line == "chain stage-names-forward {");
        let [expected, first] = [3, 4].map(|behind| lines[chain.unwrap() + behind]);
        let cleared =
            "ct status & (expected | confirmed) == expected ct mark set ct mark & 0x0001ffff";
        assert_eq!(expected, cleared);
        assert!(
            first.starts_with("ct mark & 0xfff80000 == 0x80080000 meta l4proto tcp "),
            "{first}"
        );
        assert!(
            first.ends_with(&format!(" tcp flags & (syn | rst) == 0{but} accept")),
            "{first}"
        );
    }
}

/// A match of ports does not hold for a packet that ends before its ports.
#[test]
fn packets_that_end_before_their_ports_are_lost() {
    let split = in_forward("dns name @b drop").unwrap();
    let lines: Vec<&str> = split.kernel.lines().map(str::trim).collect();
    let at = |words: &str| lines.iter().position(|line| *line == words).unwrap();
    let chain = at("chain stage-ports {");
    assert_eq!(
        lines[chain + 1..chain + 5],
        [
            "ip frag-off & 0x1fff != 0 goto stage-lost",
            "frag frag-off != 0 goto stage-lost",
            "th dport >= 0 return",
            "goto stage-lost"
        ]
    );
    // Those whose protocol the kernel can't see, too.
    let unseen = at("meta l4proto >= 0 accept");
    assert_eq!(lines[unseen + 1], "goto stage-lost");
    assert!(!in_forward("tls sni @b drop")
        .unwrap()
        .kernel
        .contains("stage-ports"));
}

#[test]
fn a_connection_that_stands_is_rejected_by_a_reset() {
    let rules = "tls sni @b counter reject with icmp type host-unreachable\ntls alpn \"h2\" reject with tcp reset\njump reject\n\
        reject comment \"r\"\n\t}\n\tchain reject {";
    let split = in_forward(rules).unwrap();
    let jumps: Vec<&str> = split
        .kernel
        .lines()
        .filter(|line| line.contains("jump stage-reject"))
        .collect();
    assert_eq!(jumps.len(), 3, "{}", split.kernel);
    assert!(jumps[1].trim().starts_with("meta l4proto != "), "{jumps:?}");
    assert!(jumps[2].ends_with(" comment \"r\""), "{jumps:?}");
    // The match that the ICMP error implies stands before the counter, as in nft.
    let family = jumps[0].trim().starts_with("meta nfproto ipv4 ");
    assert!(family && !jumps[0].contains("type"), "{jumps:?}");
    let mut lines = split.kernel.lines().map(str::trim);
    let reset = lines.find(|line| line.starts_with("meta l4proto tcp ct mark"));
    assert!(reset.unwrap().ends_with("jump stage-refused"), "{reset:?}");
    assert_eq!(lines.next(), Some("reject with icmp type host-unreachable"));
    line(&split, "jump reject");
    // RSTs of the ends are rejected as written; those that this host sends pass.
    let refused = |words: &str| split.kernel.find(words).expect(words);
    let (own, others) = (
        "meta iif { 0, \"lo\" } accept",
        "tcp flags & rst == rst return",
    );
    assert!(
        refused("chain stage-refused") < refused(own),
        "{}",
        split.kernel
    );
    assert!(refused(own) < refused(others), "{}", split.kernel);
    assert!(line(&split, own)
        .trim()
        .starts_with("tcp flags & rst == rst "));
    // The kernel's RST goes to the queue, where the firewall resets the other end.
    let refuse = line(&split, "goto stage-refuse");
    assert!(refuse.starts_with("tcp flags & rst == rst") && refuse.contains("ct state related"));
    line(&split, "hook output priority -3;");
    assert!(line(&split, "queue num 0 bypass").contains("| 0x80020000"));
    let refused = "meta mark & 0xffff0000 == 0x80020000 reject with tcp reset";
    assert!(split.daemon.contains(refused), "{}", split.daemon);
    let at = |words: &str| split.kernel.find(words).unwrap();
    assert!(at("chain stage-reject-1") < at("jump stage-reject-1"));
}

/// nft begins a rule with the match that `reject with …` implies only if no match of the rule determines the protocol.
#[test]
fn a_protocol_that_a_match_determines_is_not_implied() {
    let first = |rule: &str| {
        let split = in_forward(&format!("tls sni @b drop\n{rule}")).unwrap();
        let line = line(&split, "jump stage-reject").trim().to_owned();
        line.split_whitespace().next().map(str::to_owned).unwrap()
    };
    for rule in [
        "counter icmp type != 4 reject with icmp type host-prohibited",
        "counter meta nfproto ipv6 reject with icmpv6 type no-route",
        "counter tcp dport 80 reject with tcp reset",
        "counter meta l4proto tcp reject with tcp reset",
    ] {
        assert_eq!(first(rule), "counter", "{rule}");
    }
    for rule in [
        "counter tcp dport 80 reject with icmp type host-prohibited",
        "counter meta l4proto { tcp, udp } reject with tcp reset",
        "counter tcp option mptcp missing reject with tcp reset",
        "counter meta protocol ip reject with icmp type host-prohibited",
        "counter meta l4proto icmp reject with icmp type host-prohibited",
        "counter meta l4proto icmp icmp type 8 reject with icmp type host-prohibited",
        "counter meta l4proto 58 icmpv6 type 1 reject with icmpv6 type no-route",
        "counter meta nfproto != ipv6 reject with icmp type host-prohibited",
    ] {
        assert_eq!(first(rule), "meta", "{rule}");
    }
}

/// The kernel can't see whether a packet with an authentication header may belong to a DNS query.
#[test]
fn undecided_names_behind_an_authentication_header_are_unreadable_for_rules_of_dns() {
    let is_hidden = |rule: &str| {
        let split = in_forward(rule).unwrap();
        split
            .kernel
            .contains("meta l4proto ah goto stage-unreadable")
    };
    assert!(is_hidden("dns name missing drop"));
    assert!(!is_hidden("tls sni @b drop"));
}

/// If no match of the IP version precedes `icmp`, nft implies IPv4, and refuses fields of IPv6 after it.
#[test]
fn a_trial_repeats_the_ip_version() {
    let rule = "tls sni @b meta nfproto ipv6 counter icmp type 8 exthdr frag exists accept";
    let split = in_forward(rule).unwrap();
    let tried = "meta nfproto ipv6 icmp type 8 exthdr frag exists accept";
    let mut lines = split.kernel.lines().map(str::trim);
    assert!(lines.any(|line| line == tried), "{}", split.kernel);
}

#[test]
fn the_chain_of_a_rejection_is_there_before_its_rule() {
    let policy = "add table inet f\nadd chain inet f c { type filter hook input priority 0; }\nadd rule inet f c tls sni \"a.example\" reject\n";
    let split = split(&text("p.nft", policy).unwrap(), &Options::default()).unwrap();
    let at = |words: &str| split.kernel.find(words).unwrap();
    assert!(at("add table inet f") < at("table inet f {\n\tchain stage-refused"));
    assert!(at("chain stage-refused") < at("chain stage-reject-1"));
    assert!(at("chain stage-reject-1") < at("jump stage-reject-1"));
}

#[test]
fn a_generation_is_in_what_the_firewall_says_and_in_what_is_kept() {
    let options = Options {
        generation: 1,
        ..Options::default()
    };
    let split = split_text(
        "\tchain c {\n\t\ttype filter hook input priority 0\n\t\ttls sni @b drop\n\t}",
        &options,
    )
    .unwrap();
    line(&split, "ct mark & 0xfff80000 == 0x80100000 accept");
    assert!(
        split.daemon.contains("meta mark set 0x00140000 accept"),
        "{}",
        split.daemon
    );
}

#[test]
fn what_is_refused_has_place_and_cure() {
    let refused = |rules: &str| in_forward(rules).unwrap_err();
    let refusal = refused("synproxy\ntls sni @b drop");
    assert_eq!(refusal.place.line, 8, "{refusal}");
    assert!(!refusal.cure.is_empty());
    refused("ct mark set 0x1\ntls sni @b drop");
    refused("tls sni \"a..b\" drop");
    refused("counter");
    for head in [
        "nat hook output priority 0",
        "filter hook postrouting priority 0",
        "filter hook prerouting priority -200",
    ] {
        let rules = format!("\tchain c {{\n\t\ttype {head}\n\t\ttls sni @b drop\n\t}}");
        assert!(split_text(&rules, &Options::default()).is_err(), "{head}");
    }
}

/// In nft `*` in a map stands for all other keys, `queue` asks another program, and `tproxy` changes the destination.
#[test]
fn what_is_not_known_to_accept_is_not_accepted() {
    for verdict in [
        "queue num 5",
        "tproxy to :50080 meta mark set 1 accept",
        "tcp dport vmap { 22 : accept, 80 : drop, * : accept }",
    ] {
        let policy = format!(
            "table inet f {{\n\tchain y {{\n\t\t{verdict}\n\t\tdrop\n\t}}\n\tchain c {{\n\t\t\
             type filter hook input priority 0; policy drop;\n\t\ttls sni \"a.example\" jump y\n\t}}\n}}\n"
        );
        let made = split(&text("p.nft", &policy).unwrap(), &Options::default()).unwrap();
        let trial = made.kernel.split("chain stage-trial").skip(1);
        let accepts = |chain: &str| {
            let rules = chain.lines().take_while(|line| line.trim() != "}");
            rules
                .filter(|rule| rule.trim_end().ends_with("} accept") || rule.trim() == "accept")
                .count()
        };
        assert_eq!(trial.map(accepts).sum::<usize>(), 0, "{}", made.kernel);
    }
}

/// A trial copies the rules of a chain in the order of the text.
#[test]
fn commands_that_change_earlier_rules_are_refused() {
    let made = |first: &str, last: &str| {
        let policy = format!(
            "{first}\ntable inet f {{\n\tchain x {{\n\t\taccept\n\t}}\n\tchain c {{\n\t\t\
             type filter hook input priority 0\n\t\ttls sni \"a.example\" jump x\n\t}}\n}}\n\
             table inet g {{\n\tchain x {{\n\t\taccept\n\t}}\n}}\n{last}\n"
        );
        split(&text("p.nft", &policy).unwrap(), &Options::default())
    };
    for command in [
        "insert rule inet f x ip saddr 10.0.0.1 drop",
        "add rule inet f x index 0 drop",
        "rule inet f x position 4 drop",
        "replace rule inet f x handle 4 drop",
        "delete rule inet f x handle 4",
        "flush chain inet f x",
        "rename chain inet f x y",
        "delete table inet f",
        "flush ruleset",
    ] {
        let refusal = made("", command).unwrap_err();
        assert_eq!(refusal.place.line, 16, "{command}: {refusal}");
    }
    let before =
        "table inet f { chain i { type filter hook input priority 0; }\n}\ndelete chain inet f i";
    assert_eq!(made(before, "").unwrap_err().place.line, 3);
    for (first, last) in [
        ("", "add rule inet f x drop"),
        ("", "insert rule inet g x drop"),
        ("", "flush chain inet g x"),
        ("table inet f; delete table inet f", ""),
        ("flush ruleset", ""),
    ] {
        assert_eq!(made(first, last).err(), None);
    }
}

#[test]
fn a_jump_to_a_defined_chain_is_tried() {
    let rules = "define to = d\n\t\ttls sni @b jump $to\n\t}\n\tchain d {\n\t\ttcp dport 80 accept";
    let split = in_forward(rules).unwrap();
    let copies = split.kernel.matches("tcp dport 80 accept").count();
    assert_eq!(copies, 2, "{}", split.kernel);
}

/// In nft each block has its own definitions.
#[test]
fn a_name_with_two_values_is_refused() {
    let made = |definition: &str| {
        let policy = format!(
            "table inet f {{\n\tdefine p = 443\n\tchain c {{\n\t\ttype filter hook input priority 0\n\t\t\
             tcp dport $p tls sni \"a.example\" drop\n\t}}\n}}\ntable inet g {{\n\t{definition}\n}}\n"
        );
        split(&text("p.nft", &policy).unwrap(), &Options::default())
    };
    for definition in ["define p = 80", "redefine p = { 80, 443 }"] {
        let refusal = made(definition).unwrap_err();
        assert_eq!(refusal.place.line, 9, "{refusal}");
    }
    for definition in ["define p = 443", "define q = 80"] {
        assert_eq!(made(definition).err(), None);
    }
}

#[test]
fn a_refusal_for_marks_has_all_rules_that_use_bits() {
    let rules = "\tchain c {\n\t\ttype filter hook input priority 0\n\t\tmeta mark & 0xff000000 == 0x1000000 accept\n\t\t\
        ct mark set ct mark & 0xffffff0f | 0x10 meta mark set 0x300\n\t\ttls sni @b drop\n\t}";
    let options = Options {
        marks: 0xff00_03f8,
        ..Options::default()
    };
    let refusal = split_text(rules, &options).unwrap_err();
    let want = "p.nft:8: 2 classes of names need 5 free bits of marks in a row: --marks is 0xff0003f8, \
        p.nft:8 uses 0xff000000, p.nft:9 uses 0x3f0: allow more bits (--marks, MARKS= of twinwall.conf), use fewer, or ask for fewer sets of names";
    assert_eq!(refusal.to_string(), want);
}

#[test]
fn each_rule_is_explained() {
    let rules = "\tchain i {\n\t\ttype filter hook input priority 0\n\t\ttcp dport 443 ip saddr 10.0.0.1 jump x\n\t\ttcp dport 22 accept\n\t}\n\t\
        chain x {\n\t\ttls sni @b reject\n\t}\n\tchain alone {\n\t\treject\n\t}";
    let split = split_text(rules, &Options::default()).unwrap();
    let text = |rule: &SplitRule| {
        let classes = match &rule.decided {
            Decided::ByClass(fields) => format!("{fields:?} {:?}", rule.classes),
            other => format!("{other:?}"),
        };
        let queued: Vec<String> = rule
            .queued
            .iter()
            .map(|(hook, line)| format!("; {hook}: {line}"))
            .collect();
        let hooks = rule.hooks.join(", ");
        format!(
            "{} {}, {hooks}: {classes}{}",
            rule.place.line,
            rule.chain,
            queued.concat()
        )
    };
    let all: Vec<String> = split.rules.iter().map(text).collect();
    let want = [
        "8 inet f i, input priority 0: AsWritten",
        "9 inet f i, input priority 0: AsWritten",
        "12 inet f x, input priority 0: {\"tls sni\"} [2]; input: tcp dport 443 ip saddr 10.0.0.1; output: tcp sport 443 ip daddr 10.0.0.1",
        "15 inet f alone, : WithReset",
    ];
    assert_eq!(all, want);
    for (hook, line) in &split.rules[2].queued {
        let chain = format!("chain stage-names-{hook} {{");
        let behind = split.kernel.split_once(&chain).unwrap().1;
        assert!(
            behind.contains(&format!("\t{line} goto stage-ask\n")),
            "{line}"
        );
    }
}

/// A flowtable may take over a connection with a final class for which no rule with names holds.
#[test]
fn a_flowtable_takes_what_no_name_means() {
    let rules = "ct state established flow add @t\ntls sni @b drop\ntls alpn \"h2\" accept";
    let split = in_forward(rules).unwrap();
    let own = split.rules.iter().flat_map(|rule| &rule.classes);
    let meant: Vec<u32> = own.copied().collect();
    let free = split
        .classes
        .iter()
        .find(|class| !meant.contains(&class.number));
    let mark = format!("{:#010x}", free.unwrap().mark | 0x8008_0000);
    let flow = line(&split, "flow add");
    let want = format!(
        "ct state established meta l4proto != udp ct mark & {:#010x} {{ {mark} }} flow add @t",
        split.mask
    );
    assert_eq!(flow, want);
    // If rules with names hold for every class, no connection leaves the chains.
    let split =
        in_forward("flow add @t\ntls sni @b drop\ntls sni != @b accept\ntls sni missing drop")
            .unwrap();
    assert!(line(&split, "flow add").contains("{ 0x"));
    let rules = "\tchain c {\n\t\ttype filter hook input priority 0\n\t\ttls sni @b drop\n\t}\n\t\
        chain d {\n\t\ttype filter hook forward priority 0\n\t\tflow add @t\n\t}";
    let split = split_text(rules, &Options::default()).unwrap();
    assert_eq!(line(&split, "flow add"), "flow add @t");
}

/// A flowtable does not take over DNS that sets learn from, even if no rule reads a name.
#[test]
fn a_flowtable_takes_no_dns_that_is_learned_from() {
    let flow = |hook: &str, rule: &str| {
        let rules = format!(
            "\tset u {{ type ipv4_addr; learn dns \"*.x.example\"; }}\n\tchain c {{\n\t\ttype filter hook {hook} priority 0\n\t\t{rule}\n\t}}\n\t\
             chain d {{\n\t\ttype filter hook {hook} priority 1\n\t\tct state established flow add @t\n\t}}"
        );
        line(
            &split_text(&rules, &Options::default()).unwrap(),
            "flow add",
        )
    };
    let ports = "@th,0,16 != 53 @th,16,16 != 53";
    let own = flow("forward", "ip daddr @u accept");
    assert_eq!(own, format!("ct state established {ports} flow add @t"));
    let named = flow("forward", "tls sni @b drop");
    assert!(
        named.ends_with(&format!("}} {ports} flow add @t")),
        "{named}"
    );
    let elsewhere = flow("input", "ip daddr @u accept");
    assert_eq!(elsewhere, "ct state established flow add @t");
}

#[test]
fn packets_that_are_not_tracked_are_told() {
    let rules = "\tchain r {\n\t\ttype filter hook prerouting priority raw\n\t\ttcp dport 80 notrack\n\t}\n\t\
        chain c {\n\t\ttype filter hook input priority 0\n\t\ttls sni @b drop\n\t}";
    let split = split_text(rules, &Options::default()).unwrap();
    assert_eq!((split.warnings.len(), split.warnings[0].place.line), (1, 8));
}

#[test]
fn an_accept_of_what_is_established_is_told() {
    let split = in_forward("ct state established,related accept\ntls sni @b drop").unwrap();
    assert_eq!(split.warnings.len(), 1);
    assert!(in_forward("tls sni @b drop\nct state established accept")
        .unwrap()
        .warnings
        .is_empty());
}
