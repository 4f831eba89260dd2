// SPDX-License-Identifier: GPL-2.0-or-later
//! `fwctl boot`: the policy after a restart.

use std::fs::{set_permissions, Permissions};
use std::os::unix::fs::PermissionsExt;

use anyhow::ensure;
use testbed::twin::Twin;

use super::place::{Place, Row, OTHER_POLICY, POLICY};

pub const ROWS: &[Row] = &[
    ("boot-loads-the-policy", 60, boot_loads_the_policy),
    (
        "boot-loads-the-last-good-policy",
        60,
        boot_loads_the_last_good_policy,
    ),
    (
        "boot-drops-what-was-not-confirmed",
        60,
        boot_drops_what_was_not_confirmed,
    ),
    (
        "boot-drops-the-file-that-was-reverted",
        60,
        boot_drops_the_file_that_was_reverted,
    ),
    ("boot-believes-root-only", 60, boot_believes_root_only),
    (
        "boot-believes-roots-parts-only",
        60,
        boot_believes_roots_parts_only,
    ),
];

/// Deletes all rules in the kernel, as a restart does.
fn forget(place: &Place) -> anyhow::Result<()> {
    place.namespace.feed("nft", &["-f", "-"], "flush ruleset\n")
}

fn boot_loads_the_policy() -> anyhow::Result<()> {
    let place = Place::new()?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    place.done(&["boot", &policy])?;
    ensure!(
        place.rules()?.contains("udp dport 7777"),
        "{}",
        place.rules()?
    );
    // The operator may have changed the file since: boot loads the changed policy.
    forget(&place)?;
    place.folder.replace("policy.nft", OTHER_POLICY)?;
    place.done(&["boot", &policy])?;
    ensure!(
        place.rules()?.contains("udp dport 8888"),
        "{}",
        place.rules()?
    );
    Ok(())
}

fn boot_loads_the_last_good_policy() -> anyhow::Result<()> {
    let (place, policy) = Place::applied()?;
    forget(&place)?;
    place
        .folder
        .replace("policy.nft", "table ip t {\n\tmonster\n}\n")?;
    place.refused(&["boot", &policy], 1, "policy.nft:2")?;
    ensure!(
        place.rules()?.contains("udp dport 7777"),
        "{}",
        place.rules()?
    );
    let nowhere = place.folder.file("nowhere.nft");
    forget(&place)?;
    place.done(&["boot", &nowhere])?;
    ensure!(
        place.rules()?.contains("udp dport 7777"),
        "{}",
        place.rules()?
    );
    let fresh = Place::new()?;
    fresh.refused(&["boot", &nowhere], 2, "no policy is loaded: write")
}

fn boot_drops_what_was_not_confirmed() -> anyhow::Result<()> {
    let (place, policy) = Place::applied()?;
    let other = place.folder.write("other.nft", OTHER_POLICY)?;
    place.done(&["apply", "--confirm", "600", &other])?;
    forget(&place)?;
    place.done(&["boot", &policy])?;
    ensure!(
        place.rules()?.contains("udp dport 7777"),
        "{}",
        place.rules()?
    );
    let history = place.done(&["history"])?;
    ensure!(
        history.contains("reverted: the machine restarted"),
        "{history}"
    );
    Ok(())
}

/// Checks that boot loads neither a first policy that was not confirmed, nor a later policy that was reverted, from the
/// same file: it would be loaded without a confirmation.
fn boot_drops_the_file_that_was_reverted() -> anyhow::Result<()> {
    let place = Place::new()?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    place.done(&["apply", "--confirm", "600", &policy])?;
    forget(&place)?;
    let said = "the text of generation 1, which was reverted";
    let output = place.run(&["boot", &policy])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code() == Some(2) && stderr.contains(said),
        "{stderr}"
    );
    ensure!(!place.rules()?.contains("7777"), "{}", place.rules()?);
    place.done(&["apply", "--now", &policy])?;
    place.folder.replace("policy.nft", OTHER_POLICY)?;
    place.done(&["apply", "--confirm", "600", &policy])?;
    place.done(&["revert"])?;
    forget(&place)?;
    place.refused(&["boot", &policy], 1, "which was reverted")?;
    ensure!(
        place.rules()?.contains("udp dport 7777"),
        "{}",
        place.rules()?
    );
    Ok(())
}

fn boot_believes_root_only() -> anyhow::Result<()> {
    let place = Place::new()?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    set_permissions(&policy, Permissions::from_mode(0o666))?;
    let output = place.run(&["boot", &policy])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && stderr.contains("others than root can change it"),
        "{stderr}"
    );
    ensure!(!place.rules()?.contains("7777"), "{}", place.rules()?);
    Ok(())
}

/// Checks that boot refuses a policy if users other than root can change a file that it includes, or a list that it
/// names.
fn boot_believes_roots_parts_only() -> anyhow::Result<()> {
    let place = Place::with_twin(Twin::Rust)?;
    let policy = place.folder.write("policy.nft", "include \"part.nft\"\n")?;
    let listed = POLICY
        .replace(
            "\tchain",
            "\tset denied { type hostname; file \"list.txt\"; }\n\tchain",
        )
        .replace("udp dport", "http host @denied drop\n\t\tudp dport");
    let part = place.folder.write("part.nft", listed)?;
    let list = place.folder.write("list.txt", "denied.example\n")?;
    place.done(&["apply", "--now", &policy])?;
    for file in [&part, &list] {
        let good = std::fs::read_to_string(file)?;
        std::fs::write(file, good.replace("7777", "8888"))?;
        set_permissions(file, Permissions::from_mode(0o666))?;
        forget(&place)?;
        let words = format!("{file}: others than root can change it");
        place.refused(&["boot", &policy], 1, &words)?;
        ensure!(
            place.rules()?.contains("udp dport 7777"),
            "{}",
            place.rules()?
        );
        std::fs::write(file, good)?;
        set_permissions(file, Permissions::from_mode(0o644))?;
    }
    forget(&place)?;
    place.done(&["boot", &policy]).map(drop)
}
