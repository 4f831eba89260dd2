// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies that are tried on a host's traffic before they are enforced.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::wait::{pause_for, until, PATIENCE};
use twinwall_tests::fleet::{policy, Host, Place, Row, CHANNEL};

pub const ROWS: &[Row] = &[
    ("a-diff-names-hosts-and-rules", a_diff_names_hosts_and_rules),
    (
        "a-policy-that-would-drop-too-much-is-not-applied",
        a_policy_that_would_drop_too_much,
    ),
    (
        "a-push-waits-for-the-trial-of-a-question",
        a_push_during_a_trial,
    ),
    (
        "a-question-that-cannot-be-read-delays-no-push",
        a_question_that_cannot_be_read,
    ),
];

/// Number of datagrams that are sent to each port at a time.
const BURST: u64 = 10;

/// Sends datagrams to ports on a host's loopback while `work` runs. Returns the result of `work`, and the number of
/// datagrams that were sent to the first port. Fails if one of these does not arrive.
fn beside_traffic<T>(
    host: &Host,
    ports: [u16; 2],
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, u64)> {
    let (server, client) = host.namespace.enter(|| {
        let server = UdpSocket::bind(("127.0.0.1", ports[0]))?;
        server.set_nonblocking(true)?;
        anyhow::Ok((server, UdpSocket::bind("127.0.0.1:0")?))
    })?;
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| {
            let (mut sent, mut arrived) = (0, 0);
            while !ended.load(Ordering::Relaxed) {
                for port in (0..BURST).flat_map(|_| ports) {
                    // After a datagram to a port without a socket, a later send fails.
                    while client.send_to(b"x", ("127.0.0.1", port)).is_err() {}
                }
                sent += BURST;
                until("all datagrams to arrive in a trial", PATIENCE, || {
                    while server.recv(&mut [0; 8]).is_ok() {
                        arrived += 1;
                    }
                    Ok(arrived == sent)
                })?;
                pause_for(Duration::from_millis(5));
            }
            anyhow::Ok(sent)
        });
        let done = work();
        ended.store(true, Ordering::Relaxed);
        let sent = traffic.join().expect("the traffic does not panic")?;
        Ok((done?, sent))
    })
}

fn a_diff_names_hosts_and_rules() -> anyhow::Result<()> {
    let place = Place::new(2)?;
    place.push_well(&policy(7777))?;
    let before = place.rules(&place.hosts[1])?;
    // The new policy drops what passes now, and accepts what is dropped now.
    let path = place.folder.write("new.nft", policy(8888))?;
    let key = place.folder.file("out/fleet.key");
    let diff = ["diff", CHANNEL, &path, "--seconds", "3", "--sign", &key];
    let ((code, said), sent) =
        beside_traffic(&place.hosts[0], [8888, 7777], || place.fleet(&diff))?;
    ensure!(code == Some(1), "{said}");
    ensure!(
        said.contains("2 of 2 hosts tried the policy: 0 on their last 3 s, 2 on the 3 s"),
        "{said}"
    );
    let line = |words: &str| said.lines().find(|line| line.contains(words));
    let packets = |words: &str| -> anyhow::Result<u64> {
        let line = line(words).with_context(|| said.clone())?;
        ensure!(line.starts_with("h1 "), "{line}");
        Ok(line.split_whitespace().nth(1).unwrap_or_default().parse()?)
    };
    let flips = packets("dropped by chain input: udp dport 8888 counter drop")?;
    let passes = packets("accepted, now dropped by a rule of the present policy")?;
    ensure!(flips > 20 && flips <= sent, "{flips} of {sent}");
    ensure!(passes > 20 && passes <= sent, "{passes} of {sent}");
    ensure!(!said.contains("h2 "), "{said}");
    ensure!(place.rules(&place.hosts[1])? == before, "the rules stay");

    // Without traffic no verdict changes. A question that is not signed by a trusted key is ignored.
    let (code, said) = place.fleet(&diff)?;
    ensure!(
        code == Some(0) && said.contains("nothing would be"),
        "{said}"
    );
    let name = format!("twinwall/channel/{CHANNEL}/question");
    let login = "out/operator.login";
    let (_, question) = place.etcdctl(login, &["get", "--print-value-only", &name])?;
    let mut question: Value = serde_json::from_str(&question)?;
    let text = question["text"].as_str().unwrap_or_default();
    let text = text.replace("\"seconds\":3", "\"seconds\":9");
    let number = text.find("\"number\":").context("a number")? + 9;
    let text = format!("{}9{}", &text[..number], &text[number + 1..]);
    let text = text.replace("\"expires\":1", "\"expires\":9");
    question["text"] = Value::from(text);
    let (done, said) = place.etcdctl(login, &["put", &name, &question.to_string()])?;
    ensure!(done, "{said}");
    place.wait_for_log(0, "0 of the keys have signed it")?;
    ensure!(!place.rules(&place.hosts[0])?.contains("twinwall_trial"));
    Ok(())
}

fn a_policy_that_would_drop_too_much() -> anyhow::Result<()> {
    let place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    let options = ["--no-wait", "--try", "2", "--max-drops", "5"];
    let options = [&options[..], &["--observe", "1", "--confirm", "300"]].concat();
    beside_traffic(&place.hosts[0], [8888, 8889], || {
        let (code, said) = place.push(&policy(8888), &options)?;
        ensure!(code == Some(0), "{said}");
        place.wait_for("reverted", 1)
    })?;
    let why = place.status()?[0]["report"]["why"].to_string();
    ensure!(
        why.contains(
            "it was not applied: chain input: udp dport 8888 counter drop would newly drop"
        ),
        "{why}"
    );
    place.all_have("udp dport 7777")?;
    // A policy that would drop no packet is applied after its trial.
    let (code, said) = place.push(&policy(9999), &options)?;
    ensure!(code == Some(0), "{said}");
    place.wait_for("confirmed", 1)?;
    let state = place.state(0);
    let trial = &state["trial"];
    ensure!(
        trial["digest"] == state["digest"] && trial["question"] == 0 && trial["seconds"] == 2,
        "{state}"
    );
    place.all_have("udp dport 9999")
}

/// Tests a push whose policy must be tried first, while the host tries the policy of a question. The question gets its
/// answer, and the push succeeds.
fn a_push_during_a_trial() -> anyhow::Result<()> {
    let place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    let path = place.folder.write("new.nft", policy(8888))?;
    let key = place.folder.file("out/fleet.key");
    let diff = ["diff", CHANNEL, &path, "--seconds", "3", "--sign", &key];
    let (asked, pushed) = thread::scope(|scope| {
        let asked = scope.spawn(|| place.fleet(&diff));
        // The state has the question's number from the beginning of its trial.
        let is_tried = || Ok(place.state(0)["question"].as_u64() > Some(0));
        let pushed = until("the trial of the question", PATIENCE, is_tried).and_then(|()| {
            let options = [
                "--try",
                "10",
                "--max-drops",
                "1000",
                "--observe",
                "1",
                "--confirm",
                "300",
            ];
            place.push(&policy(9999), &options)
        });
        (asked.join().expect("no panic"), pushed)
    });
    let ((code, said), pushed) = (asked?, pushed?);
    ensure!(
        code == Some(0) && said.contains("1 of 1 hosts tried"),
        "{said}"
    );
    ensure!(pushed.0 == Some(0), "{}", pushed.1);
    place.all_have("udp dport 9999")
}

fn a_question_that_cannot_be_read() -> anyhow::Result<()> {
    let place = Place::new(1)?;
    let name = format!("twinwall/channel/{CHANNEL}/question");
    let (done, said) = place.etcdctl("out/operator.login", &["put", &name, "x"])?;
    ensure!(done, "{said}");
    place.wait_for_log(0, "no signed text")?;
    place.push_well(&policy(7777)).map(drop)
}
