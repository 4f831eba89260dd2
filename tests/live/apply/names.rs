// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies with host names: the rules in the kernel and a firewall change together, in an apply and in a revert.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::proc;
use testbed::twin::Twin;
use testbed::wait::{patience, until, PATIENCE};

use super::death::kill_everywhere;
use super::place::{Place, Row, POLICY};

pub const ROWS: &[Row] = &[
    ("names-decide", names_decide),
    ("names-go-back", names_go_back),
    ("names-leave-no-trace", names_leave_no_trace),
    ("names-end-behind-a-kill", names_end_behind_a_kill),
    ("names-need-their-firewall", names_need_their_firewall),
    ("names-killed-at-every-step", names_killed_at_every_step),
    ("names-boot", names_boot),
    ("names-of-few-generations", names_of_few_generations),
    ("names-of-another-layout", names_of_another_layout),
    ("names-are-refused-with-their-place", names_are_refused),
    ("lists-come-back-with-their-generation", lists_come_back),
    ("lists-that-give-little", little_of_lists),
    ("names-under-a-narrow-umask", names_under_a_narrow_umask),
];

pub const NAMES: &str = r#"table inet host {
	set denied { type hostname; elements = { "denied.example", "*.denied.example" } }
	chain input {
		type filter hook input priority filter; policy accept;
		http host @denied counter drop
		udp dport 7777 counter drop
	}
}
"#;
/// Policy with another name, and with so many classes (sets of name matches) that it uses other mark bits.
pub const OTHER_NAMES: &str = r#"table inet host {
	chain input {
		type filter hook input priority filter; policy accept;
		http host "other.example" counter drop
		http method "PUT" counter drop
		tls sni "a.example" tls alpn "h2" drop
	}
}
"#;

/// Time after which a request that must not pass counts as dropped.
const SOON: Duration = Duration::from_millis(500);

/// Returns the rules with `N` in place of packet and byte counts, which change while packets pass.
fn rules(place: &Place) -> anyhow::Result<String> {
    let mut words: Vec<String> = Vec::new();
    for word in place.rules()?.split(' ') {
        let is_count = words
            .last()
            .is_some_and(|last| ["packets", "bytes"].contains(&last.as_str()));
        let end = if word.ends_with('\n') { "\n" } else { "" };
        words.push(match is_count {
            true => format!("N{end}"),
            false => word.to_owned(),
        });
    }
    Ok(words.join(" "))
}

fn check_rules(place: &Place, before: &str) -> anyhow::Result<()> {
    let now = rules(place)?;
    ensure!(now == before, "the rules are\n{now}\ninstead of\n{before}");
    Ok(())
}

/// Returns true if a request for a host name reaches a server in the namespace.
/// - expected: time limit for the request: PATIENCE if true, SOON if false.
pub fn passes(place: &Place, host: &str, expected: bool) -> anyhow::Result<bool> {
    let limit = patience(expected, SOON);
    place.namespace.enter(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        // Without an answer to the SYN, no packet passes.
        let Ok(mut client) = TcpStream::connect_timeout(&listener.local_addr()?, limit) else {
            return Ok(false);
        };
        let (mut server, _) = listener.accept()?;
        client.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
        server.set_read_timeout(Some(limit))?;
        Ok(server.read(&mut [0; 64]).is_ok())
    })
}

/// Checks that requests for the name `denied` are denied, and that requests for the name `allowed` pass.
fn check_denied(place: &Place, denied: &str, allowed: &str) -> anyhow::Result<()> {
    ensure!(passes(place, allowed, true)?, "{allowed} does not pass");
    ensure!(!passes(place, denied, false)?, "{denied} passes");
    Ok(())
}

/// Returns a place with a confirmed policy with names, and the policy's path.
fn applied(twin: Twin) -> anyhow::Result<(Place, String)> {
    let place = Place::with_twin(twin)?;
    let policy = place.folder.write("policy.nft", NAMES)?;
    place.done(&["apply", "--now", &policy])?;
    Ok((place, policy))
}

fn names_decide() -> anyhow::Result<()> {
    for twin in [Twin::Rust, Twin::C] {
        let place = Place::with_twin(twin)?;
        let policy = place.folder.write("policy.nft", NAMES)?;
        place.done(&["apply", "--confirm", "600", &policy])?;
        check_denied(&place, "www.denied.example", "allowed.example")?;
        place.done(&["confirm"])?;
        check_denied(&place, "www.denied.example", "allowed.example")?;
        let output = place.run(&["--socket", "/nonexistent/control", "status"])?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success() && said.contains("connections: 0 settled, "),
            "{said}"
        );
    }
    Ok(())
}

/// Checks reverts from a policy with other names, and from a policy without names.
fn names_go_back() -> anyhow::Result<()> {
    let (place, _) = applied(Twin::Rust)?;
    let before = rules(&place)?;
    for text in [OTHER_NAMES, POLICY] {
        let other = place.folder.replace("other.nft", text)?;
        place.done(&["apply", "--confirm", "600", &other])?;
        ensure!(passes(&place, "denied.example", true)?, "{text}");
        place.done(&["revert"])?;
        check_rules(&place, &before)?;
        check_denied(&place, "denied.example", "other.example")?;
        place.expires(&other, || Ok(true))?;
        check_rules(&place, &before)?;
        check_denied(&place, "denied.example", "other.example")?;
    }
    Ok(())
}

fn names_leave_no_trace() -> anyhow::Result<()> {
    let place = Place::with_twin(Twin::Rust)?;
    let before = place.rules()?;
    let policy = place.folder.write("policy.nft", NAMES)?;
    for _ in 0..2 {
        place.done(&["apply", "--now", &policy])?;
        ensure!(place.firewall().is_some(), "no firewall runs");
        place.done(&["unapply"])?;
        place.check_rules(&before)?;
        ensure!(place.firewall().is_none(), "the firewall still runs");
    }
    place.expires(&policy, || Ok(true))?;
    place.check_rules(&before)?;
    ensure!(place.firewall().is_none(), "the firewall still runs");
    // A confirmed policy without names needs no firewall.
    place.done(&["apply", "--now", &policy])?;
    let plain = place.folder.write("plain.nft", POLICY)?;
    place.done(&["apply", "--now", &plain])?;
    ensure!(place.firewall().is_none(), "the firewall still runs");
    ensure!(!place.rules()?.contains("mangle"), "{}", place.rules()?);
    Ok(())
}

/// Kills the confirmation of a policy without names after it has stored the new state. Checks that the next command
/// ends the firewall, which the policy does not need.
fn names_end_behind_a_kill() -> anyhow::Result<()> {
    for next in ["confirm", "unapply"] {
        let (place, _) = applied(Twin::Rust)?;
        let plain = place.folder.write("plain.nft", POLICY)?;
        place.done(&["apply", "--confirm", "600", &plain])?;
        // The second fsync is that of the folder, after the rename of the state file.
        let inject = "inject=fsync:signal=KILL:when=2";
        let wrapper = ["strace", "--quiet=all", "--output=/dev/null", "-e", inject];
        let output = place.command_under(&wrapper, &["confirm"]).output()?;
        ensure!(output.status.signal().is_some(), "{}", output.status);
        ensure!(place.state()?["applied"] == 2, "{}", place.state()?);
        ensure!(place.firewall().is_some(), "the firewall has ended before");
        place.run(&[next])?;
        ensure!(
            place.firewall().is_none(),
            "{next}: the firewall still runs"
        );
        ensure!(!place.rules()?.contains("mangle"), "{}", place.rules()?);
    }
    Ok(())
}

fn names_need_their_firewall() -> anyhow::Result<()> {
    let (place, policy) = applied(Twin::Rust)?;
    place.done(&["apply", "--confirm", "600", &policy])?;
    let pid = place.firewall().context("a firewall")?;
    proc::signal(pid, libc::SIGKILL);
    until("the firewall's end", PATIENCE, || {
        Ok(place.firewall().is_none())
    })?;
    place.refused(&["confirm"], 4, "no firewall names for it")?;
    let status = place.run(&["--socket", "/nonexistent/control", "status"])?;
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    ensure!(
        status.status.code() == Some(1) && said.contains("NO FIREWALL NAMES FOR IT"),
        "{said}"
    );
    // --fail is closed, so no packet passes.
    ensure!(!passes(&place, "denied.example", false)?, "it passes");
    place.done(&["revert"])?;
    check_denied(&place, "denied.example", "other.example")
}

/// Returns a text: the rules, the firewall's policy, and whether the firewall runs.
fn look(place: &Place) -> anyhow::Result<String> {
    let names = fs::read_to_string(place.folder.file("run/stage/names.nft"));
    let names = names.unwrap_or_default();
    let runs = place.firewall().is_some();
    Ok(format!("{}\n{names}\nruns: {runs}", rules(place)?))
}

fn names_killed_at_every_step() -> anyhow::Result<()> {
    let (place, _) = applied(Twin::Rust)?;
    let other = place.folder.write("other.nft", OTHER_NAMES)?;
    kill_everywhere(&place, &other, &look, &|place| {
        check_denied(place, "denied.example", "other.example")
    })
}

fn names_boot() -> anyhow::Result<()> {
    let (place, policy) = applied(Twin::C)?;
    // The kernel loses all rules and connections, and no process remains.
    let pid = place.firewall().context("a firewall")?;
    proc::signal(pid, libc::SIGKILL);
    fs::remove_dir_all(place.folder.file("run"))?;
    place
        .namespace
        .feed("nft", &["-f", "-"], "flush ruleset\n")?;
    place.done(&["boot", &policy])?;
    check_denied(&place, "denied.example", "other.example")?;
    // If the file can't be split into rules and names, boot loads the last good policy.
    place.folder.replace(
        "policy.nft",
        NAMES.replace("filter hook input", "nat hook input"),
    )?;
    place.refused(&["boot", &policy], 1, "policy.nft:5")?;
    check_denied(&place, "denied.example", "other.example")
}

/// Returns the tracked connections of a place, one a line.
fn connections(place: &Place) -> anyhow::Result<String> {
    let mut list = place.namespace.command("cat");
    let output = list.arg("/proc/net/nf_conntrack").output()?;
    Ok(String::from_utf8(output.stdout)?)
}

/// Checks applies if the configured mark bits suffice for two generations only: each apply uses the bits of the
/// generation before the last, and first clears these bits in existing connections.
fn names_of_few_generations() -> anyhow::Result<()> {
    let place = Place::with_twin(Twin::Rust)?;
    let config = fs::read_to_string(place.folder.file("twinwall.conf"))? + "MARKS=0x1f0\n";
    place.folder.replace("twinwall.conf", &config)?;
    let policy = place.folder.write("policy.nft", NAMES)?;
    let other = NAMES.replace("denied.example", "other.example");
    let other = place.folder.write("other.nft", other)?;
    place.done(&["apply", "--now", &policy])?;
    place.namespace.enter(|| -> anyhow::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut client = TcpStream::connect(listener.local_addr()?)?;
        let (mut server, _) = listener.accept()?;
        server.set_read_timeout(Some(PATIENCE))?;
        for policy in [&other, &policy, &other] {
            place.done(&["apply", "--now", policy])?;
            let marked = connections(&place)?;
            let is_clear =
                !marked.is_empty() && marked.lines().all(|line| line.contains(" mark=0 "));
            ensure!(is_clear, "connections keep classes: {marked}");
            // The connection's next packets set its class again.
            client.write_all(b"SSH-2.0-nameless\r\n")?;
            server.read_exact(&mut [0; 18])?;
        }
        let marked = connections(&place)?;
        ensure!(!marked.contains(" mark=0 "), "no class was noted");
        place.done(&["apply", "--confirm", "600", &policy])?;
        place.done(&["revert"])?;
        Ok(())
    })?;
    check_denied(&place, "other.example", "denied.example")
}

/// Checks that a revert clears the classes of a policy whose marks have the same mask, but more class bits in it.
fn names_of_another_layout() -> anyhow::Result<()> {
    let place = Place::with_twin(Twin::Rust)?;
    let config = fs::read_to_string(place.folder.file("twinwall.conf"))? + "MARKS=0xff00\n";
    place.folder.replace("twinwall.conf", &config)?;
    let policy = place.folder.write("policy.nft", NAMES)?;
    let other = place.folder.write("other.nft", OTHER_NAMES)?;
    place.done(&["apply", "--now", &policy])?;
    place.done(&["apply", "--confirm", "600", &other])?;
    let state = place.state()?;
    let naming = |at: usize| &state["generations"][at]["naming"];
    ensure!(
        naming(0)["orders"]["mask"] == naming(1)["orders"]["mask"]
            && naming(0)["generations"] != naming(1)["generations"],
        "{state}"
    );
    place.namespace.enter(|| -> anyhow::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut client = TcpStream::connect(listener.local_addr()?)?;
        let (mut server, _) = listener.accept()?;
        server.set_read_timeout(Some(PATIENCE))?;
        client.write_all(b"SSH-2.0-nameless\r\n")?;
        server.read_exact(&mut [0; 18])?;
        let marked = connections(&place)?;
        ensure!(!marked.contains(" mark=0 "), "no class was noted");
        place.done(&["revert"])?;
        let marked = connections(&place)?;
        let is_clear = !marked.is_empty() && marked.lines().all(|line| line.contains(" mark=0 "));
        ensure!(is_clear, "connections keep classes: {marked}");
        Ok(())
    })?;
    check_denied(&place, "denied.example", "other.example")
}

fn names_are_refused() -> anyhow::Result<()> {
    let (place, _) = applied(Twin::Rust)?;
    let before = rules(&place)?;
    for (from, to, words) in [
        ("filter hook input", "nat hook input", "bad.nft:5: "),
        ("udp dport 7777", "udp monster 7777", "fwctl split "),
        ("denied.example\"", "a..b\"", "bad.nft:"),
    ] {
        let bad = place.folder.replace("bad.nft", NAMES.replace(from, to))?;
        place.refused(&["apply", "--now", &bad], 2, words)?;
        check_rules(&place, &before)?;
    }
    let policy = place.folder.write("good.nft", OTHER_NAMES)?;
    let config = place.folder.file("twinwall.conf");
    for (text, words) in [
        (
            "OPTIONS=--fail crash=open\n",
            "set both to open or both to closed",
        ),
        ("NOTHING\n", "twinwall.conf:1"),
        ("OPTIONS=--user nobody-at-all\n", "nobody-at-all"),
    ] {
        fs::write(&config, text)?;
        let output = place.run(&["apply", "--now", &policy])?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            !output.status.success() && stderr.contains(words) && stderr.lines().count() == 1,
            "{text}: {stderr}"
        );
        check_rules(&place, &before)?;
        check_denied(&place, "denied.example", "other.example")?;
    }
    Ok(())
}

/// Checks that lines without a name are reported, and that a list without any name is refused before any change.
fn little_of_lists() -> anyhow::Result<()> {
    let place = Place::with_twin(Twin::Rust)?;
    let listed = NAMES.replace(
        "elements = { \"denied.example\", \"*.denied.example\" }",
        "file \"list.txt\" with parents",
    );
    let policy = place.folder.write("policy.nft", listed)?;
    let list = place
        .folder
        .write("list.txt", "*.one.example\nno name here\n")?;
    let output = place.run(&["apply", "--now", &policy])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let doubtful = format!("warning: {list}:2: 1 of 2 lines have an unknown format");
    ensure!(
        output.status.success() && stderr.contains(&doubtful),
        "{stderr}"
    );
    check_denied(&place, "one.example", "two.example")?;
    place.folder.replace("list.txt", "no name here\n")?;
    let output = place.run(&["apply", "--now", &policy])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let unread = format!("error: \"{list}\": no line of it is one that is read");
    ensure!(
        !output.status.success() && stderr.contains(&unread),
        "{stderr}"
    );
    check_denied(&place, "one.example", "two.example")
}

/// Returns the policy NAMES with the file list.txt in place of the denied names.
fn listed() -> String {
    NAMES.replace(
        "elements = { \"denied.example\", \"*.denied.example\" }",
        "file \"list.txt\"",
    )
}

/// Checks that the firewall's user can read the policy and the lists that root writes under a narrow umask: a running
/// firewall reloads them, and is not started again.
fn names_under_a_narrow_umask() -> anyhow::Result<()> {
    let place = Place::with_twin(Twin::Rust)?;
    let policy = place.folder.write("policy.nft", listed())?;
    let narrow = ["sh", "-c", "umask 077; exec \"$@\"", "sh"];
    let apply = |denied: &str| -> anyhow::Result<Option<u32>> {
        place.folder.replace("list.txt", format!("{denied}\n"))?;
        let mut apply = place.command_under(&narrow, &["apply", "--now", &policy]);
        let output = apply.output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{stderr}");
        Ok(place.firewall())
    };
    let first = apply("one.example")?;
    let second = apply("two.example")?;
    ensure!(
        first.is_some() && second == first,
        "the firewall was started again: {first:?}, {second:?}"
    );
    check_denied(&place, "two.example", "one.example")
}

/// Checks that a revert restores the list of its generation, although the list's file was changed and deleted.
fn lists_come_back() -> anyhow::Result<()> {
    let place = Place::with_twin(Twin::Rust)?;
    let policy = place.folder.write("policy.nft", listed())?;
    for (number, (denied, allowed)) in [
        ("one.example", "two.example"),
        ("two.example", "one.example"),
    ]
    .into_iter()
    .enumerate()
    {
        place.folder.replace("list.txt", format!("{denied}\n"))?;
        if number > 0 {
            let said = place.run(&["--socket", "/nonexistent/control", "status"])?;
            let said = String::from_utf8(said.stdout)?;
            ensure!(
                said.contains("or a list that it reads: run fwctl apply"),
                "{said}"
            );
        }
        place.done(&["apply", "--now", &policy])?;
        check_denied(&place, denied, allowed)?;
    }
    fs::remove_file(place.folder.file("list.txt"))?;
    place.done(&["revert", "1", "--now"])?;
    check_denied(&place, "one.example", "two.example")?;
    for _ in 0..10 {
        place.done(&["revert", "3", "--now"])?;
    }
    let kept = fs::read_dir(format!("{}/lists", place.state))?.count();
    ensure!(kept == 1, "{kept} lists are kept");
    Ok(())
}
