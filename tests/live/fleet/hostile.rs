// SPDX-License-Identifier: GPL-2.0-or-later
//! A store with false contents, keys that are not trusted, and hosts that write the keys of other hosts.

use std::fs;

use anyhow::ensure;
use serde_json::{json, Value};
use testbed::wait::{until, PATIENCE};

use twinwall_tests::fleet::{policy, Place, Plan, Row, CHANNEL};

pub const ROWS: &[Row] = &[
    (
        "a-hostile-store-changes-nothing",
        a_hostile_store_changes_nothing,
    ),
    ("a-cut-bundle-is-refused", a_cut_bundle_is_refused),
    ("a-foreign-key-is-refused", a_foreign_key_is_refused),
    (
        "a-host-writes-its-own-keys-alone",
        a_host_writes_its_own_keys_alone,
    ),
    (
        "two-pushes-at-once-are-one-after-the-other",
        two_pushes_at_once,
    ),
];

const OPERATOR: &str = "out/operator.login";

fn a_hostile_store_changes_nothing() -> anyhow::Result<()> {
    let place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    let name = format!("twinwall/channel/{CHANNEL}");
    let first = place.pointer()?;
    place.push_well(&policy(8888))?;
    let second: Value = serde_json::from_str(&place.pointer()?)?;
    let signed = |edit: fn(&mut Value)| {
        let mut pointer: Value = serde_json::from_str(second["text"].as_str().unwrap_or_default())?;
        pointer["generation"] = json!(9);
        edit(&mut pointer);
        anyhow::Ok(
            json!({"text": pointer.to_string(), "signatures": second["signatures"]}).to_string(),
        )
    };
    let log = place.path("h1", "agent.log");
    for (what, value, words) in [
        (
            "a replayed generation",
            first,
            "the store shows generation 1",
        ),
        (
            "a changed text under a signature",
            signed(|_| ())?,
            "0 of the keys have signed",
        ),
        (
            "a pointer of another version",
            signed(|one| one["more"] = json!(1))?,
            "of another version",
        ),
        ("garbage", "x".to_owned(), "no signed text"),
    ] {
        let seen = fs::read_to_string(&log)?.len();
        let (done, said) = place.etcdctl(OPERATOR, &["put", &name, &value])?;
        ensure!(done, "{said}");
        until(what, PATIENCE, || {
            Ok(fs::read_to_string(&log)?[seen..].contains(words))
        })?;
        place.all_have("udp dport 8888")?;
    }
    // The operator's fwctl does not sign what this store shows, either.
    let (code, said) = place.push(&policy(9999), &["--no-wait"])?;
    ensure!(code == Some(2) && said.contains("no signed text"), "{said}");
    Ok(())
}

/// Checks that a host refuses a bundle that is not complete, although the pointer that names the bundle (generation and
/// digest, signed) is correct.
fn a_cut_bundle_is_refused() -> anyhow::Result<()> {
    let place = Place::new(1)?;
    place.push_well(&policy(8888))?;
    let log = place.path("h1", "agent.log");
    let (code, said) = place.push(&policy(9999), &["--no-wait", "--not-before", "4000000000"])?;
    ensure!(code == Some(0), "{said}");
    until("the agent to wait", PATIENCE, || {
        Ok(fs::read_to_string(&log)?.contains("its time has not come"))
    })?;
    let bundle = format!("twinwall/policy/{}", place.wanted_digest()?);
    let (done, said) =
        place.etcdctl(OPERATOR, &["put", &bundle, "{\"kind\":\"twinwall-bundle\""])?;
    ensure!(done, "{said}");
    // A rollback names the same bundle again, and does not write it.
    let key = place.folder.file("out/fleet.key");
    let again = ["rollback", CHANNEL, "2", "--no-wait", "--sign", &key];
    let (code, said) = place.fleet(&again)?;
    ensure!(code == Some(0), "{said}");
    until("the agent to refuse it", PATIENCE, || {
        Ok(fs::read_to_string(&log)?.contains("another one or not whole"))
    })?;
    place.all_have("udp dport 8888")?;
    // A push writes its bundle again.
    place.push_well(&policy(9999))?;
    place.all_have("udp dport 9999")
}

fn a_foreign_key_is_refused() -> anyhow::Result<()> {
    let place = Place::with(Plan {
        hosts: 1,
        numbers: true,
        ..Plan::default()
    })?;
    place.push_well(&policy(8888))?;
    let (public, secret) = (
        place.folder.file("foreign.pub"),
        place.folder.file("foreign.key"),
    );
    let made = std::process::Command::new("minisign")
        .args(["-G", "-W", "-p", &public, "-s", &secret])
        .output()?;
    ensure!(made.status.success(), "minisign -G");
    let keys =
        fs::read_to_string(&public)? + &fs::read_to_string(place.folder.file("out/fleet.keys"))?;
    let keys = place.folder.write("both.keys", keys)?;
    let path = place.folder.write("foreign.nft", policy(9998))?;
    let (code, said) = place.fleet(&[
        "push",
        CHANNEL,
        &path,
        "--no-wait",
        "--sign",
        &secret,
        "--keys",
        &keys,
    ])?;
    ensure!(code == Some(0), "{said}");
    let log = place.path("h1", "agent.log");
    until("the agent to refuse the key", PATIENCE, || {
        Ok(fs::read_to_string(&log)?.contains("0 of the keys have signed"))
    })?;
    let numbers = place.path("h1", "numbers.prom");
    until("the metric of the refused generation", PATIENCE, || {
        let wanted = format!("twinwall_fleet_generation_wanted{{channel=\"{CHANNEL}\"}} 2");
        Ok(fs::read_to_string(&numbers)?.contains(&wanted))
    })?;
    place.all_have("udp dport 8888")
}

fn a_host_writes_its_own_keys_alone() -> anyhow::Result<()> {
    let place = Place::new(2)?;
    let login = "out/h1/fleet.login";
    let put = |name: &str| place.etcdctl(login, &["put", name, "x"]);
    ensure!(put("twinwall/hosts/h1")?.0, "its own key");
    for name in [
        "twinwall/hosts/h2",
        "twinwall/alive/h2",
        "twinwall/channel/web",
        "twinwall/policy/x",
        "twinwall/keys/web",
    ] {
        let (done, said) = put(name)?;
        ensure!(
            !done && said.contains("permission denied"),
            "{name}: {said}"
        );
    }
    let (done, said) = place.etcdctl(login, &["get", "twinwall/hosts/h2"])?;
    ensure!(!done && said.contains("permission denied"), "{said}");
    Ok(())
}

fn two_pushes_at_once() -> anyhow::Result<()> {
    let place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    let key = place.folder.file("out/fleet.key");
    let paths = [policy(8888), policy(9999)].map(|text| {
        let name = format!("{}.nft", text.len() + text.matches('9').count());
        place.folder.write(&name, text)
    });
    let said = std::thread::scope(|scope| {
        let pushes: Vec<_> = paths
            .iter()
            .flatten()
            .map(|path| {
                let (place, key) = (&place, &key);
                scope.spawn(move || {
                    place.fleet(&["push", CHANNEL, path, "--no-wait", "--sign", key])
                })
            })
            .collect();
        pushes
            .into_iter()
            .map(|push| push.join().expect("no panic"))
            .collect::<Result<Vec<_>, _>>()
    })?;
    // Each push has its own generation, or was told that the other push was faster.
    let generations: Vec<&str> = said
        .iter()
        .filter_map(|(code, text)| (*code == Some(0)).then_some(&text[..12]))
        .collect();
    ensure!(!generations.is_empty(), "{said:?}");
    ensure!(
        generations.len() < 2 || generations[0] != generations[1],
        "{said:?}"
    );
    let refused = said.iter().filter(|(code, _)| *code != Some(0));
    for (_, text) in refused {
        ensure!(text.contains("somebody else has changed"), "{text}");
    }
    place.wait_for("confirmed", 1)
}
