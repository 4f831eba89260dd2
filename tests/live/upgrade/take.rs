// SPDX-License-Identifier: GPL-2.0-or-later
//! The new firewall in an upgrade: it takes over from an invalid old firewall, and must end with one line that explains
//! why.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use anyhow::{ensure, Context};
use nix::fcntl::SealFlag;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use testbed::firewall::{run_to_end, Ended, Firewall};
use testbed::packets;
use testbed::place::{namespace, LOCALHOST};
use testbed::proc;
use testbed::traffic::{tcp_ask, tcp_connect, tcp_echo};
use testbed::twin::{Twin, TWINS};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::peer::{
    commit, listen, listen_to_proof, memory, next_line, pass_on, prepare, sealed, send_with, Peer,
    Said, COMMIT,
};
use super::setting::{Setting, SILENT};

pub const ROWS: &[Row] = &[
    ("nobody-answers", nobody_answers),
    ("a-stranger-answers", stranger_answers),
    ("a-stranger-asked-for-a-proof", stranger_asked_for_proof),
    ("another-network-namespace", another_namespace),
    ("descriptors-that-are-none", wrong_descriptors),
    ("rules-that-are-none", wrong_rules),
    ("numbers-that-are-none", wrong_numbers),
    ("an-old-one-that-is-silent", silent_old_one),
    ("an-old-one-that-does-not-hear", deaf_old_one),
    ("a-new-one-that-is-killed-unheard", killed_unheard),
    ("other-queues", other_queues),
    ("classic-cannot-take-over", classic),
];

const STATE: &str =
    "{\"ok\":true,\"version\":2,\"pid\":1,\"generation\":1,\"counts\":[],\"stats\":[],\
                     \"queues\":[{\"queue\":0,\"copy_bytes\":128,\"flags\":4}]}\n";
const STRANGE: &str =
    "the old firewall sent an unexpected message: check that it is a Twinwall firewall";
const OTHER: &str = "the old firewall hands over in another way than this one: stop it, and start this one without \
                     --take-over";
const ENDED: &str = "the old firewall ended the upgrade: see its log, and try again";
const NO_FIREWALL: &str =
    "no firewall answers at this path: give --take-over the path of a firewall's --control";

/// Checks that a firewall ended with one error line and this exit code.
fn check_error(ended: &Ended, code: i32, error: &str) -> anyhow::Result<()> {
    let expected = format!("error: {error}\n");
    ensure!(
        ended.code == Some(code) && ended.stderr == expected,
        "exit code {:?}, stderr: {}, expected {expected}",
        ended.code,
        ended.stderr
    );
    Ok(())
}

/// Checks that a firewall ended with one error line and this exit code, and printed nothing else.
fn check(ended: &Ended, code: i32, error: &str) -> anyhow::Result<()> {
    check_error(ended, code, error)?;
    ensure!(ended.lines.is_empty(), "{:?}", ended.lines);
    Ok(())
}

/// Makes a firewall try to take over from a stand-in for an old firewall. Returns the firewall's output.
/// - answer: replies to the new firewall's second request.
fn take_from(
    twin: Twin,
    answer: impl FnOnce(UnixStream) -> std::io::Result<()> + Send + 'static,
) -> anyhow::Result<Ended> {
    let setting = Setting::new("--queue-num 0")?;
    let old = listen_to_proof(&setting, &setting.control(), answer)?;
    let ended = setting.fail_to_take(twin, &[])?;
    // The new firewall may end before it has received everything.
    let _ = old.join().expect("the old one does not panic")?;
    Ok(ended)
}

fn nobody_answers(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let path = setting.control();
    let cure = "start without --take-over, or give it the path of a running firewall's --control";
    let told = |why: &str| format!("no firewall can be reached at {path}: {why}: {cure}");
    let missing = setting.fail_to_take(twin, &[])?;
    check(&missing, 1, &told("No such file or directory"))?;
    File::create(&path)?;
    let refused = setting.fail_to_take(twin, &[])?;
    check(&refused, 1, &told("Connection refused"))
}

fn stranger_answers(twin: Twin) -> anyhow::Result<()> {
    let no_good = |part| {
        format!("the old firewall's state has an invalid \"{part}\": check that it is a Twinwall firewall")
    };
    let answers = [
        ("", ENDED.to_owned()),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", NO_FIREWALL.to_owned()),
        ("\0\u{1}\u{2}\n", NO_FIREWALL.to_owned()),
        ("{\"ok\":true}\n", no_good("version")),
        ("{\"ok\":true,\"version\":2}\n", no_good("pid")),
        (
            "{\"ok\":true,\"version\":2,\"pid\":1,\"generation\":1}\n",
            no_good("counts"),
        ),
        ("{\"ok\":true,\"version\":1,\"pid\":1}\n", OTHER.to_owned()),
        (
            "{\"ok\":false,\"error\":\"not now: later\"}\n",
            "the old firewall refuses the upgrade: not now: later".to_owned(),
        ),
        (STATE, ENDED.to_owned()),
        (&(STATE.to_owned() + "{\"fd\":null}\n"), STRANGE.to_owned()),
        (
            &(STATE.to_owned() + "{\"fd\":\"queue:0\"}\n"),
            STRANGE.to_owned(),
        ),
        (
            &(STATE.to_owned() + "no line of a descriptor\n"),
            STRANGE.to_owned(),
        ),
    ];
    for (answer, expected) in answers {
        let said = answer.to_owned();
        let ended = take_from(twin, move |mut stream| stream.write_all(said.as_bytes()))?;
        check(&ended, 1, &expected).with_context(|| format!("to {answer}"))?;
    }
    Ok(())
}

/// Tests invalid replies to the request for a proof, before the new firewall requests the state.
fn stranger_asked_for_proof(twin: Twin) -> anyhow::Result<()> {
    let elsewhere =
        "the old firewall is in another network namespace: start this one there (ip netns exec)";
    let answers = [
        ("", ENDED),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", NO_FIREWALL),
        ("{\"ok\":true}\n", NO_FIREWALL),
        ("{\"ok\":true,\"port\":0,\"number\":1}\n", NO_FIREWALL),
        (
            "{\"ok\":true,\"port\":4294967296,\"number\":1}\n",
            NO_FIREWALL,
        ),
        ("{\"ok\":true,\"port\":1,\"number\":-1}\n", NO_FIREWALL),
        ("{\"ok\":true,\"port\":\"1\",\"number\":1}\n", NO_FIREWALL),
        (
            "{\"ok\":true,\"port\":4294967295,\"number\":1}\n",
            elsewhere,
        ),
        (
            "{\"ok\":false,\"error\":\"not\\u0007now\"}\n",
            "the old firewall refuses the upgrade: not?now",
        ),
    ];
    for (answer, expected) in answers {
        let setting = Setting::new("--queue-num 0")?;
        let said = answer.to_owned();
        let old = listen(&setting.control(), move |mut stream| {
            stream.write_all(said.as_bytes())
        })?;
        let ended = setting.fail_to_take(twin, &[])?;
        let _ = old.join().expect("the old one does not panic")?;
        check(&ended, 1, expected).with_context(|| format!("to {answer}"))?;
    }
    Ok(())
}

/// Checks that a firewall in another network namespace is refused before any queue stops: queues belong to a namespace.
fn another_namespace(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    let control = setting.control();
    let elsewhere = namespace()?;
    for new in TWINS {
        let ended = run_to_end(&elsewhere, &[], new, &["--take-over", &control])?;
        let text = "the old firewall is in another network namespace: start this one there (ip netns exec)";
        check(&ended, 1, text)?;
    }
    ensure!(firewall.ledger()?.total.received == 0);
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(
        ended.code == Some(0) && ended.stderr.is_empty(),
        "exit code {:?}, stderr: {}",
        ended.code,
        ended.stderr
    );
    Ok(())
}

/// Tests descriptors for a queue that are not its socket: a file, and a netlink socket that owns no queue.
fn wrong_descriptors(twin: Twin) -> anyhow::Result<()> {
    let give = |fd: fn() -> std::io::Result<std::os::fd::OwnedFd>| {
        take_from(twin, move |mut stream| {
            stream.write_all(STATE.as_bytes())?;
            send_with(&stream, "{\"fd\":\"queue:0\"}\n", fd()?.as_raw_fd())?;
            send_with(&stream, "{\"fd\":\"later\"}\n", fd()?.as_raw_fd())?;
            send_with(
                &stream,
                "{\"fd\":\"rules\"}\n",
                sealed(&[0; 4])?.as_raw_fd(),
            )?;
            stream.write_all(b"{\"fd\":null}\n")
        })
    };
    let netlink = || packets::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER);
    let stranger = give(netlink)?;
    let text =
        "the socket that was handed over for queue 0 does not own it: start without --take-over";
    check(&stranger, 5, text)?;
    let file = give(|| Ok(File::open("/dev/null")?.into()))?;
    let text =
        "the descriptor handed over for queue 0 is no netlink socket: start without --take-over";
    check(&file, 1, text)
}

/// Tests rules in a descriptor that is not memory, is not sealed, or contains invalid data.
fn wrong_rules(twin: Twin) -> anyhow::Result<()> {
    let all = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    let give = |rules: OwnedFd| {
        take_from(twin, move |mut stream| {
            let socket =
                packets::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER)?;
            stream.write_all(STATE.as_bytes())?;
            send_with(&stream, "{\"fd\":\"queue:0\"}\n", socket.as_raw_fd())?;
            send_with(&stream, "{\"fd\":\"rules\"}\n", rules.as_raw_fd())?;
            stream.write_all(b"{\"fd\":null}\n")
        })
    };
    let text =
        "the old firewall's state has an invalid \"rules\": check that it is a Twinwall firewall";
    for rules in [
        File::open("/dev/zero")?.into(),
        File::open("/proc/self/exe")?.into(),
        memory(&[0; 4], all - SealFlag::F_SEAL_WRITE)?,
        memory(&[0; 4], all - SealFlag::F_SEAL_SHRINK)?,
        memory(&[0; 4], all - SealFlag::F_SEAL_GROW)?,
        sealed(&[])?,
        sealed(&[1, 0, 0, 0])?,
        sealed(&[0; 5])?,
    ] {
        check(&give(rules)?, 1, text)?;
    }
    Ok(())
}

/// Policy with one of every stateful statement.
const STATEFUL: &[&str] = &[
    "table inet filter {",
    "  chain output {",
    "    type filter hook output priority 0; policy accept;",
    "    udp dport 1 limit rate 1/hour quota 9 bytes counter log",
    "  }",
    "}",
];

/// Makes a firewall take over from an old one by way of a stand-in, which it must not survive. Repeats this if the old
/// firewall's data come too late for it, as can happen on a busy machine. Returns the new firewall's output.
/// - more: additional options of the new firewall.
/// - relay: passes data between the new firewall, the first connection, and the old one.
fn take_by_way(
    setting: &Setting,
    new: Twin,
    more: &[&str],
    relay: impl FnOnce(UnixStream, UnixStream, Said) -> anyhow::Result<()> + Clone + Send + 'static,
) -> anyhow::Result<Ended> {
    let between = setting.path("between");
    let arguments = [&["--take-over", &between], more].concat();
    let mut taken = None;
    until("the new firewall hears in time", PATIENCE, || {
        let (peer, relay) = (Peer::connect(setting)?, relay.clone());
        let relaying = listen_to_proof(setting, &between, move |stream| {
            let (old, prepared) = prepare(peer)?;
            relay(stream, old, prepared)
        })?;
        // run_to_end also waits for the new firewall's guard, which would keep stderr open.
        let ended = run_to_end(&setting.namespace, &[], new, &arguments)?;
        let relayed = relaying.join().expect("the one between does not panic")?;
        std::fs::remove_file(&between)?;
        if ended.stderr.contains(SILENT) {
            return Ok(false);
        }
        relayed??;
        taken = Some(ended);
        Ok(true)
    })?;
    taken.context("no new firewall has ended")
}

/// Corrupts parts of the data that the old firewall sends after it has stopped. The new firewall must report the error,
/// and the old firewall must continue.
fn wrong_numbers(twin: Twin) -> anyhow::Result<()> {
    type Change = fn(&mut Vec<u8>);
    fn set(bytes: &mut [u8], from_end: usize, word: u64) {
        let at = bytes.len() - 8 * from_end;
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    let cases: [(&str, usize, Change); 8] = [
        ("states", 0, |bytes| bytes.truncate(bytes.len() - 8)),
        ("states", 0, |bytes| bytes.extend([0; 8])),
        ("limits", 0, |bytes| set(bytes, 2, u64::MAX)),
        ("limits", 0, |bytes| set(bytes, 2, 1 << 62)),
        ("quotas", 0, |bytes| set(bytes, 1, 1 << 63)),
        ("counts", 0, |bytes| bytes[..8].fill(0xff)),
        ("sums", 1, |bytes| bytes.truncate(1)),
        ("sums", 1, |bytes| bytes.extend([0; 1])),
    ];
    let setting = Setting::new("--queue-num 0")?;
    let policy = setting.policy("policy.nft", STATEFUL)?;
    let firewall = setting.start(twin, &["--policy", &policy])?;
    tcp_echo(&setting.namespace, LOCALHOST)?;
    let mut stream = tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?;
    for (new, (part, which, change)) in TWINS.into_iter().cycle().zip(cases) {
        let more = ["--policy", &policy];
        let failed = take_by_way(&setting, new, &more, move |stream, old, prepared| {
            pass_on(&stream, &prepared)?;
            let ready = next_line(&stream)?;
            ensure!(ready == COMMIT, "the new one says {ready}");
            let (lines, mut fds) = commit(&old, &ready)?;
            let mut bytes = Vec::new();
            File::from(fds[which].try_clone()?).read_to_end(&mut bytes)?;
            change(&mut bytes);
            fds[which] = sealed(&bytes)?;
            // The new firewall may end before it has received everything.
            let _ = pass_on(&stream, &(lines, fds));
            ensure!(
                next_line(&stream).unwrap_or_default().is_empty(),
                "it is taken"
            );
            Ok(())
        })?;
        let text = format!(
            "the old firewall's state has an invalid \"{part}\": check that it is a Twinwall firewall"
        );
        check_error(&failed, 1, &text)?;
        tcp_ask(&mut stream)?;
    }
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    Ok(())
}

fn silent_old_one(twin: Twin) -> anyhow::Result<()> {
    let since = Instant::now();
    let ended = take_from(twin, |mut stream| {
        // Reads until the new firewall closes the connection.
        stream.read_to_end(&mut Vec::new()).map(drop)
    });
    ensure!(since.elapsed() < PATIENCE, "it took {:?}", since.elapsed());
    check(&ended?, 1, SILENT)
}

/// Returns a setting, a firewall, and a connection through it that has already carried data.
fn streaming(twin: Twin) -> anyhow::Result<(Setting, Firewall, TcpStream)> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    tcp_echo(&setting.namespace, LOCALHOST)?;
    let mut stream = tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?;
    tcp_ask(&mut stream)?;
    Ok((setting, firewall, stream))
}

/// Relays between an old firewall and a new one until the new firewall reports that it has taken the queue. Does not
/// forward this report.
fn hear_taken(stream: &UnixStream, old: UnixStream, prepared: &Said) -> anyhow::Result<()> {
    pass_on(stream, prepared)?;
    let ready = next_line(stream)?;
    ensure!(ready == COMMIT, "the new one says {ready}");
    pass_on(stream, &commit(&old, &ready)?)?;
    let taken = next_line(stream)?;
    ensure!(
        taken == "{\"command\":\"taken\"}\n",
        "the new one says {taken}"
    );
    Ok(())
}

/// Tests a new firewall whose report that it has taken the queue gets no reply: the old firewall must continue, and the
/// new one must leave the queue to it. The new one must not report its end, because it has not reported its start.
fn deaf_old_one(twin: Twin) -> anyhow::Result<()> {
    let (setting, firewall, mut stream) = streaming(twin)?;
    let events = setting.path("events");
    for new in TWINS {
        let more = ["--events", &events];
        let failed = take_by_way(&setting, new, &more, |stream, old, prepared| {
            hear_taken(&stream, old, &prepared)
        })?;
        check(&failed, 1, ENDED)?;
        let told = std::fs::read_to_string(&events)?;
        ensure!(!told.contains("stopped"), "{told}");
        tcp_ask(&mut stream)?;
    }
    let ledger = firewall.ledger()?.total;
    ensure!(ledger.lost == 0, "{ledger:?}");
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    Ok(())
}

/// Tests a new firewall whose report that it has taken the queue never arrives, and which is then killed. The queue
/// must stay with the old firewall, even if the new one has --fail crash=open.
fn killed_unheard(twin: Twin) -> anyhow::Result<()> {
    let (setting, firewall, mut stream) = streaming(twin)?;
    for new in TWINS {
        let more = ["--fail", "crash=open"];
        let killed = take_by_way(&setting, new, &more, |stream, old, prepared| {
            let kill = getsockopt(&stream, PeerCredentials)?.pid() as u32;
            hear_taken(&stream, old, &prepared)?;
            proc::signal(kill, libc::SIGKILL);
            Ok(())
        })?;
        ensure!(
            killed.signal == Some(libc::SIGKILL) && killed.stderr.is_empty(),
            "signal {:?}, stderr: {}",
            killed.signal,
            killed.stderr
        );
        tcp_ask(&mut stream)?;
    }
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    Ok(())
}

fn other_queues(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-balance 0:1")?;
    let firewall = setting.start(twin, &["--queue", "0:1"])?;
    let failed = setting.fail_to_take(twin, &[])?;
    let text = "the old firewall has the queues 0:1 and not 0:0: start with --queue 0:1";
    check(&failed, 2, text)?;
    tcp_echo(&setting.namespace, LOCALHOST)?;
    tcp_ask(&mut tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?)?;
    firewall.settled_ledger()?.total.check_clean()?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    Ok(())
}

fn classic(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let failed = setting.fail_to_take(twin, &["--backend", "classic"])?;
    let text = "the backend classic cannot take a queue over, as libnetfilter_queue opens sockets of its own only: \
                start the new firewall with --backend raw or mnl";
    check(&failed, 2, text)
}
