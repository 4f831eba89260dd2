// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies that `fwctl apply` refuses without changing the rules.

use std::fs::{create_dir, set_permissions, Permissions};
use std::os::unix::fs::PermissionsExt;

use anyhow::ensure;
use testbed::twin::built;

use super::place::{Place, Row, OTHER_POLICY, POLICY};

pub const ROWS: &[Row] = &[
    (
        "a-policy-that-can't-be-loaded-is-refused",
        a_policy_that_cant_be_loaded_is_refused,
    ),
    (
        "another-program's-marker-is-refused",
        another_programs_marker_is_refused,
    ),
    ("another-policy-waits", another_policy_waits),
    (
        "a-rule-set-that-was-replaced-is-not-confirmed",
        a_rule_set_that_was_replaced_is_not_confirmed,
    ),
    ("others-can't-apply", others_cant_apply),
    (
        "a-folder-that-others-change-is-refused",
        a_folder_that_others_change_is_refused,
    ),
];

fn a_policy_that_cant_be_loaded_is_refused() -> anyhow::Result<()> {
    let (place, _) = Place::applied()?;
    let before = place.rules()?;
    for (text, words) in [
        (
            "table ip t {\n\tchain c {\n\t\tmonster\n\t}\n}\n",
            "bad.nft:3:",
        ),
        (
            "flush ruleset\n",
            "bad.nft:1: flush ruleset removes the tables of other programs",
        ),
        (
            "add rule inet docker forward accept\n",
            "table inet docker exists and another program made it",
        ),
        ("table inet docker {\n}\n", "nft delete table inet docker"),
        (
            "table inet t {\n}\ntable inet twinwall {\n\tcomment \"generation 1\"\n}\n",
            "bad.nft:3: fwctl apply itself makes table inet twinwall",
        ),
        ("include \"nowhere.nft\"\n", "nowhere.nft: No such file"),
        ("", "it names no table"),
    ] {
        let bad = place.folder.replace("bad.nft", text)?;
        let output = place.run(&["apply", "--now", &bad])?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            !output.status.success() && stderr.contains(words),
            "{text}: {stderr}"
        );
        ensure!(
            stderr.starts_with("error: ") && stderr.lines().count() == 1,
            "{text}: {stderr}"
        );
        place.check_rules(&before)?;
    }
    ensure!(place.state()?["applied"] == 1, "{}", place.state()?);
    Ok(())
}

/// Checks that no policy is loaded while another program's table has the name of the table that identifies the
/// generation: the transaction would remove that table.
fn another_programs_marker_is_refused() -> anyhow::Result<()> {
    let place = Place::new()?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    let nft = |text: &str| place.namespace.feed("nft", &["-f", "-"], text);
    nft("table inet twinwall {\n}\n")?;
    let before = place.rules()?;
    let words = "exists and another program made it: nft delete table inet twinwall";
    place.refused(&["apply", "--now", &policy], 2, words)?;
    place.check_rules(&before)?;
    nft("delete table inet twinwall\n")?;
    place.done(&["apply", "--now", &policy]).map(drop)
}

fn another_policy_waits() -> anyhow::Result<()> {
    let place = Place::new()?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    let other = place.folder.write("other.nft", OTHER_POLICY)?;
    place.done(&["apply", &policy])?;
    let loaded = place.rules()?;
    place.refused(
        &["apply", &other],
        2,
        "generation 1 waits for its confirmation",
    )?;
    place.check_rules(&loaded)?;
    place.done(&["confirm"])?;
    place.done(&["apply", "--now", &other])?;
    Ok(())
}

fn a_rule_set_that_was_replaced_is_not_confirmed() -> anyhow::Result<()> {
    let place = Place::new()?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    place.done(&["apply", &policy])?;
    place
        .namespace
        .feed("nft", &["-f", "-"], "flush ruleset\n")?;
    place.refused(&["confirm"], 2, "another program replaced the rule set")?;
    ensure!(place.outcome()?.0 == "reverted", "{:?}", place.outcome()?);
    place.check_rules("")
}

fn others_cant_apply() -> anyhow::Result<()> {
    let place = Place::new()?;
    let program = built("fwctl");
    let program = program.to_string_lossy();
    for command in ["apply", "confirm", "unapply", "revert", "boot"] {
        let mut run = place.namespace.command("setpriv");
        run.args([
            "--reuid",
            "12345",
            "--regid",
            "12345",
            "--clear-groups",
            &program,
            command,
        ]);
        let output = run.output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(2),
            "{command}: {}",
            output.status
        );
        ensure!(
            stderr.contains("run it as root or with sudo"),
            "{command}: {stderr}"
        );
    }
    Ok(())
}

fn a_folder_that_others_change_is_refused() -> anyhow::Result<()> {
    let place = Place::new()?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    create_dir(&place.state)?;
    set_permissions(&place.state, Permissions::from_mode(0o777))?;
    let before = place.rules()?;
    place.refused(
        &["apply", "--now", &policy],
        4,
        &format!(
            "no folder that only root can change: chown root: {0}; chmod 711 {0}",
            place.state
        ),
    )?;
    place.check_rules(&before)
}
