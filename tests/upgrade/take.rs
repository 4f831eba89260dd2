// SPDX-License-Identifier: GPL-2.0-or-later
//! The new firewall: what it takes over from is not what it should be. It ends, with one line that tells why.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use anyhow::{ensure, Context};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use twinwall_tests::case::{Row, PATIENCE};
use twinwall_tests::firewall::{run_to_end, Ended, Firewall};
use twinwall_tests::packets;
use twinwall_tests::proc;
use twinwall_tests::traffic::{tcp_ask, tcp_connect, tcp_echo};
use twinwall_tests::twin::{Twin, TWINS};

use crate::peer::{listen, pass_on, send_with, take};
use crate::setting::{Setting, LOCALHOST};

pub const ROWS: &[Row] = &[
    ("nobody-answers", 60, nobody_answers),
    ("a-stranger-answers", 120, stranger_answers),
    ("descriptors-that-are-none", 60, wrong_descriptors),
    ("an-old-one-that-is-silent", 60, silent_old_one),
    ("an-old-one-that-does-not-hear", 60, deaf_old_one),
    ("a-new-one-that-is-killed-unheard", 60, killed_unheard),
    ("other-queues", 60, other_queues),
    ("classic-cannot-take-over", 60, classic),
];

const STATE: &str = "{\"ok\":true,\"version\":1,\"pid\":1,\"generation\":1,\"queues\":[{\"queue\":0,\"copy_bytes\":128,\
                     \"flags\":4,\"stalled\":0,\"stats\":{}}],\"rules\":[]}\n";
const STRANGE: &str = "the old firewall says what no firewall would: is it one of this kind?";
const ENDED: &str = "the old firewall ended the upgrade: see what it says, and try again";
const NO_FIREWALL: &str =
    "what answers there is no firewall: give --take-over the path of a firewall's --control";

/// One line, and the exit code.
fn check(ended: &Ended, code: i32, error: &str) -> anyhow::Result<()> {
    let expected = format!("error: {error}\n");
    ensure!(
        ended.code == Some(code) && ended.stderr == expected && ended.lines.is_empty(),
        "exit code {:?}, stderr: {}, expected {expected}",
        ended.code,
        ended.stderr
    );
    Ok(())
}

/// Has a firewall take over from one who answers so.
fn take_from(
    twin: Twin,
    answer: impl FnOnce(UnixStream) -> std::io::Result<()> + Send + 'static,
) -> anyhow::Result<Ended> {
    let setting = Setting::new("--queue-num 0")?;
    let old = listen(&setting.control(), answer)?;
    let ended = setting.fail_to_take(twin, &[])?;
    // That the new one is gone before it is told all is no fault.
    let _ = old.join().expect("the old one does not panic")?;
    Ok(ended)
}

fn nobody_answers(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let path = setting.control();
    let cure = "start without --take-over, or give it the path of a running firewall's --control";
    let told = |why: &str| format!("no firewall can be asked at {path}: {why}: {cure}");
    let missing = setting.fail_to_take(twin, &[])?;
    check(&missing, 1, &told("No such file or directory"))?;
    File::create(&path)?;
    let refused = setting.fail_to_take(twin, &[])?;
    check(&refused, 1, &told("Connection refused"))
}

fn stranger_answers(twin: Twin) -> anyhow::Result<()> {
    let no_good = |part| {
        format!("the old firewall's state has no good \"{part}\": is it a firewall of this kind?")
    };
    let answers = [
        ("", ENDED.to_owned()),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", NO_FIREWALL.to_owned()),
        ("\0\u{1}\u{2}\n", NO_FIREWALL.to_owned()),
        ("{\"ok\":true}\n", no_good("version")),
        ("{\"ok\":true,\"version\":2}\n", no_good("pid")),
        (
            "{\"ok\":true,\"version\":2,\"pid\":1,\"generation\":1}\n",
            no_good("version"),
        ),
        (
            "{\"ok\":false,\"error\":\"not now: later\"}\n",
            "the old firewall gives nothing away: not now: later".to_owned(),
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

/// A file, and a netlink socket that owns no queue.
fn wrong_descriptors(twin: Twin) -> anyhow::Result<()> {
    let give = |fd: fn() -> std::io::Result<std::os::fd::OwnedFd>| {
        take_from(twin, move |mut stream| {
            stream.write_all(STATE.as_bytes())?;
            send_with(&stream, "{\"fd\":\"queue:0\"}\n", fd()?.as_raw_fd())?;
            send_with(&stream, "{\"fd\":\"later\"}\n", fd()?.as_raw_fd())?;
            stream.write_all(b"{\"fd\":null}\n")
        })
    };
    let netlink = || packets::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER);
    let stranger = give(netlink)?;
    let text =
        "the socket that was handed over for queue 0 does not own it: start without --take-over";
    check(&stranger, 5, text)?;
    let file = give(|| Ok(File::open("/dev/null")?.into()))?;
    let text = "what was handed over for queue 0 is no netlink socket: start without --take-over";
    check(&file, 1, text)
}

fn silent_old_one(twin: Twin) -> anyhow::Result<()> {
    let since = Instant::now();
    let ended = take_from(twin, |mut stream| {
        // Until the new one closes.
        stream.read_to_end(&mut Vec::new()).map(drop)
    });
    ensure!(since.elapsed() < PATIENCE, "it took {:?}", since.elapsed());
    let text = "the old firewall does not go on with the upgrade: see what it says, and try again";
    check(&ended?, 1, text)
}

/// A firewall with a connection through it that has been used.
fn streaming(twin: Twin) -> anyhow::Result<(Setting, Firewall, TcpStream)> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    tcp_echo(&setting.namespace, LOCALHOST)?;
    let mut stream = tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?;
    tcp_ask(&mut stream)?;
    Ok((setting, firewall, stream))
}

/// The new one says that it has taken the queue, and is not told that this was heard: the old one goes on, and the new
/// one leaves the queue to it.
fn deaf_old_one(twin: Twin) -> anyhow::Result<()> {
    let (setting, firewall, mut stream) = streaming(twin)?;
    for new in TWINS {
        let (old, lines, fds) = take(&setting.control())?;
        let between = setting.path("between");
        let deaf = listen(&between, move |stream| -> std::io::Result<()> {
            pass_on(&stream, &lines, &fds)?;
            BufReader::new(&stream).read_line(&mut String::new())?;
            drop(fds);
            Ok(())
        })?;
        let arguments = ["--take-over", &between];
        let failed = run_to_end(&setting.namespace, &[], new, &arguments)?;
        deaf.join().expect("the one between does not panic")??;
        std::fs::remove_file(&between)?;
        check(&failed, 1, ENDED)?;
        drop(old);
        tcp_ask(&mut stream)?;
    }
    let ledger = firewall.ledger()?.total;
    ensure!(ledger.lost == 0, "{ledger:?}");
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    Ok(())
}

/// The new one is killed when it has said that it took the queue, before that is heard: whatever its contract says of a
/// crash, the queue is the old one's.
fn killed_unheard(twin: Twin) -> anyhow::Result<()> {
    let (setting, firewall, mut stream) = streaming(twin)?;
    for new in TWINS {
        let (old, lines, fds) = take(&setting.control())?;
        let between = setting.path("between");
        let killer = listen(&between, move |stream| -> std::io::Result<()> {
            pass_on(&stream, &lines, &fds)?;
            BufReader::new(&stream).read_line(&mut String::new())?;
            proc::signal(
                getsockopt(&stream, PeerCredentials)?.pid() as u32,
                libc::SIGKILL,
            );
            drop(fds);
            Ok(())
        })?;
        let arguments = ["--take-over", &between, "--fail", "crash=open"];
        // Its guard would keep stderr open.
        let killed = run_to_end(&setting.namespace, &[], new, &arguments)?;
        killer.join().expect("the one between does not panic")??;
        std::fs::remove_file(&between)?;
        ensure!(
            killed.signal == Some(libc::SIGKILL) && killed.stderr.is_empty(),
            "signal {:?}, stderr: {}",
            killed.signal,
            killed.stderr
        );
        drop(old);
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
