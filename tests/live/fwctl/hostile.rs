// SPDX-License-Identifier: GPL-2.0-or-later
//! A compromised firewall: its answers can't change root's terminal, and fwctl reads the policy that it names with the
//! firewall's rights, not with root's.

use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, PermissionsExt};
use std::process::Stdio;

use anyhow::ensure;
use nix::sys::stat::Mode;
use serde_json::{json, Value};
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::namespace;

use super::ctl::{command, fwctl, until_end, Said};
use super::standin::{self, StandIn, NOBODY};
use super::LoneRow;

pub const LONE_ROWS: &[LoneRow] = &[
    ("hostile-text-comes-to-no-terminal", text),
    ("hostile-policy-is-read-as-the-firewall", policy),
];

/// Text with a terminal title, a colour, a colour by a C1 character, another text direction, and a second line.
const ESCAPES: &str =
    "\u{1b}]0;title\u{7}\u{1b}[31m\u{9b}31m\u{202e}\u{200b}\u{8}\u{7f}\r\nERROR forged";

/// Returns a copy of a JSON value with ESCAPES appended to each text in it. The keys stay unchanged.
fn spoil(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(format!("{text}{ESCAPES}")),
        Value::Array(values) => values.iter().map(spoil).collect(),
        Value::Object(object) => {
            let spoilt = object
                .iter()
                .map(|(key, value)| (key.clone(), spoil(value)));
            spoilt.collect()
        }
        other => other.clone(),
    }
}

/// Returns a JSON object that is a valid answer to every command, and also a valid event. Its texts have ESCAPES
/// appended, except those that fwctl parses.
fn everything() -> Value {
    let mut all = standin::status("/usr/sbin/c-firewall", &["--queue", "0"]);
    let more = json!({
        "policy": {"file": "/etc/web.nft", "generation": 1, "loaded_ms": 1, "chains": 1, "rules": 1, "learned": 0,
            "requirement": {"copy_bytes": 1, "uid_gid": false, "conntrack_state": false, "conntrack_mark": false,
                "interface_names": false, "reject": false}},
        "contract": [{"situation": "overload", "mode": "closed", "really": "dropped"}],
        "reload_error": "bad", "counts": {"reloads": 1},
        "rules": [{"rule": "web.nft:6", "table": "inet t", "chain": "c", "text": "counter", "comment": "c",
            "counters": [], "logs": []}],
        "connections": [{"protocol": "tcp", "state": "named", "shows": "tls", "name": "a.example", "client_port": 1,
            "server_port": 2, "age_ms": 1}],
        "next": null, "level": "debug", "was": "info", "reason": "control",
        "timestamp": "2026-01-02T03:04:05.678901+0000", "event_type": "drop", "in_iface": "eth0", "proto": "TCP",
        "drop": {"event": "tcp"}, "tls": {"sni": "a.example"},
        "twinwall": {"verdict": "drop", "rule": "web.nft:6", "by": "rule"},
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    let mut all = spoil(&all);
    // fwctl parses these values and does not print them as text.
    all["arguments"] = json!(["--queue", "0"]);
    all["connections"][0]["client"] = json!("192.0.2.1");
    all["connections"][0]["server"] = json!("192.0.2.2");
    all
}

/// Running stand-in for a firewall (see standin.rs), with a folder of its user.
struct Scene {
    // Fields are dropped in this order: the stand-in before its folder.
    _stand_in: StandIn,
    namespace: Namespace,
    folder: Folder,
    socket: String,
}

impl Scene {
    fn new(answer: impl Fn(&Folder) -> Value) -> anyhow::Result<Scene> {
        let (namespace, folder) = (namespace()?, Folder::shared()?);
        let home = folder.file("home");
        fs::create_dir(&home)?;
        chown(&home, Some(NOBODY), Some(NOBODY))?;
        let player = folder.file("player");
        fs::copy("/proc/self/exe", &player)?;
        let stand_in = StandIn::start(&namespace, &player, &home, "", &answer(&folder))?;
        Ok(Scene {
            _stand_in: stand_in,
            namespace,
            socket: format!("{home}/control"),
            folder,
        })
    }

    fn fwctl(&self, words: &[&str]) -> anyhow::Result<Said> {
        fwctl(&self.namespace, &self.socket, words)
    }
}

/// Checks that a text was printed, and that the output has no control or invisible characters and no forged line.
fn check_plain(words: &[&str], said: &Said, has: &str) -> anyhow::Result<()> {
    let text = format!("{}{}", said.stdout, said.stderr);
    ensure!(text.contains(has), "{words:?} does not say {has}: {text:?}");
    let is_bad = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{200b}');
    ensure!(!text.contains(is_bad), "{words:?}: {text:?}");
    let forged = text.lines().any(|line| line.starts_with("ERROR forged"));
    ensure!(!forged, "{words:?} has a line of the firewall's: {text:?}");
    Ok(())
}

fn text() -> anyhow::Result<()> {
    let scene = Scene::new(|_| everything())?;
    for (words, has) in [
        (&["status"][..], "c-firewall?"),
        (&["status", "--json"], "\\u001b]0;title"),
        (&["rules"], "counter?"),
        (&["rules", "--json"], "\\u202e"),
        (&["connections"], "a.example?"),
        (&["connections", "--json"], "\\u202e"),
        (&["log"], "debug?"),
        (&["tail"], "a.example?"),
        (&["tail", "--json"], "\\u009b"),
        (&["doctor"], "bad?"),
        (&["doctor", "--json"], "\\u202e"),
    ] {
        check_plain(words, &scene.fwctl(words)?, has)?;
    }
    let refusing = Scene::new(|_| json!({"ok": false, "error": format!("no {ESCAPES}")}))?;
    for words in [
        &["status"][..],
        &["rules"],
        &["reload"],
        &["tail"],
        &["drain"],
    ] {
        check_plain(words, &refusing.fwctl(words)?, "error: no ?]0;title")?;
    }
    let other = Scene::new(|_| json!({"ok": ESCAPES}))?;
    check_plain(&["status"], &other.fwctl(&["status"])?, "unsupported reply")
}

const SECRET: &str = "root:secret\n";
/// Header of a pcap file without packets (pcap-savefile(5)).
const NO_PACKETS: &[u8] = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x65\0\0\0";

/// Returns the status of a firewall whose policy is a file in the folder.
fn with_policy(folder: &Folder, name: &str) -> Value {
    let mut status = everything();
    status["policy"]["file"] = json!(folder.file(name));
    status
}

/// Checks three policies that a compromised firewall names: fwctl does not read a file that only root may read, does
/// not wait for a pipe, and reads a file that everyone may read.
fn policy() -> anyhow::Result<()> {
    for (name, code, words) in [
        ("secret", 2, "Permission denied"),
        ("pipe", 2, "is no file"),
        ("open", 0, ""),
    ] {
        let scene = Scene::new(|folder| with_policy(folder, name))?;
        let folder = &scene.folder;
        let secret = folder.write("secret", SECRET)?;
        fs::set_permissions(&secret, Permissions::from_mode(0o600))?;
        nix::unistd::mkfifo(
            folder.file("pipe").as_str(),
            Mode::from_bits_truncate(0o644),
        )?;
        folder.write("open", "table inet t {\n}\n")?;
        // The capture is root-only, too: fwctl opens captures with root's rights.
        let capture = folder.file("capture");
        fs::write(&capture, NO_PACKETS)?;
        fs::set_permissions(&capture, Permissions::from_mode(0o600))?;
        let new = folder.write("new", "table inet t {\n}\n")?;
        for asked in [&["explain", &capture][..], &["diff", &new, &capture]] {
            let mut command = command(&scene.namespace, &scene.socket)?;
            command
                .args(asked)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            let said = until_end(command.spawn()?)?;
            said.code(code)?;
            ensure!(said.stderr.contains(words), "{asked:?}: {}", said.stderr);
            ensure!(!said.stderr.contains("root:"), "{asked:?}: {}", said.stderr);
        }
    }
    Ok(())
}
