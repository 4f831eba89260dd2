// SPDX-License-Identifier: GPL-2.0-or-later
//! A policy behind the firewall itself, as both twins, over a veth pair: what is met is what `explain` says, for all ports.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::place::{namespace, scan_with, serve, text};
use harness::netns::{Namespace, VETH_IPV4};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// What `make build` leaves, or the folder that TWINWALL_BUILD names. None: it was not built.
fn twin(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("TWINWALL_BUILD").map_or(root().join("build"), PathBuf::from);
    let program = folder.join(name);
    if !program.exists() {
        eprintln!("not tested: {} is not there: make build", program.display());
        return None;
    }
    Some(program)
}

/// The firewall at a queue, which ends with the value.
struct Firewall(Child);

impl Firewall {
    fn start(place: &Namespace, program: &Path, policy: &Path) -> Firewall {
        let mut child = place
            .command(program)
            .args([Path::new("--policy"), policy])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut ready)
            .unwrap();
        assert!(ready.starts_with("ready"), "{ready}");
        Firewall(child)
    }
}

impl Drop for Firewall {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lines of the filter table, as the rules of rules/queue are loaded.
fn restore(place: &Namespace, lines: &str) {
    let text = format!("*filter\n{lines}\nCOMMIT\n");
    place
        .feed("iptables-restore", &["--noflush", "--wait"], &text)
        .unwrap();
}

fn behind(name: &str) {
    let (Some(client), Some(server)) = (namespace(), namespace()) else {
        return;
    };
    let (Some(program), Some(explains)) = (twin(name), twin("rust-firewall")) else {
        return;
    };
    Namespace::veth_pair(&client, &server).unwrap();
    let to = VETH_IPV4.1.to_string();
    for port in [22, 443, 8080] {
        serve(&server, &format!("{to}:{port}"), |_stream| {});
    }
    restore(&server, "-A INPUT -p tcp -j NFQUEUE --queue-num 0");
    let policy = root().join("rules/policy/web-server.nft");
    let firewall = Firewall::start(&server, &program, &policy);
    let (policy, explains) = (policy.to_str().unwrap(), explains.to_str().unwrap());
    let words = [
        "--verify",
        policy,
        "--to",
        &to,
        "--firewall",
        explains,
        "--iif",
        "veth",
    ];
    let words = [&words[..], &["--timeout", "400", "--max-inflight", "20000"]].concat();
    let output = scan_with(&client, &words);
    let told = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{told}{}",
        text(&output.stderr)
    );
    assert!(
        told.contains("65535 ports of 10.77.0.2 from 10.77.0.1"),
        "{told}"
    );
    assert!(told.contains("accept 2, drop 65533, reject 0"), "{told}");
    assert!(
        told.contains("met: open 443; closed 1, filtered 65533"),
        "{told}"
    );
    assert!(told.ends_with("no difference\n"), "{told}");
    // Without the firewall its policy holds no longer, and each port that differs is told.
    drop(firewall);
    restore(&server, "-F INPUT");
    let output = scan_with(
        &client,
        &[&words[..], &["-p", "20-23,80,443,8080"]].concat(),
    );
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("10.77.0.2:22: by "), "{told}");
    assert!(
        told.contains("web-server.nft:56 drop, but open (syn-ack)")
            || told.contains(" drop, but open (syn-ack)"),
        "{told}"
    );
    assert!(told.ends_with("5 differences\n"), "{told}");
}

#[test]
fn a_web_server_behind_the_rust_twin() {
    behind("rust-firewall");
}

#[test]
fn a_web_server_behind_the_c_twin() {
    behind("c-firewall");
}

#[test]
fn a_policy_that_is_unsound_is_told_as_the_firewall_tells_it() {
    let (Some(place), Some(explains)) = (namespace(), twin("rust-firewall")) else {
        return;
    };
    let explains = explains.to_str().unwrap();
    let words = [
        "--verify",
        "/proc/version",
        "--to",
        "127.0.0.1",
        "--firewall",
        explains,
    ];
    let output = scan_with(&place, &words);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("/proc/version:1:1") && stderr.lines().count() == 1,
        "{stderr}"
    );
}
