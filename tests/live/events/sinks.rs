// SPDX-License-Identifier: GPL-2.0-or-later
//! Sinks of events that are moved, full, slow, or gone: no line is truncated, each lost line is counted, and no packet
//! waits.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::control::Client;
use testbed::firewall::{Ended, Firewall};
use testbed::ledger::Stats;
use testbed::place::LOCALHOST;
use testbed::proc;
use testbed::traffic::UdpFlood;
use testbed::twin::Twin;
use testbed::wait::{pause_for, until, PATIENCE};
use twinwall_tests::case::Row;

use super::running::{
    check_ledger, count_type, is_own, is_type, lines_of, missed, parsed, send, wait_for,
    wait_for_drops, Place, DROPPED,
};

pub const ROWS: &[Row] = &[
    ("rotation-under-load-loses-no-line", rotation),
    ("a-file-that-can-not-be-opened-anew-goes-on", no_rotation),
    ("a-full-disk-is-told-and-waited-for", full_disk),
    ("a-folder-that-vanishes-is-told-and-waited-for", vanished),
    (
        "a-listener-that-stops-reading-keeps-nobody-waiting",
        listener,
    ),
    ("stdout-has-whole-lines-between-the-reports", stdout),
    ("a-file-without-a-folder-is-refused", refused),
];

const ALL: &[&str] = &["--events-rate", "1000000"];

/// Sends packets that the policy drops, slowly enough for the queue's buffer.
fn drops(place: &Place, packets: u64) -> anyhow::Result<()> {
    let client = place.client()?;
    for packet in 1..=packets {
        send(&client, DROPPED, 1);
        if packet % 100 == 0 {
            pause_for(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// Ends an idle firewall, which may have logged warnings. Returns its output and its last ledger.
fn end(firewall: Firewall) -> anyhow::Result<(Ended, Stats)> {
    firewall.settled_ledger()?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "{:?}: {}", ended.code, ended.stderr);
    let stats = Stats::parse(ended.lines.last().context("no ledger at exit")?)?;
    Ok((ended, stats))
}

/// Checks that every dropped packet has a line, or is reported as lost.
fn check_all_told(lines: &[Value], drops: u64) -> anyhow::Result<()> {
    let (written, lost) = (count_type(lines, "drop"), missed(lines, "lost"));
    ensure!(
        written + lost == drops,
        "{written} written and {lost} lost of {drops}"
    );
    Ok(())
}

fn rotation(twin: Twin) -> anyhow::Result<()> {
    const ROTATIONS: u32 = 20;
    let place = Place::new()?;
    let events = place.path("events.json");
    let firewall = place.start(twin, &events, ALL)?;
    let owner = fs::metadata(&events)?;
    ensure!(owner.mode() & 0o777 == 0o640, "mode {:o}", owner.mode());
    ensure!(owner.uid() != 0, "the file stays root's");
    let client = place.client()?;
    client.connect((LOCALHOST, DROPPED))?;
    let flood = UdpFlood::paced(client, Duration::from_millis(2));
    for turn in 0..ROTATIONS {
        wait_for(&events, "a drop", |line| is_type(line, "drop"))?;
        fs::rename(&events, place.path(&format!("events.{turn}")))?;
        proc::signal(firewall.pid, libc::SIGUSR2);
        until("the file is opened anew", PATIENCE, || {
            Ok(fs::metadata(&events).is_ok())
        })?;
    }
    flood.stop();
    let stats = firewall.finish()?;
    let dropped = stats.total.verdict("drop");
    let mut lines = lines_of(&events)?;
    let mut files_with_drops = 0;
    for turn in 0..ROTATIONS {
        let part = lines_of(place.path(&format!("events.{turn}")))?;
        files_with_drops += u32::from(count_type(&part, "drop") > 0);
        lines.extend(part);
    }
    ensure!(
        files_with_drops == ROTATIONS,
        "{files_with_drops} files with drops"
    );
    check_all_told(&lines, dropped)
}

fn no_rotation(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let folder = place.path("events");
    fs::create_dir(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
    let events = format!("{folder}/events.json");
    let firewall = place.start(twin, &events, ALL)?;
    // The firewall's user can no longer create files in this folder.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    let moved = format!("{folder}/events.1");
    fs::rename(&events, &moved)?;
    drops(&place, 10)?;
    wait_for_drops(&moved, 10)?;
    proc::signal(firewall.pid, libc::SIGUSR2);
    drops(&place, 10)?;
    wait_for_drops(&moved, 20)?;
    let (ended, stats) = end(firewall)?;
    check_ledger(&stats, "drop", 20)?;
    let warning = format!(
        "warning: events: {events}: Permission denied: it could not be reopened, the old file stays in use\n"
    );
    ensure!(ended.stderr == warning, "{}", ended.stderr);
    ensure!(!fs::exists(&events)?);
    Ok(())
}

/// Mounted file system, unmounted on drop.
struct Disk(CString);

impl Drop for Disk {
    fn drop(&mut self) {
        // SAFETY: the string lives through the call.
        unsafe { libc::umount2(self.0.as_ptr(), libc::MNT_DETACH) };
    }
}

const DISK_BYTES: usize = 256 << 10;

/// Mounts a file system of DISK_BYTES. The mount is visible only to this thread and its children.
fn mount_small(folder: &str) -> anyhow::Result<Disk> {
    let call = |result: i32, what: &str| -> anyhow::Result<()> {
        let error = std::io::Error::last_os_error();
        ensure!(result == 0, "{what}: {error}");
        Ok(())
    };
    let (root, target) = (CString::new("/")?, CString::new(folder)?);
    let (kind, options) = (
        CString::new("tmpfs")?,
        CString::new(format!("size={DISK_BYTES},mode=0777"))?,
    );
    let private = libc::MS_REC | libc::MS_PRIVATE;
    let null = std::ptr::null();
    // SAFETY: the strings live through the calls, which receive no other pointers.
    unsafe {
        call(libc::unshare(libc::CLONE_NEWNS), "unshare")?;
        let result = libc::mount(null, root.as_ptr(), null, private, null.cast());
        call(result, "make mounts private")?;
        let result = libc::mount(
            kind.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            0,
            options.as_ptr().cast(),
        );
        call(result, "mount tmpfs")?;
    }
    Ok(Disk(target))
}

fn full_disk(twin: Twin) -> anyhow::Result<()> {
    const PACKETS: u64 = 6000;
    let place = Place::new()?;
    let disk = place.path("disk");
    fs::create_dir(&disk)?;
    let _disk = mount_small(&disk)?;
    let filler = format!("{disk}/filler");
    fs::write(&filler, vec![0; 200 << 10])?;
    let events = format!("{disk}/events.json");
    let firewall = place.start(twin, &events, ALL)?;
    // The firewall buffers lines that don't fit into the file, and counts those that don't fit into the buffer.
    drops(&place, PACKETS)?;
    check_ledger(&firewall.settled_ledger()?, "drop", PACKETS)?;
    until("the disk is full", PATIENCE, || {
        Ok(fs::metadata(&events)?.len() == 56 << 10)
    })?;
    let text = fs::read_to_string(&events)?;
    ensure!(
        !text.ends_with('\n'),
        "the last line was not cut: the test proves nothing"
    );
    // To make room, the data is moved to a larger file system.
    let kept = place.path("kept");
    fs::remove_file(&filler)?;
    let mut sent = PACKETS;
    until(
        "the disk takes lines again, and has them all",
        PATIENCE,
        || {
            // The disk is small, so the data is moved whenever the disk is full.
            let text = fs::read_to_string(&events)?;
            if text.len() == DISK_BYTES {
                take_away(&events, &kept)?;
                return Ok(false);
            }
            let all = fs::read_to_string(&kept).unwrap_or_default() + &text;
            if !all.ends_with('\n') || !all.contains("\"event\":\"lost\"") {
                return Ok(false);
            }
            let lines: Vec<Value> = all.lines().map(parsed).collect::<anyhow::Result<_>>()?;
            Ok(check_all_told(&lines, sent).is_ok())
        },
    )?;
    take_away(&events, &kept)?;
    drops(&place, 10)?;
    sent += 10;
    wait_for(&events, "goes on", |line| is_type(line, "drop"))?;
    let (ended, stats) = end(firewall)?;
    check_ledger(&stats, "drop", sent)?;
    take_away(&events, &kept)?;
    check_all_told(&lines_of(&kept)?, sent)?;
    let mut warnings = ended.stderr.lines();
    let begin = format!("warning: events: {events}: No space left on device: ");
    ensure!(
        warnings.next().is_some_and(|line| line.starts_with(&begin)),
        "{}",
        ended.stderr
    );
    ensure!(
        ended.stderr.contains("takes events again"),
        "{}",
        ended.stderr
    );
    Ok(())
}

/// Moves the text of the firewall's event file `from` to the end of the file `to`.
fn take_away(from: &str, to: &str) -> anyhow::Result<()> {
    use std::io::Write;
    // This is correct only while the firewall does not write: what is removed must be what was read.
    let mut file = fs::OpenOptions::new().append(true).create(true).open(to)?;
    let text = fs::read(from)?;
    file.write_all(&text)?;
    fs::OpenOptions::new().write(true).open(from)?.set_len(0)?;
    Ok(())
}

fn vanished(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let folder = place.path("events");
    let make = || -> anyhow::Result<()> {
        fs::create_dir(&folder)?;
        Ok(fs::set_permissions(
            &folder,
            fs::Permissions::from_mode(0o777),
        )?)
    };
    make()?;
    let events = format!("{folder}/events.json");
    let firewall = place.start(twin, &events, &[ALL, &["--sandbox", "off"]].concat())?;
    drops(&place, 10)?;
    wait_for_drops(&events, 10)?;
    // The firewall creates a deleted file again, without a warning.
    fs::remove_file(&events)?;
    drops(&place, 10)?;
    wait_for_drops(&events, 10)?;
    fs::remove_dir_all(&folder)?;
    drops(&place, 100)?;
    check_ledger(&firewall.settled_ledger()?, "drop", 120)?;
    until("the firewall misses the folder", PATIENCE, || {
        Ok(firewall.has_said("No such file or directory"))
    })?;
    make()?;
    wait_for_drops(&events, 100)?;
    let (ended, stats) = end(firewall)?;
    check_ledger(&stats, "drop", 120)?;
    let warnings = format!(
        "warning: events: {events}: No such file or directory: events are kept as far as there is room, then \
         counted\nwarning: events: {events} takes events again: 0 were lost\n"
    );
    ensure!(ended.stderr == warnings, "{}", ended.stderr);
    Ok(())
}

/// Reads a connection on a thread. Returns a channel with its lines as they arrive.
fn read_lines(stream: UnixStream) -> Receiver<Value> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = send.send(parsed(&line).unwrap_or_else(|error| error.to_string().into()));
        }
    });
    receive
}

fn listener(twin: Twin) -> anyhow::Result<()> {
    // The lines for so many packets exceed a sink's buffer twice.
    const PACKETS: u64 = 16_000;
    const SLOW: &str = "it takes them too slowly";
    let place = Place::new()?;
    let path = place.path("listener");
    let listen = || -> anyhow::Result<UnixListener> {
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
        Ok(listener)
    };
    let unix = format!("unix:{path}");
    // At this time the listener does not exist.
    let control = place.path("control");
    let more = [ALL, &["--control", &control]].concat();
    let firewall = place.start(twin, &unix, &more)?;
    drops(&place, 1)?;
    let first = listen()?;
    let mut stream = BufReader::new(first.accept()?.0);
    let mut line = String::new();
    stream.get_ref().set_read_timeout(Some(PATIENCE))?;
    while !line.contains("\"drop\"") {
        line.clear();
        stream.read_line(&mut line)?;
    }
    // From now on the listener does not read. On a busy machine events are lost before they reach the sink's buffer.
    let mut packets = 1;
    until("events are lost", PATIENCE, || {
        drops(&place, PACKETS)?;
        packets += PACKETS;
        check_ledger(&firewall.settled_ledger()?, "drop", packets)?;
        let status = Client::new(&control)?.command("status")?;
        Ok(status["counts"]["events_failed"].as_u64() > Some(0))
    })?;
    until("the warning is written", PATIENCE, || {
        Ok(firewall.has_said(SLOW))
    })?;
    // The listener closes in the middle of a line, and a new one opens.
    let mut half = [0; 100];
    stream.read_exact(&mut half)?;
    drop((stream, first));
    fs::remove_file(&path)?;
    let second = listen()?;
    let reader = read_lines(second.accept()?.0);
    let mut lines = Vec::new();
    let is_sink_loss = |line: &Value| is_own(line, "lost") && line["twinwall"]["text"] == "sink";
    while !lines.last().is_some_and(is_sink_loss) {
        lines.push(reader.recv_timeout(PATIENCE)?);
    }
    let (ended, stats) = end(firewall)?;
    check_ledger(&stats, "drop", packets)?;
    lines.extend(reader);
    // Lines in the first listener's socket are lost with it. All lines that the second one gets are complete.
    ensure!(lines.iter().all(Value::is_object), "{:?}", lines.last());
    ensure!(count_type(&lines, "drop") > 1000 && missed(&lines, "lost") > 0);
    ensure!(lines.iter().any(|line| is_own(line, "stopped")));
    for text in ["No such file or directory", "takes events again", SLOW] {
        ensure!(
            ended.stderr.contains(text),
            "no \"{text}\": {}",
            ended.stderr
        );
    }
    Ok(())
}

fn stdout(twin: Twin) -> anyhow::Result<()> {
    const REPORTS: u64 = 50;
    const DROPS: u64 = 1 + 19 * REPORTS; // fewer than --events-rate
    let place = Place::new()?;
    let firewall = place.start(twin, "-", ALL)?;
    let client = place.client()?;
    let mut kinds = BTreeMap::<String, u64>::new();
    let mut read_until = |wanted: &str, count: u64| -> anyhow::Result<()> {
        while kinds.get(wanted) < Some(&count) {
            let line = parsed(&firewall.line()?)?;
            let kind = line["event_type"].as_str().unwrap_or("report").to_owned();
            *kinds.entry(kind).or_default() += 1;
        }
        Ok(())
    };
    // This waits for a line first: on a busy machine all reports may arrive before the first packet is decided.
    send(&client, DROPPED, 1);
    read_until("drop", 1)?;
    for report in 1..=REPORTS {
        send(&client, DROPPED, 19);
        proc::signal(firewall.pid, libc::SIGUSR1);
        read_until("report", report)?;
    }
    // At its end the firewall writes events for at most a second, so all are read before.
    read_until("drop", DROPS)?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(
        ended.code == Some(0) && ended.stderr.is_empty(),
        "{}",
        ended.stderr
    );
    for line in &ended.lines {
        let line = parsed(line)?;
        let kind = line["event_type"].as_str().unwrap_or("report").to_owned();
        *kinds.entry(kind).or_default() += 1;
    }
    let last = Stats::parse(ended.lines.last().context("no ledger at exit")?)?;
    ensure!(
        kinds["drop"] == last.total.verdict("drop") && kinds["report"] == REPORTS + 1,
        "{kinds:?}: {last:?}"
    );
    Ok(())
}

fn refused(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let events = place.path("none/events.json");
    let ended = testbed::firewall::run_to_end(&place.namespace, &[], twin, &["--events", &events])?;
    let error = format!(
        "error: --events {events}: No such file or directory: name a file that the firewall's user (--user) can \
         write, in a folder that is \
         there\n"
    );
    ensure!(
        ended.code == Some(2) && ended.stderr == error,
        "{:?}: {}",
        ended.code,
        ended.stderr
    );
    Ok(())
}
