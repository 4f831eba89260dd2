// SPDX-License-Identifier: GPL-2.0-or-later
//! `fwctl boot`: the policy after a restart.

use std::fs::{self, set_permissions, Permissions};
use std::os::unix::fs::{chown, symlink, PermissionsExt};

use anyhow::ensure;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use testbed::twin::Twin;

use super::place::{Place, Row, OTHER_POLICY, POLICY};

pub const ROWS: &[Row] = &[
    ("boot-loads-the-policy", boot_loads_the_policy),
    (
        "boot-loads-the-last-good-policy",
        boot_loads_the_last_good_policy,
    ),
    (
        "boot-drops-what-was-not-confirmed",
        boot_drops_what_was_not_confirmed,
    ),
    (
        "boot-drops-the-file-that-was-reverted",
        boot_drops_the_file_that_was_reverted,
    ),
    ("boot-believes-root-only", boot_believes_root_only),
    (
        "boot-believes-roots-parts-only",
        boot_believes_roots_parts_only,
    ),
    (
        "boot-believes-roots-folders-only",
        boot_believes_roots_folders_only,
    ),
    (
        "boot-goes-without-others-settings",
        boot_goes_without_others_settings,
    ),
    (
        "boot-misses-what-others-took-out",
        boot_misses_what_others_took_out,
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

/// Uid of a user without rights.
const OTHER_USER: u32 = 12345;

/// Checks that boot refuses the policy because users other than root can change `folder`, which is in the path of
/// `file`, and loads the last good policy.
fn refuses_folder(place: &Place, policy: &str, file: &str, folder: &str) -> anyhow::Result<()> {
    forget(place)?;
    let words = format!("{file}: others than root can change the folder {folder}: move the file");
    place.refused(&["boot", policy], 1, &words)?;
    ensure!(
        place.rules()?.contains("udp dport 7777"),
        "{}",
        place.rules()?
    );
    Ok(())
}

/// Checks that boot refuses a policy if users other than root can change a folder of the policy, of an included file or
/// of a list: by its mode (even with the sticky bit) or its owner, also if the path leads through a symbolic link. A
/// file in such a folder is not opened: a FIFO would stop the boot.
fn boot_believes_roots_folders_only() -> anyhow::Result<()> {
    let place = Place::with_twin(Twin::Rust)?;
    let path = |name: &str| place.folder.file(name);
    for name in ["main", "parts", "parts/deep", "lists"] {
        fs::create_dir(path(name))?;
    }
    symlink("../lists", path("main/link"))?;
    let listed = POLICY
        .replace(
            "\tchain",
            "\tset denied { type hostname; file \"LINK/list.txt\"; }\n\tchain",
        )
        .replace("LINK", &path("main/link"))
        .replace("udp dport", "http host @denied drop\n\t\tudp dport");
    place.folder.write("parts/deep/part.nft", listed)?;
    place.folder.write("lists/list.txt", "denied.example\n")?;
    let policy = place
        .folder
        .write("main/policy.nft", "include \"../parts/deep/part.nft\"\n")?;
    place.done(&["apply", "--now", &policy])?;
    let part = path("main/../parts/deep/part.nft");
    let list = path("main/link/list.txt");
    for (file, folder) in [
        (&policy, "main"),
        (&part, "parts"),
        (&part, "parts/deep"),
        (&list, "lists"),
    ] {
        let folder = path(folder);
        for mode in [0o775, 0o757, 0o1777] {
            set_permissions(&folder, Permissions::from_mode(mode))?;
            refuses_folder(&place, &policy, file, &folder)?;
        }
        set_permissions(&folder, Permissions::from_mode(0o755))?;
        chown(&folder, Some(OTHER_USER), None)?;
        refuses_folder(&place, &policy, file, &folder)?;
        chown(&folder, Some(0), None)?;
    }
    let (deep, inner) = (path("parts/deep"), path("parts/deep/part.nft"));
    let good = fs::read_to_string(&inner)?;
    fs::remove_file(&inner)?;
    mkfifo(inner.as_str(), Mode::from_bits_truncate(0o644))?;
    set_permissions(&deep, Permissions::from_mode(0o777))?;
    refuses_folder(&place, &policy, &part, &deep)?;
    set_permissions(&deep, Permissions::from_mode(0o755))?;
    fs::remove_file(&inner)?;
    place.folder.write("parts/deep/part.nft", good)?;
    forget(&place)?;
    place.done(&["boot", &policy]).map(drop)
}

/// Checks that boot does not load the rest of a policy if users other than root can remove files that the policy
/// includes by a pattern.
fn boot_misses_what_others_took_out() -> anyhow::Result<()> {
    let place = Place::new()?;
    let parts = place.folder.file("parts");
    fs::create_dir(&parts)?;
    place.folder.write("parts/drop.nft", POLICY)?;
    let text = format!("include \"parts/*.nft\"\n{OTHER_POLICY}");
    let policy = place.folder.write("policy.nft", text)?;
    place.done(&["apply", "--now", &policy])?;
    set_permissions(&parts, Permissions::from_mode(0o777))?;
    fs::remove_file(place.folder.file("parts/drop.nft"))?;
    refuses_folder(&place, &policy, &parts, &parts)
}

/// Checks that boot refuses settings that users other than root can change, and loads the last good policy.
fn boot_goes_without_others_settings() -> anyhow::Result<()> {
    let (place, policy) = Place::applied()?;
    let settings = place.folder.write("twinwall.conf", "OPTIONS=--pin\n")?;
    set_permissions(&settings, Permissions::from_mode(0o666))?;
    forget(&place)?;
    let words = format!("{settings}: others than root can change it");
    place.refused(&["boot", &policy], 1, &words)?;
    ensure!(
        place.rules()?.contains("udp dport 7777"),
        "{}",
        place.rules()?
    );
    Ok(())
}
