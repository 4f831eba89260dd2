// SPDX-License-Identifier: GPL-2.0-or-later
//! The old firewall in an upgrade: after any failure of the new firewall it continues, and reports the reason.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::firewall::{run_to_end, Ended, Firewall, GONE, TOO_SLOW};
use testbed::ledger::Stats;
use testbed::packets::force_send_buffer;
use testbed::place::LOCALHOST;
use testbed::proc;
use testbed::traffic::{tcp_ask, tcp_connect, tcp_echo, udp_client, udp_send, UdpServer};
use testbed::twin::{Twin, TWINS};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::peer::{listen_to_proof, netlink, Peer, REQUEST};
use super::setting::{check_said, Setting, SILENT};

pub const ROWS: &[Row] = &[
    ("new-one-ends", new_one_ends),
    ("new-one-ends-amid-the-state", new_one_ends_amid),
    ("new-one-is-silent", new_one_is_silent),
    ("new-one-is-not-ready", new_one_is_not_ready),
    ("new-one-does-not-read", new_one_does_not_read),
    ("new-one-says-something-else", new_one_says_something_else),
    ("new-one-fails-for-its-policy", new_one_fails),
    ("new-one-fails-with-everything-in-hand", new_one_fails_late),
    ("one-upgrade-at-a-time", one_at_a_time),
    ("no-reload-meanwhile", no_reload),
    ("told-to-stop-meanwhile", told_to_stop),
    ("refuses-classic", refuses_classic),
    ("refuses-another-version", refuses_version),
    ("who-may-not-take-over", who_may_not),
    ("once-given-nothing-else-is-served", nothing_else_served),
];

/// Time for which the old firewall waits until the new firewall is ready.
const PREPARE: Duration = Duration::from_secs(15);
/// Time for which the old firewall waits until the new firewall has taken over the paused queues.
const PAUSE: Duration = Duration::from_secs(2);
/// Number of datagrams that are sent while the old firewall prepares or is paused.
const WAITING: u64 = 500;

const STRANGE: &str =
    "warning: upgrade: this firewall goes on: the new firewall sent an unexpected message: check \
     that it is a Twinwall firewall\n";

/// Stage of the upgrade at which the stand-in makes it fail.
#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    Preparing,
    Paused,
}

const ALWAYS: [When; 2] = [When::Preparing, When::Paused];

impl When {
    /// Returns the time for which the old firewall waits at this stage.
    fn limit(self) -> Duration {
        match self {
            When::Preparing => PREPARE,
            When::Paused => PAUSE,
        }
    }
}

/// Makes an upgrade fail. Checks that the old firewall answers all datagrams: at once, or if it has paused, when it
/// continues. Returns the output of the old firewall, and the time from the start of the stage to the failure. Returns
/// None if this time exceeds `limit`, or if the old firewall may have ended its pause before `play`.
/// - play: makes the stand-in for the new firewall fail; if it returns without that, the stand-in disconnects.
fn try_to_fail(
    twin: Twin,
    when: When,
    limit: Duration,
    play: impl FnOnce(&mut Peer) -> anyhow::Result<()>,
) -> anyhow::Result<Option<(Ended, Duration)>> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    tcp_echo(&setting.namespace, LOCALHOST)?;
    let mut stream = tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?;
    tcp_ask(&mut stream)?;
    let server = UdpServer::start(&setting.namespace, LOCALHOST, false)?;
    let client = udp_client(&setting.namespace, LOCALHOST)?;
    force_send_buffer(&client, 16 << 20)?;
    let mut peer = Peer::connect(&setting)?;
    let mut since = Instant::now();
    peer.ask()?;
    if when == When::Paused {
        since = Instant::now();
        peer.commit()?;
    }
    udp_send(&client, WAITING, 18)?;
    match when {
        When::Preparing => server.check_arrived(WAITING)?,
        When::Paused => {
            let arrived = server.arrived()?;
            if since.elapsed() >= PAUSE {
                return Ok(None);
            }
            ensure!(arrived == 0, "the old firewall still filters");
        }
    }
    let played = play(&mut peer);
    drop(peer);
    let took = since.elapsed();
    if took >= limit {
        return Ok(None);
    }
    played?;
    server.check_arrived(WAITING)?;
    tcp_ask(&mut stream)?;
    let stats = firewall.settled_ledger()?;
    stats.total.check_clean()?;
    Ok(Some((firewall.end_by(libc::SIGTERM)?, took)))
}

/// Repeats `try_to_fail` until the stand-in is in time.
fn fail_within(
    twin: Twin,
    when: When,
    limit: Duration,
    play: impl Fn(&mut Peer) -> anyhow::Result<()>,
) -> anyhow::Result<(Ended, Duration)> {
    let mut failed = None;
    until("the upgrade fails in time", PATIENCE, || {
        failed = try_to_fail(twin, when, limit, &play)?;
        Ok(failed.is_some())
    })?;
    failed.context("no upgrade has failed")
}

/// Makes an upgrade fail while the old firewall waits. Returns the output of the old firewall.
/// - play: as for `try_to_fail`.
fn fail(
    twin: Twin,
    when: When,
    play: impl Fn(&mut Peer) -> anyhow::Result<()>,
) -> anyhow::Result<Ended> {
    Ok(fail_within(twin, when, when.limit(), play)?.0)
}

fn new_one_ends(twin: Twin) -> anyhow::Result<()> {
    for when in ALWAYS {
        check_said(&fail(twin, when, |_| Ok(()))?, GONE)?;
    }
    Ok(())
}

/// Tests a new firewall that ends before it has read the old firewall's data.
fn new_one_ends_amid(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    tcp_echo(&setting.namespace, LOCALHOST)?;
    let mut stream = tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?;
    for _ in 0..20 {
        let mut peer = Peer::connect(&setting)?;
        peer.prove()?;
        peer.say(REQUEST)?;
        drop(peer);
        tcp_ask(&mut stream)?;
    }
    firewall.settled_ledger()?.total.check_clean()?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    Ok(())
}

/// Makes the new firewall send nothing more. Checks that the old firewall waits for about the time of the stage, and
/// then ends the upgrade.
fn wait_for(twin: Twin, when: When) -> anyhow::Result<()> {
    let limit = when.limit();
    let (ended, took) = fail_within(twin, when, 2 * limit, |peer| {
        let end = peer.hear();
        ensure!(end.is_err(), "the old firewall said {end:?}");
        Ok(())
    })?;
    ensure!(took > limit / 2, "the old firewall waited {took:?}");
    check_said(&ended, TOO_SLOW)
}

/// Checks that an old firewall that has paused waits for about PAUSE if the new firewall is silent.
fn new_one_is_silent(twin: Twin) -> anyhow::Result<()> {
    wait_for(twin, When::Paused)
}

fn new_one_is_not_ready(twin: Twin) -> anyhow::Result<()> {
    wait_for(twin, When::Preparing)
}

/// Tests a new firewall that reads nothing, with so many queues that their description exceeds the socket's buffer. The
/// old firewall must serve other clients.
fn new_one_does_not_read(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-balance 0:255")?;
    let firewall = setting.start(twin, &["--queue", "0:255", "--receive-buffer", "65536"])?;
    let mut peer = Peer::connect(&setting)?;
    peer.prove()?;
    peer.say(REQUEST)?;
    let mut other = Peer::connect(&setting)?;
    other.say("{\"command\":\"status\"}\n")?;
    ensure!(other.hear()?["ok"] == true, "no status");
    drop(peer);
    tcp_echo(&setting.namespace, LOCALHOST)?;
    tcp_ask(&mut tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?)?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    Ok(())
}

fn new_one_says_something_else(twin: Twin) -> anyhow::Result<()> {
    for (when, line) in [
        (When::Preparing, "GET / HTTP/1.1\n"),
        (When::Preparing, "{\"command\":\"taken\"}\n"),
        (When::Preparing, "\n"),
        (When::Paused, "{\"command\":\"commit\"}\n"),
        (When::Paused, "{}\n"),
        (When::Paused, "\n"),
    ] {
        let ended = fail(twin, when, |peer| {
            peer.say(line)?;
            ensure!(peer.hear().is_err(), "the old firewall answers {line}");
            Ok(())
        })?;
        check_said(&ended, STRANGE)?;
    }
    Ok(())
}

/// Tests a new firewall that fails before its request, because of its policy.
fn new_one_fails(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    let policy = setting.policy("policy.nft", &["table inet filter {"])?;
    for new in TWINS {
        let failed = setting.fail_to_take(new, &["--policy", &policy])?;
        ensure!(failed.code == Some(2), "exit code {:?}", failed.code);
    }
    tcp_echo(&setting.namespace, LOCALHOST)?;
    tcp_ask(&mut tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?)?;
    firewall.finish()?.total.check_clean()
}

/// Tests a new firewall that fails before "commit", because it can't open its destination of events. It has already
/// received the old firewall's descriptors and the first part of its state.
fn new_one_fails_late(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    let control = setting.control();
    let arguments = ["--events", "/none/events", "--control", &control];
    for new in TWINS {
        let failed = setting.fail_to_take(new, &arguments)?;
        ensure!(failed.code != Some(0), "exit code {:?}", failed.code);
    }
    // The control socket of the old firewall is still in place.
    let mut peer = Peer::connect(&setting)?;
    peer.say("{\"command\":\"status\"}\n")?;
    let status = peer.hear()?;
    ensure!(status["counts"]["upgrades_failed"] == 2, "{status}");
    drop(peer);
    tcp_echo(&setting.namespace, LOCALHOST)?;
    tcp_ask(&mut tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?)?;
    firewall.settled_ledger()?.total.check_clean()?;
    check_said(&firewall.end_by(libc::SIGTERM)?, &[GONE, GONE].concat())
}

const BUSY: &str = "another firewall is about to take over";

/// Waits until the old firewall has counted this number of failed upgrades.
fn until_failed(setting: &Setting, failed: u64) -> anyhow::Result<()> {
    until(&format!("{failed} upgrades failed"), PATIENCE, || {
        let mut asking = Peer::connect(setting)?;
        asking.say("{\"command\":\"status\"}\n")?;
        Ok(asking.hear()?["counts"]["upgrades_failed"] == failed)
    })
}

/// Makes a stand-in begin an upgrade, and then a new firewall request one. The old firewall does not wait long for the
/// stand-in, so the new firewall sends its request to another stand-in, which does the rest when the request is there.
/// Returns the output of the new firewall.
fn ask_meanwhile(setting: &Setting, new: Twin) -> anyhow::Result<Ended> {
    let (mut first, mut other) = (Peer::connect(setting)?, Peer::connect(setting)?);
    let between = setting.path("between");
    let asking = listen_to_proof(setting, &between, move |mut stream| -> anyhow::Result<()> {
        first.ask()?;
        other.prove()?;
        other.say(REQUEST)?;
        Ok(stream.write_all(other.line()?.as_bytes())?)
    })?;
    let ended = run_to_end(&setting.namespace, &[], new, &["--take-over", &between])?;
    let asked = asking.join().expect("the one between does not panic")?;
    std::fs::remove_file(&between)?;
    // The new firewall may have ended before the answer.
    if !ended.stderr.contains(SILENT) {
        asked??;
    }
    Ok(ended)
}

/// Checks that a second request during an upgrade is refused with the reason BUSY, and that the control socket and
/// packets are served meanwhile.
fn one_at_a_time(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    tcp_echo(&setting.namespace, LOCALHOST)?;
    let mut first = Peer::connect(&setting)?;
    first.ask()?;
    let mut second = Peer::connect(&setting)?;
    second.prove()?;
    second.say(REQUEST)?;
    let answer = second.hear()?;
    let told = format!("{BUSY}: try again when that is done or has failed");
    ensure!(answer["ok"] == false && answer["error"] == told, "{answer}");
    tcp_ask(&mut tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?)?;
    drop(first);
    until("the first has failed", PATIENCE, || {
        second.say("{\"command\":\"status\"}\n")?;
        Ok(second.hear()?["counts"]["upgrades_failed"] == 1)
    })?;
    drop(second);
    let mut begun = 1;
    for new in TWINS {
        let expected = format!("error: the old firewall refuses the upgrade: {told}\n");
        until("the new firewall hears in time", PATIENCE, || {
            let failed = ask_meanwhile(&setting, new)?;
            begun += 1;
            until_failed(&setting, begun)?;
            let is_late = failed.stderr.contains(SILENT);
            ensure!(
                failed.code == Some(1) && (is_late || failed.stderr == expected),
                "{}",
                failed.stderr
            );
            Ok(!is_late)
        })?;
    }
    let mut last = Peer::connect(&setting)?;
    last.ask()?;
    drop(last);
    begun += 1;
    until_failed(&setting, begun)?;
    firewall.settled_ledger()?.total.check_clean()?;
    check_said(
        &firewall.end_by(libc::SIGTERM)?,
        &GONE.repeat(begun as usize),
    )
}

/// Checks that a reload during an upgrade is refused: the policy whose rules are sent to the new firewall must stay
/// until the new firewall has them.
fn no_reload(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let policy = setting.policy("policy.nft", &["table inet t { }"])?;
    let firewall = setting.start(twin, &["--policy", &policy])?;
    let mut peer = Peer::connect(&setting)?;
    peer.ask()?;
    let mut asking = Peer::connect(&setting)?;
    asking.say("{\"command\":\"reload\"}\n")?;
    let answer = asking.hear()?;
    let told = format!("{BUSY}: reload when that is done or has failed");
    ensure!(answer["ok"] == false && answer["error"] == told, "{answer}");
    drop(peer);
    until("the upgrade has failed", PATIENCE, || {
        asking.say("{\"command\":\"reload\"}\n")?;
        Ok(asking.hear()?["ok"] == true)
    })?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    let refused = format!("error: reload: {told}: the policy stays as it was\n");
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    ensure!(ended.stderr.starts_with(&refused), "{}", ended.stderr);
    ensure!(ended.stderr.ends_with(GONE), "{}", ended.stderr);
    Ok(())
}

fn told_to_stop(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    let mut peer = Peer::connect(&setting)?;
    peer.ask()?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    let told =
        "warning: upgrade: this firewall was told to end: start the new one without --take-over\n";
    check_said(&ended, told)?;
    let last = Stats::parse(ended.lines.last().map_or("", String::as_str))?;
    ensure!(last.reason == "exit" && last.reconciled, "{last:?}");
    ensure!(peer.hear().is_err(), "the old one still speaks");
    Ok(())
}

/// Checks that no data is sent to a new firewall that can't take over with its backend.
fn refuses_classic(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &["--backend", "classic"])?;
    let mut peer = Peer::connect(&setting)?;
    peer.prove()?;
    peer.say("{\"command\":\"upgrade\",\"version\":2,\"backend\":\"classic\"}\n")?;
    let answer = peer.hear()?;
    let error = answer["error"].as_str().unwrap_or_default();
    ensure!(
        answer["ok"] == false
            && error.ends_with("start the new firewall with --backend raw or mnl"),
        "{answer}"
    );
    finish(firewall)
}

fn refuses_version(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let firewall = setting.start(twin, &[])?;
    let mut peer = Peer::connect(&setting)?;
    peer.say("{\"command\":\"upgrade\",\"version\":1,\"backend\":\"raw\"}\n")?;
    let answer = peer.hear()?;
    let told =
        "\"version\": expected 2: stop this firewall, and start the new one without --take-over";
    ensure!(answer["ok"] == false && answer["error"] == told, "{answer}");
    finish(firewall)
}

fn finish(firewall: Firewall) -> anyhow::Result<()> {
    firewall.finish()?.total.check_clean()
}

/// User id of neither root nor the firewall; GROUP is a group id of neither.
const USER: u32 = 4711;
const GROUP: u32 = 4712;
/// User id of the firewall with `--user daemon`.
const DAEMON: u32 = 1;

/// Runs `work` as a user without any capability, on a separate thread.
fn as_user<T: Send>(uid: u32, gid: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the raw calls change this thread only, and touch no memory.
            let results = unsafe {
                [
                    libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()),
                    libc::syscall(libc::SYS_setresgid, gid, gid, gid),
                    libc::syscall(libc::SYS_setresuid, uid, uid, uid),
                ]
            };
            assert_eq!(results, [0; 3], "root can be anybody");
            work()
        });
        thread.join().expect("no panic")
    })
}

/// Requests an upgrade; returns the error reply.
fn refusal(peer: &mut Peer) -> anyhow::Result<String> {
    peer.say(REQUEST)?;
    let answer = peer.hear()?;
    ensure!(answer["ok"] == false, "{answer}");
    Ok(answer["error"].as_str().unwrap_or_default().to_owned())
}

/// Checks who may not take over: a member of the socket's group; the firewall's own user and root, without proof of
/// CAP_NET_ADMIN; and a client for which another process has sent the proof. Packets are answered meanwhile.
fn who_may_not(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let owner = format!("0:{GROUP}");
    let more = ["--control-mode", "0666", "--control-owner", &owner];
    let firewall = setting.start(twin, &[&more[..], &["--user", "daemon"]].concat())?;
    tcp_echo(&setting.namespace, LOCALHOST)?;
    let mut stream = tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?;

    let ask_as = |uid: u32, gid: u32| -> anyhow::Result<String> {
        let socket = netlink(&setting)?;
        as_user(uid, gid, || {
            let mut peer = Peer::connect_with(&setting, socket)?;
            ensure!(peer.prove().is_err(), "the kernel lets anybody prove it");
            refusal(&mut peer)
        })
    };
    let member = ask_as(USER, GROUP)?;
    let told = format!(
        "user {USER} may not take over: start the new firewall as root or as this firewall's user; \
         being in the socket's group is not enough"
    );
    ensure!(member == told, "{member}");
    tcp_ask(&mut stream)?;

    let unproven = format!(
        "pid {} has not shown CAP_NET_ADMIN: start a firewall with --take-over, which does",
        std::process::id()
    );
    let own_user = ask_as(DAEMON, DAEMON)?;
    ensure!(own_user == unproven, "{own_user}");
    let mut root = Peer::connect(&setting)?;
    ensure!(refusal(&mut root)? == unproven);
    root.prove_by_another_process()?;
    ensure!(refusal(&mut root)? == unproven, "another's proof does");
    // A proof is valid only for the connection on which it was requested.
    let mut other = Peer::connect(&setting)?;
    other.prove()?;
    ensure!(
        refusal(&mut root)? == unproven,
        "another connection's proof does"
    );
    tcp_ask(&mut stream)?;

    other.say("{\"command\":\"status\"}\n")?;
    let status = other.hear()?;
    ensure!(status["counts"]["control_refused"] == 5, "{status}");
    ensure!(status["counts"]["upgrades_failed"] == 0, "{status}");
    drop((root, other));
    firewall.settled_ledger()?.total.check_clean()?;
    check_said(&firewall.end_by(libc::SIGTERM)?, "")
}

/// Sends requests at the moment when a new firewall has taken over. Whatever the replies, the new firewall keeps the
/// queues and the control socket, and the old firewall ends normally.
fn nothing_else_served(twin: Twin) -> anyhow::Result<()> {
    until("the queues are taken in time", PATIENCE, || {
        ask_when_taken(twin)
    })
}

/// Does the same as `nothing_else_served`. Returns false if more than PAUSE passed before the old firewall ended the
/// upgrade.
fn ask_when_taken(twin: Twin) -> anyhow::Result<bool> {
    let setting = Setting::new("--queue-num 0")?;
    let mut firewall = setting.start(twin, &[])?;
    let mut taker = Peer::connect(&setting)?;
    taker.ask()?;
    let requests = [
        REQUEST,
        "{\"command\":\"reload\"}\n",
        "{\"command\":\"drain\",\"seconds\":0}\n",
    ];
    let mut asking = Vec::new();
    for _ in requests {
        let mut peer = Peer::connect(&setting)?;
        peer.prove()?;
        asking.push(peer);
    }
    let since = Instant::now();
    taker.commit()?;
    // The old firewall is stopped, so that it then reads all requests in one round.
    proc::signal(firewall.pid, libc::SIGSTOP);
    for (peer, request) in asking.iter_mut().zip(requests) {
        peer.say(request)?;
    }
    let mut knocking = Peer::connect(&setting)?;
    knocking.say("{\"command\":\"status\"}\n")?;
    taker.say("{\"command\":\"taken\"}\n")?;
    proc::signal(firewall.pid, libc::SIGCONT);
    let taken = taker.hear();
    if taken.is_err() && since.elapsed() >= PAUSE {
        return Ok(false);
    }
    ensure!(taken?["ok"] == true);
    if let Ok(answer) = asking[0].hear() {
        ensure!(answer["ok"] == false, "two took it: {answer}");
    }
    let file = std::fs::symlink_metadata(setting.control());
    until("the old firewall ends", PATIENCE, || {
        Ok(!firewall.is_running()?)
    })?;
    let left = std::fs::symlink_metadata(setting.control());
    ensure!(
        file?.ino() == left.context("the control socket is gone")?.ino(),
        "another control socket"
    );
    let ended = firewall.wait()?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    let last = Stats::parse(ended.lines.last().map_or("", String::as_str))?;
    ensure!(last.reason == "exit" && last.reconciled, "{last:?}");
    Ok(true)
}
