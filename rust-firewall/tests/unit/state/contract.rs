// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the failure contract, for different options, queue rules and properties of the kernel.

use rust_firewall::options::{parse, Options, OptionsAction, OptionsSituation};
use rust_firewall::state::contract::{make, print, Contract, ContractFacts, ContractRow};
use rust_firewall::state::queue_rules::QueueRules;

const FACTS: ContractFacts = ContractFacts {
    receive_buffer: 4096,
    figures: true,
    guard: true,
};

fn options(words: &str) -> Options {
    let words = ["rust-firewall", "--queue-length", "7"]
        .into_iter()
        .chain(words.split_whitespace());
    match parse(&words.map(Into::into).collect::<Vec<_>>()) {
        Ok(OptionsAction::Run(options)) => options,
        other => panic!("{other:?}"),
    }
}

fn plain() -> QueueRules {
    QueueRules {
        plain: true,
        ..QueueRules::default()
    }
}

/// Returns the effect of a situation according to the failure contract (`really`). Checks that the contract's mode for
/// the situation (open or closed) is that of --fail.
fn really(
    options: &Options,
    queue_rules: &QueueRules,
    facts: &ContractFacts,
    situation: OptionsSituation,
) -> String {
    let contract = make(options, queue_rules, facts);
    let open = options.fail_open[situation as usize];
    let row = &contract.rows[situation as usize];
    assert_eq!(row.mode, if open { "open" } else { "closed" });
    row.really.clone()
}

#[test]
fn closed_drops_and_counts() {
    use OptionsSituation as S;
    let options = options("");
    let really = |situation| really(&options, &plain(), &FACTS, situation);
    assert_eq!(
        really(S::Overload),
        "dropped: counted as user drop if the socket's 4096 bytes are full, as queue full if 7 \
         packets wait"
    );
    assert_eq!(
        really(S::Stall),
        "dropped by the guard when none was answered for 1000 ms"
    );
    assert_eq!(
        really(S::Crash),
        "waiting packets are dropped, then the rules drop packets: they have no bypass"
    );
    assert_eq!(
        really(S::Malformed),
        "dropped, counted by reason, as far as the first 128 bytes show"
    );
    assert_eq!(really(S::Truncated), "dropped, counted as truncated");
    assert_eq!(really(S::Unknown), "never: there is no policy");
}

#[test]
fn open_accepts() {
    use OptionsSituation as S;
    let mut options = options("--fail open --policy web.nft");
    let really = |options: &Options, situation| really(options, &plain(), &FACTS, situation);
    assert_eq!(
        really(&options, S::Overload),
        "passes unseen: counted as unseen if the socket's 4096 bytes are full, by nobody if 7 \
         packets wait"
    );
    assert_eq!(
        really(&options, S::Stall),
        "accepted by the guard when none was answered for 1000 ms"
    );
    assert_eq!(
        really(&options, S::Crash),
        "the guard accepts everything until SIGTERM or the next start"
    );
    assert_eq!(
        really(&options, S::Malformed),
        "accepted, counted by reason, as far as the first 128 bytes show"
    );
    assert_eq!(
        really(&options, S::Truncated),
        "accepted, counted as truncated or undecidable"
    );
    assert_eq!(
        really(&options, S::Unknown),
        "accepted at the first rule that reads it, as beyond 32768 undecided bytes each way"
    );
    options.malformed_by_policy = true;
    assert_eq!(
        really(&options, S::Malformed),
        "the policy decides: --malformed policy"
    );
}

#[test]
fn what_can_not_be_had_is_told() {
    let blind = ContractFacts {
        figures: false,
        ..FACTS
    };
    assert_eq!(
        really(&options(""), &plain(), &blind, OptionsSituation::Stall),
        "waits for ever: /proc/net/netfilter/nfnetlink_queue can't be read"
    );
    let unguarded = ContractFacts {
        guard: false,
        ..FACTS
    };
    assert_eq!(
        really(&options(""), &plain(), &unguarded, OptionsSituation::Stall),
        "waits for ever: the guard has ended"
    );
    assert_eq!(
        really(
            &options("--fail crash=open"),
            &plain(),
            &unguarded,
            OptionsSituation::Crash
        ),
        "the guard has ended: waiting packets are dropped, then the rules drop packets: they have no bypass"
    );
    assert_eq!(
        really(
            &options("--deadline 0"),
            &plain(),
            &FACTS,
            OptionsSituation::Stall
        ),
        "waits for ever: --deadline is 0"
    );
}

#[test]
fn a_crash_leaves_it_to_the_rules() {
    for (plain, bypass, unknown, expected) in [
        (false, true, "", "packets pass: the rules have a bypass"),
        (
            true,
            true,
            "",
            "rules with a bypass let packets pass, others drop them",
        ),
        (
            false,
            false,
            "",
            "the rules decide, of which there is none for this queue yet",
        ),
        (
            false,
            false,
            "nft is not there",
            "the rules decide, as far as can be known: nft is not there",
        ),
        (
            true,
            false,
            "ip6tables-save failed",
            "the rules drop packets: they have no bypass, as far as can be known: \
             ip6tables-save failed",
        ),
    ] {
        let queue_rules = QueueRules {
            plain,
            bypass,
            unknown: unknown.to_owned(),
            ..QueueRules::default()
        };
        assert_eq!(
            really(&options(""), &queue_rules, &FACTS, OptionsSituation::Crash),
            format!("waiting packets are dropped, then {expected}")
        );
    }
}

/// Failure contract with --stage: with --fail open, packets pass the firewall without a class, and the kernel's rules
/// decide them.
#[test]
fn the_stage_leaves_it_to_the_split_rules() {
    use OptionsSituation as S;
    const THEN: &str =
        "; then dropped by the kernel's rules, unless split with --bypass or --unknown-open";
    const UNREADABLE: &str =
        "dropped at the kernel's first rule that reads it, as beyond 32768 undecided bytes each \
         way, unless split with --unknown-open; before these bytes as split with --undecided";
    let words = "--policy web.nft --stage 0xffff0000";
    let (closed, open) = (options(words), options(&format!("{words} --fail open")));
    let told = |options: &Options, situation| really(options, &plain(), &FACTS, situation);
    for situation in [S::Overload, S::Stall, S::Crash, S::Malformed, S::Truncated] {
        assert!(!told(&closed, situation).contains("split"));
        let text = told(&open, situation);
        assert!(text.ends_with(THEN), "{text}");
    }
    assert_eq!(told(&closed, S::Unknown), UNREADABLE);
    assert_eq!(told(&open, S::Unknown), UNREADABLE);
    let bypass = QueueRules {
        bypass: true,
        ..QueueRules::default()
    };
    assert_eq!(
        really(&closed, &bypass, &FACTS, S::Crash),
        "waiting packets are dropped, then names are not known yet: the rules have a bypass"
    );
}

#[test]
fn it_is_a_table_and_an_array() {
    let row = |situation, mode| ContractRow {
        situation,
        mode,
        really: "so".to_owned(),
    };
    let contract = Contract {
        rows: vec![row("overload", "closed"), row("stall", "open")],
    };
    let mut out = String::new();
    print(&mut out, &contract);
    assert_eq!(out, "  overload   closed  so\n  stall      open    so\n");
    assert_eq!(
        serde_json::to_string(&contract.rows[1]).expect("only strings"),
        "{\"situation\":\"stall\",\"mode\":\"open\",\"really\":\"so\"}"
    );
}
