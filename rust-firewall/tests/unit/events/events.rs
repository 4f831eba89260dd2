// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests events from rings to sinks: generations of policies, the rate limit, reports of missed events, and clients
//! that follow.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::support::engine;
use crate::support::place::Place;
use nix::errno::Errno;
use rust_firewall::engine::types::{DecideBy, DecideOutcome, LOGS_MAX};
use rust_firewall::events::{self, Events, EventsFacts, EventsKind, TAILS_MAX};
use rust_firewall::options::{self, Options, OptionsAction};
use rust_firewall::packet::verdict::Verdict;
use rust_firewall::packet::{Packet, PacketStatus};
use rust_firewall::ruleset::load::{self, Loaded};
use rust_firewall::worker::event::{self, EventRing, ACCEPT, DROP, RING_RECORDS};

const STEP: Duration = Duration::from_millis(10);

/// Returns the options of a valid command line.
fn options(arguments: &[&str]) -> Options {
    let arguments = ["rust-firewall"].iter().chain(arguments);
    let arguments: Vec<OsString> = arguments.map(OsString::from).collect();
    match options::parse(&arguments).unwrap() {
        OptionsAction::Run(options) => options,
        _ => panic!("a command"),
    }
}

/// Events with the ring of the only worker, and the test's folder.
struct Made {
    place: Place,
    events: Events,
    ring: EventRing,
}

impl Made {
    fn new(name: &str, more: &[&str]) -> Made {
        let place = Place::new(name);
        let path = place.path("events");
        let arguments = [&["--events", &path], more].concat();
        Made::with(place, &arguments)
    }

    fn with(place: Place, arguments: &[&str]) -> Made {
        let events = events::open(&options(arguments), None).unwrap();
        let ring = events::ring(&events, 0);
        Made {
            place,
            events,
            ring,
        }
    }

    /// Loads a policy with one rule.
    fn rules(&self, rule: &str) -> Arc<Loaded> {
        let path = self.place.path("a.nft");
        fs::write(
            &path,
            format!("table ip t {{\n chain c {{\n {rule}\n }}\n}}\n"),
        )
        .unwrap();
        let loaded = load::load(&options(&["--policy", &path])).unwrap();
        Arc::new(loaded.unwrap())
    }

    /// Adds records of packets that the first rule of a generation's policy decided.
    /// - log_count: number of log statements that each packet has passed.
    fn note(&mut self, generation: u32, verdict: Verdict, log_count: u32, packets: usize) {
        let packet = Packet::default();
        let input = engine::input(&packet, PacketStatus::Ok);
        let outcome = DecideOutcome {
            verdict,
            by: DecideBy::Rule,
            rule: 0,
            chain: 0,
            mark_set: false,
            mark: 0,
            reject: None,
            undecidable: false,
            undecided: false,
            read_names: false,
            log_count,
            logs: [0; LOGS_MAX],
        };
        for _ in 0..packets {
            if event::wanted(&self.ring, PacketStatus::Ok, false, &outcome) {
                event::note(&mut self.ring, generation, 0, &input, &outcome);
            }
        }
        event::flush(&mut self.ring);
    }

    fn count(&self, part: &str) -> usize {
        let text = fs::read_to_string(self.place.path("events")).unwrap();
        text.matches(part).count()
    }

    /// Waits until the file of events contains a text; fails after 30 seconds.
    fn wait_for(&self, part: &str) {
        for _ in 0..3000 {
            if self.count(part) > 0 {
                return;
            }
            thread::sleep(STEP);
        }
        panic!("no {part}");
    }
}

/// Checks that a record is described by the policy of its generation, until a drain removes the policy.
#[test]
fn records_are_told_by_the_policy_that_decided() {
    let mut made = Made::new("events-policy", &[]);
    let one = made.rules("drop comment \"one\"");
    let two = made.rules("drop comment \"two\"");
    events::policy(&made.events, 1, &one);
    made.note(1, Verdict::Drop, 0, 3);
    events::policy(&made.events, 2, &two);
    made.note(2, Verdict::Drop, 0, 1);
    made.note(1, Verdict::Drop, 0, 2);
    events::drain(&made.events);
    assert_eq!(Arc::strong_count(&one), 1);
    made.note(1, Verdict::Drop, 0, 1); // the policy of this generation is no longer known: the event has no rule
    made.note(2, Verdict::Drop, 0, 4);
    events::start(&made.events).unwrap();
    events::stop(&made.events);
    assert_eq!(made.count("\"comment\":\"one\""), 5);
    assert_eq!(made.count("\"comment\":\"two\""), 5);
    assert_eq!(made.count("\"event_type\":\"drop\""), 11);
}

/// Checks that accepted packets produce no lines, except for the log statements that they passed.
#[test]
fn only_what_passed_a_log_is_told_of_accepts() {
    let mut made = Made::new("events-log", &[]);
    let rules = made.rules("log prefix \"p\" accept");
    events::policy(&made.events, 1, &rules);
    made.note(1, Verdict::Accept, 0, 1);
    made.note(1, Verdict::Accept, 1, 1);
    made.note(1, Verdict::Accept, LOGS_MAX as u32 + 2, 1);
    events::start(&made.events).unwrap();
    events::stop(&made.events);
    assert_eq!(made.count("\"event_type\":\"log\""), 1 + LOGS_MAX);
    assert_eq!(made.count("\"event_type\":\"accept\""), 0);
    assert_eq!(made.count("\"text\":\"ring\",\"events\":2}"), 1);
}

#[test]
fn what_the_rate_leaves_out_is_told() {
    let mut made = Made::new("events-rate", &["--events-rate", "10"]);
    made.note(0, Verdict::Drop, 0, 500);
    events::start(&made.events).unwrap();
    made.wait_for("\"left_out\"");
    events::stop(&made.events);
    let written = made.count("\"drop\":{");
    assert!((10..=20).contains(&written), "{written}");
    let left_out = format!("\"events\":{}}}", 500 - written);
    assert_eq!(made.count(&left_out), 1);
}

#[test]
fn what_a_full_ring_lost_is_told() {
    let mut made = Made::new("events-ring", &["--events-rate", "1000000"]);
    made.note(0, Verdict::Drop, 0, RING_RECORDS + 7);
    events::start(&made.events).unwrap();
    made.wait_for("\"lost\"");
    events::stop(&made.events);
    assert_eq!(made.count("\"drop\":{"), RING_RECORDS);
    assert_eq!(made.count("\"text\":\"ring\",\"events\":7}"), 1);
}

#[test]
fn a_sleeping_thread_is_woken() {
    let mut made = Made::new("events-sleep", &[]);
    events::start(&made.events).unwrap();
    events::tell(&made.events, EventsKind::Started, &EventsFacts::default());
    made.wait_for("started");
    thread::sleep(5 * STEP); // the thread sleeps now
    made.note(0, Verdict::Drop, 0, 1);
    made.wait_for("\"drop\":{");
    assert!(events::fd(&made.events).is_some());
    events::stop(&made.events);
    // The thread can be started again, as after an upgrade that failed.
    events::start(&made.events).unwrap();
    made.note(0, Verdict::Reject, 0, 1);
    made.wait_for("\"reject\":{");
    events::stop(&made.events);
}

fn pair() -> (OwnedFd, BufReader<UnixStream>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    (ours.into(), BufReader::new(theirs))
}

fn line(client: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line
}

#[test]
fn clients_get_what_they_asked_for() {
    let place = Place::new("events-tail");
    let control = place.path("control");
    let mut made = Made::with(place, &["--control", &control]);
    events::start(&made.events).unwrap();
    made.note(0, Verdict::Accept, 0, 1); // no sink requests this event
    let mut clients = Vec::new();
    for index in 0..TAILS_MAX {
        let (fd, client) = pair();
        events::tail(&made.events, fd, ACCEPT, index == 0).unwrap();
        clients.push(client);
    }
    let (fd, _client) = pair();
    let refused = events::tail(&made.events, fd, ACCEPT, false);
    assert_eq!(refused.map_err(|(_, error)| error), Err(Errno::EBUSY));
    made.note(0, Verdict::Drop, 0, 1);
    made.note(0, Verdict::Accept, 0, 1);
    for (index, client) in clients.iter_mut().enumerate() {
        assert_eq!(line(client), "{\"ok\":true}\n");
        let line = line(client);
        assert!(line.contains("\"accept\":{"), "{line}");
        assert_eq!(line.contains("\"input\":{"), index == 0);
    }
    // When all clients have closed their connections, no events are requested, and another client can connect.
    clients.clear();
    let accept = DecideOutcome {
        verdict: Verdict::Accept,
        by: DecideBy::Default,
        rule: 0,
        chain: 0,
        mark_set: false,
        mark: 0,
        reject: None,
        undecidable: false,
        undecided: false,
        read_names: false,
        log_count: 0,
        logs: [0; LOGS_MAX],
    };
    let is_wanted = || event::wanted(&made.ring, PacketStatus::Ok, false, &accept);
    let waits = (0..3000).take_while(|_| is_wanted());
    waits.for_each(|_| thread::sleep(STEP));
    assert!(!is_wanted());
    let (fd, _client) = pair();
    events::tail(&made.events, fd, DROP, false).unwrap();
    events::stop(&made.events);
}

/// Checks that no events are recorded without a sink and a control socket.
#[test]
fn nothing_is_wanted_of_nobody() {
    let mut made = Made::with(Place::new("events-none"), &[]);
    events::start(&made.events).unwrap();
    made.note(1, Verdict::Drop, 1, 10);
    events::tell(&made.events, EventsKind::Started, &EventsFacts::default());
    assert!(events::fd(&made.events).is_none());
    events::stop(&made.events);
}
