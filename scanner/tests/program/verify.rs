// SPDX-License-Identifier: GPL-2.0-or-later
//! A policy enforced by the firewall itself, in both twins, over a veth pair: the states found equal those of `explain`, for
//! all ports.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use testbed::netns::{Namespace, VETH_IPV4};
use testbed::twin::{built, root, USER};

use crate::place::{namespace, scan_with, serve, text};

/// Returns the path of a twin's program, which `make build` builds in build/, or in the folder that TWINWALL_BUILD
/// names. Panics if there is no such program.
fn twin(name: &str) -> PathBuf {
    let program = built(name);
    let shown = program.display();
    assert!(program.exists(), "{shown} is not there: make build");
    program
}

/// The firewall at a queue, ended on drop.
struct Firewall(Child);

impl Firewall {
    fn start(place: &Namespace, program: &Path, policy: &Path, options: &[&str]) -> Firewall {
        let mut child = place
            .command(program)
            .args([Path::new("--policy"), policy])
            .args(["--user", USER])
            .args(options)
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

/// Applies lines of iptables-restore, such as `-A INPUT …`, to the table filter, without flushing the table.
fn restore(place: &Namespace, lines: &str) {
    let text = format!("*filter\n{lines}\nCOMMIT\n");
    place
        .feed("iptables-restore", &["--noflush", "--wait"], &text)
        .unwrap();
}

fn behind(name: &str) {
    let (client, server) = (namespace(), namespace());
    let (program, explains) = (twin(name), twin("rust-firewall"));
    Namespace::veth_pair(&client, &server).unwrap();
    let to = VETH_IPV4.1.to_string();
    for port in [22, 443, 8080] {
        serve(&server, &format!("{to}:{port}"), |_stream| {});
    }
    restore(&server, "-A INPUT -p tcp -j NFQUEUE --queue-num 0");
    let policy = root().join("rules/policy/web-server.nft");
    let firewall = Firewall::start(&server, &program, &policy, &["--deadline", "60000"]);
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
    let verified = |timeout, more: &[&str]| {
        let limits = ["--timeout", timeout, "--max-inflight", "20000"];
        scan_with(&client, &[&words[..], &limits, more].concat())
    };
    let mut output = verified("1000", &[]);
    // A busy machine may answer later.
    for timeout in ["4000", "16000"] {
        if output.status.code() != Some(0) {
            output = verified(timeout, &[]);
        }
    }
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
    assert!(
        told.contains("accept 2, drop 65533, reject 0; answers kept back 0\n"),
        "{told}"
    );
    assert!(
        told.contains("met: open 443; closed 1, filtered 65533"),
        "{told}"
    );
    assert!(told.ends_with("no difference\n"), "{told}");
    // Without the firewall its policy no longer applies, and each port that differs is reported.
    drop(firewall);
    restore(&server, "-F INPUT");
    let output = verified("16000", &["-p", "20-23,80,443,8080"]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let wanted = "10.77.0.2:22: by policy inet filter input drop, but open (syn-ack)\n";
    assert!(told.contains(wanted), "{told}");
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

/// Policy that filters the scanner's SYNs (chain in) and the answers to them (chain out). Nothing listens at odd ports.
const BOTH_WAYS: &str = "table ip both {
	chain in {
		type filter hook input priority filter; policy drop;
		tcp dport { 10-17 } accept
		tcp dport { 19, 21 } reject with tcp reset
	}
	chain out {
		type filter hook output priority filter; policy drop;
		tcp sport { 10, 11 } drop
		tcp sport { 12, 13 } tcp flags & syn == syn drop
		tcp sport { 14, 15 } tcp flags & rst == rst drop
		ct state established accept
		tcp sport 19 ct state invalid accept
	}
}
";

/// Checks the reports on ports whose answers the policy in `file` drops, for a host that does not enforce the policy.
fn check_differences(told: &str, to: &str, file: &str) {
    let line = |port: u16, wanted: &str| {
        let begin = format!("{to}:{port}: by ");
        let line = told.lines().find(|line| line.starts_with(&begin));
        assert!(
            line.is_some_and(|line| line.ends_with(wanted)),
            "{port}: {told}"
        );
    };
    let place = |rule: u16| format!("{file}:{rule}");
    line(
        10,
        &format!(
            " accept, but the answer is dropped by {}, but open (syn-ack)",
            place(9)
        ),
    );
    line(11, " but closed (conn-refused)");
    line(
        12,
        &format!(
            " accept, but the answer of an open port is dropped by {}, but open (syn-ack)",
            place(10)
        ),
    );
    line(
        15,
        &format!(
            " the answer of a closed port is dropped by {}, but closed (conn-refused)",
            place(11)
        ),
    );
    line(
        21,
        " the RST is dropped by policy ip both out, but closed (conn-refused)",
    );
}

fn answers_behind(name: &str) {
    let (client, server) = (namespace(), namespace());
    let (program, explains) = (twin(name), twin("rust-firewall"));
    Namespace::veth_pair(&client, &server).unwrap();
    let to = VETH_IPV4.1.to_string();
    for port in [10, 12, 14, 16] {
        serve(&server, &format!("{to}:{port}"), |_stream| {});
    }
    let loaded = server
        .command(root().join("rules/load"))
        .arg("conntrack-host")
        .output()
        .unwrap();
    assert!(loaded.status.success(), "{}", text(&loaded.stderr));
    let policy = std::env::temp_dir().join(format!("scanner-{name}-{}.nft", std::process::id()));
    std::fs::write(&policy, BOTH_WAYS).unwrap();
    let options = ["--conntrack", "mark", "--deadline", "60000"];
    let firewall = Firewall::start(&server, &program, &policy, &options);
    let (file, explains) = (policy.to_str().unwrap(), explains.to_str().unwrap());
    let words = [
        "--verify",
        file,
        "--to",
        &to,
        "--firewall",
        explains,
        "-p",
        "10-21",
    ];
    let verified = |timeout| scan_with(&client, &[&words[..], &["--timeout", timeout]].concat());
    let mut output = verified("2000");
    // A busy machine may answer later.
    for timeout in ["8000", "32000"] {
        if output.status.code() != Some(0) {
            output = verified(timeout);
        }
    }
    let told = text(&output.stdout);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}{stderr}");
    for wanted in [
        "accept 8, drop 2, reject 2; answers kept back 7\n",
        // Not 10, 12, 11, 15, 21, whose answers are dropped, nor 18 and 20, whose SYNs are dropped.
        "met: open 14,16; closed 3, filtered 7",
        "no difference\n",
    ] {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
    // Without the firewall all answers get out, and each answer that the policy would have dropped is reported.
    drop(firewall);
    let output = verified("32000");
    let told = text(&output.stdout);
    let _ = std::fs::remove_file(&policy);
    assert_eq!(output.status.code(), Some(1), "{told}");
    check_differences(&told, &to, file);
    assert!(told.ends_with("7 differences\n"), "{told}");
}

#[test]
fn answers_that_the_rust_twin_keeps_back() {
    answers_behind("rust-firewall");
}

#[test]
fn answers_that_the_c_twin_keeps_back() {
    answers_behind("c-firewall");
}

#[test]
fn a_policy_that_is_unsound_is_told_as_the_firewall_tells_it() {
    let place = namespace();
    let explains = twin("rust-firewall");
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
