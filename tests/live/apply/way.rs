// SPDX-License-Identifier: GPL-2.0-or-later
//! Apply, confirm, revert, unapply and history, without failures.

use std::net::UdpSocket;

use anyhow::ensure;
use testbed::twin::built;

use super::place::{Place, Row, OTHER_POLICY, POLICY};

pub const ROWS: &[Row] = &[
    ("a-confirmed-policy-stays", a_confirmed_policy_stays),
    (
        "an-unconfirmed-policy-goes-back",
        an_unconfirmed_policy_goes_back,
    ),
    ("counters-come-back", counters_come_back),
    ("revert-goes-back-at-once", revert_goes_back_at_once),
    ("unapply-leaves-no-trace", unapply_leaves_no_trace),
    (
        "history-keeps-ten-and-reverts-to-them",
        history_keeps_ten_and_reverts_to_them,
    ),
    ("status-says-what-differs", status_says_what_differs),
    (
        "a-broken-expectation-is-refused",
        a_broken_expectation_is_refused,
    ),
];

fn a_confirmed_policy_stays() -> anyhow::Result<()> {
    let place = Place::new()?;
    let before = place.rules()?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    let said = place.done(&["apply", "--confirm", "600", &policy])?;
    ensure!(
        said.contains("reverted in 600 s: run fwctl confirm"),
        "{said}"
    );
    let loaded = place.rules()?;
    ensure!(
        loaded.starts_with(&before) && loaded.contains("udp dport 7777"),
        "{loaded}"
    );
    place.done(&["confirm"])?;
    ensure!(place.outcome()?.0 == "confirmed", "{:?}", place.outcome()?);
    place.check_rules(&loaded)?;
    place.refused(&["confirm"], 2, "nothing waits for a confirmation")
}

fn an_unconfirmed_policy_goes_back() -> anyhow::Result<()> {
    let (place, _) = Place::applied()?;
    let before = place.rules()?;
    let other = place.folder.write("other.nft", OTHER_POLICY)?;
    place.expires(&other, || {
        let loaded = place.rules()?;
        Ok(loaded.contains("dport 8888") && !loaded.contains("table inet host"))
    })?;
    place.check_rules(&before)?;
    let expected = ("reverted".to_owned(), "not confirmed in time".to_owned());
    ensure!(place.outcome()? == expected, "{:?}", place.outcome()?);
    place.refused(&["confirm"], 2, "nothing waits for a confirmation")
}

fn counters_come_back() -> anyhow::Result<()> {
    let (place, policy) = Place::applied()?;
    place.namespace.enter(|| -> anyhow::Result<()> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.send_to(b"dropped", "127.0.0.1:7777")?;
        Ok(())
    })?;
    let before = place.rules()?;
    ensure!(
        before.contains("udp dport 7777 counter packets 1 bytes 35"),
        "{before}"
    );
    place.done(&["apply", "--confirm", "600", &policy])?;
    ensure!(
        place.rules()?.contains("udp dport 7777 counter packets 0"),
        "counters begin anew"
    );
    place.done(&["revert"])?;
    place.check_rules(&before)
}

fn revert_goes_back_at_once() -> anyhow::Result<()> {
    let place = Place::new()?;
    let before = place.rules()?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    place.done(&["apply", &policy])?;
    place.done(&["revert"])?;
    place.check_rules(&before)?;
    ensure!(
        place.outcome()?.1 == "fwctl revert",
        "{:?}",
        place.outcome()?
    );
    place.refused(&["revert"], 2, "name a generation")
}

fn unapply_leaves_no_trace() -> anyhow::Result<()> {
    let place = Place::new()?;
    let before = place.rules()?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    place.done(&["apply", "--now", &policy])?;
    place.done(&["apply", &policy])?;
    place.done(&["unapply"])?;
    place.check_rules(&before)?;
    place.refused(&["unapply"], 2, "nothing is applied")
}

fn history_keeps_ten_and_reverts_to_them() -> anyhow::Result<()> {
    let (place, policy) = Place::applied()?;
    let first = place.rules()?;
    let other = place.folder.write("other.nft", OTHER_POLICY)?;
    for _ in 0..9 {
        place.done(&["apply", "--now", &other])?;
    }
    let history = place.done(&["history"])?;
    ensure!(
        history.lines().count() == 11 && history.contains(&policy),
        "{history}"
    );
    ensure!(
        history.matches("  replaced").count() == 9 && history.contains("  applied\n"),
        "{history}"
    );
    place.done(&["revert", "1", "--now"])?;
    place.check_rules(&first.replace("generation 1", "generation 11"))?;
    place.refused(&["revert", "1", "--now"], 2, "there is no generation 1")
}

fn status_says_what_differs() -> anyhow::Result<()> {
    let (place, policy) = Place::applied()?;
    let status = || place.run(&["--socket", "/nonexistent/control", "status"]);
    let text = |output: &std::process::Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let fine = status()?;
    let said = text(&fine);
    ensure!(
        fine.status.code() == Some(0) && said.contains(&policy),
        "{said}"
    );
    ensure!(
        said.contains("generation 1, applied ") && !said.contains("changed"),
        "{said}"
    );
    place.folder.replace("policy.nft", OTHER_POLICY)?;
    ensure!(
        text(&status()?).contains("the file has changed since"),
        "{}",
        text(&status()?)
    );
    place
        .namespace
        .feed("nft", &["-f", "-"], "delete table inet twinwall\n")?;
    let lost = status()?;
    ensure!(lost.status.code() == Some(1), "{}", text(&lost));
    ensure!(
        text(&lost).contains("THE KERNEL DOES NOT HOLD IT"),
        "{}",
        text(&lost)
    );
    Ok(())
}

/// Checks that apply and check refuse a broken expectation with the same message, and that an expectation that holds
/// does not prevent an apply.
fn a_broken_expectation_is_refused() -> anyhow::Result<()> {
    let (place, policy) = Place::applied()?;
    let before = place.rules()?;
    let held = format!("# expect: udp -> :7777 drop\n{POLICY}");
    let broken = format!("{held}# expect: udp 192.0.2.1 -> :7777 drop\n");
    let path = place.folder.replace("policy.nft", &broken)?;
    let line = broken.lines().count();
    let words =
        format!("policy.nft:{line}: expected drop, got accept (in) by {path}:9: ip saddr @known");
    place.refused(&["apply", "--now", &policy], 2, &words)?;
    place.check_rules(&before)?;
    let check = |policy: &str| {
        let mut check = std::process::Command::new(built("fwctl"));
        check
            .args(["check", policy, "--config", "/nonexistent"])
            .output()
    };
    let said = String::from_utf8(check(&path)?.stderr)?;
    ensure!(said.contains(&words), "{said}");
    place.folder.replace("policy.nft", &held)?;
    let said = String::from_utf8(check(&path)?.stdout)?;
    ensure!(said == "ok: 1 expectation\n", "{said}");
    place.done(&["apply", "--now", &policy]).map(drop)
}
