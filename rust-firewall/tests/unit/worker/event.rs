// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the event ring: wanted events, their content, a wrapped and a full ring, both ends at the same time, and
//! waking the consumer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use crate::support::engine;
use nix::errno::Errno;
use rust_firewall::base::counts::{self, Count};
use rust_firewall::engine::types::{DecideBy, DecideOutcome, LOGS_MAX};
use rust_firewall::packet::verdict::{self, Verdict};
use rust_firewall::packet::{Packet, PacketStatus};
use rust_firewall::worker::event::{
    self, EventBell, EventRecords, EventRing, ACCEPT, ANOMALY, DROP, LOGGED, PACKET_BYTES,
    RING_RECORDS,
};

const RACE_PACKETS: u32 = 200_000;

/// Lock for tests that check counts, because the tests of a process share the counts.
static COUNTS: Mutex<()> = Mutex::new(());

fn counts_alone() -> (MutexGuard<'static, ()>, u64) {
    let alone = COUNTS.lock().unwrap();
    (alone, counts::get(Count::EventsLost))
}

struct Made {
    ring: EventRing,
    records: EventRecords,
    wanted: Arc<AtomicU32>,
    bell: Arc<EventBell>,
}

fn made(room: usize) -> Made {
    let bell = Arc::new(event::bell_make().unwrap());
    let wanted = Arc::default();
    let (ring, records) = event::ring_make(5, &wanted, &bell, room);
    Made {
        ring,
        records,
        wanted,
        bell,
    }
}

fn outcome(verdict: Verdict) -> DecideOutcome {
    DecideOutcome {
        verdict,
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
    }
}

/// Stores an event for a packet with a mark, which identifies the event.
fn note(ring: &mut EventRing, mark: u32) {
    let packet = Packet::default();
    let mut input = engine::input(&packet, PacketStatus::Ok);
    input.mark = mark;
    event::note(ring, 1, 0x0800, &input, &outcome(Verdict::Drop));
}

#[test]
fn only_what_is_wanted_is_noted() {
    let made = made(RING_RECORDS);
    let wanted = |status, truncated, outcome: &DecideOutcome| {
        event::wanted(&made.ring, status, truncated, outcome)
    };
    let accept = outcome(Verdict::Accept);
    assert!(!wanted(PacketStatus::Ok, false, &accept));
    made.wanted
        .store(DROP | LOGGED | ANOMALY, Ordering::Relaxed);
    assert!(!wanted(PacketStatus::Ok, false, &accept));
    assert!(!wanted(PacketStatus::BeyondCopy, false, &accept));
    assert!(wanted(PacketStatus::Ok, true, &accept));
    assert!(wanted(PacketStatus::TcpShort, false, &accept));
    let logged = DecideOutcome {
        log_count: 1,
        ..accept
    };
    assert!(wanted(PacketStatus::Ok, false, &logged));
    let undecidable = DecideOutcome {
        undecidable: true,
        ..accept
    };
    assert!(wanted(PacketStatus::BeyondCopy, false, &undecidable));
    assert!(wanted(PacketStatus::Ok, false, &outcome(Verdict::Drop)));
    assert!(!wanted(PacketStatus::Ok, false, &outcome(Verdict::Reject)));
    made.wanted.store(ACCEPT, Ordering::Relaxed);
    assert!(wanted(PacketStatus::Ok, false, &accept));
}

#[test]
fn no_class_is_a_verdicts() {
    let made = made(RING_RECORDS);
    let logged = DecideOutcome {
        log_count: 1,
        ..outcome(Verdict::Drop)
    };
    for (verdict, _) in verdict::VERDICTS {
        made.wanted.store(1 << verdict as u32, Ordering::Relaxed);
        let wanted = event::wanted(&made.ring, PacketStatus::Ok, true, &logged);
        assert_eq!(wanted, verdict == Verdict::Drop, "{verdict:?}");
    }
    made.wanted.store(LOGGED | ANOMALY, Ordering::Relaxed);
    for (verdict, _) in verdict::VERDICTS {
        let wanted = event::wanted(&made.ring, PacketStatus::Ok, false, &outcome(verdict));
        assert!(!wanted, "{verdict:?}");
    }
}

#[test]
fn a_record_has_all_of_input_outcome_and_packet() {
    let mut made = made(RING_RECORDS);
    let bytes: Vec<u8> = (0..PACKET_BYTES + 40).map(|i| (i * 7) as u8).collect();
    let packet = Packet {
        bytes: &bytes,
        original: 5000,
        has_ports: true,
        source_port: 99,
        ..Packet::default()
    };
    let mut input = engine::input(&packet, PacketStatus::BeyondCopy);
    input.mark = 8;
    input.iif = 9;
    input.oif = 10;
    input.uid = Some(11);
    input.gid = Some(12);
    input.ct_state = Some(13);
    input.ct_mark = Some(14);
    input.hook = 2;
    let outcome = DecideOutcome {
        by: DecideBy::Rule,
        rule: 3,
        chain: 4,
        log_count: 2,
        logs: [6, 7, 0, 0, 0, 0, 0, 0],
        ..outcome(Verdict::Reject)
    };
    event::note(&mut made.ring, 15, 0x86dd, &input, &outcome);
    let event = made.records.pop().unwrap();
    assert_eq!(
        (event.queue, event.generation, event.ethertype),
        (5, 15, 0x86dd)
    );
    assert_eq!(event.status, PacketStatus::BeyondCopy);
    assert_eq!((event.length, event.hook), (5000, 2));
    assert_eq!((event.mark, event.iif, event.oif), (8, 9, 10));
    assert_eq!((event.uid, event.gid), (Some(11), Some(12)));
    assert_eq!((event.ct_state, event.ct_mark), (Some(13), Some(14)));
    assert_eq!(event.outcome, outcome);
    assert!(event.time_ns > 1_700_000_000_000_000_000);
    let taken = event::packet(&event);
    assert_eq!(
        taken,
        Packet {
            bytes: &bytes[..PACKET_BYTES],
            ..packet
        }
    );
    assert!(made.records.pop().is_err());
}

#[test]
fn a_full_ring_keeps_what_it_has_and_counts() {
    let mut made = made(RING_RECORDS);
    let (_alone, lost) = counts_alone();
    let mut expected = 0;
    let records = RING_RECORDS as u32;
    // The ring wraps several times, so that its slots are used again.
    for mark in 0..3 * records {
        note(&mut made.ring, mark);
        if mark < 2 * records {
            assert_eq!(made.records.pop().unwrap().mark, expected);
            expected += 1;
        }
    }
    assert_eq!(counts::get(Count::EventsLost) - lost, 0);
    for _ in 0..5 {
        note(&mut made.ring, u32::MAX);
    }
    assert_eq!(counts::get(Count::EventsLost) - lost, 5);
    for _ in 0..records {
        assert_eq!(made.records.pop().unwrap().mark, expected);
        expected += 1;
    }
    assert!(made.records.pop().is_err());
    note(&mut made.ring, 1);
    assert_eq!(made.records.pop().unwrap().mark, 1);
}

/// While one thread stores events and another reads them, events arrive complete and in order, and lost events are
/// counted.
#[test]
fn both_ends_at_once() {
    let Made {
        mut ring,
        mut records,
        ..
    } = made(RING_RECORDS);
    let (_alone, lost) = counts_alone();
    let lost_now = || counts::get(Count::EventsLost) - lost;
    let producer = thread::spawn(move || {
        for mark in 1..=RACE_PACKETS {
            note(&mut ring, mark);
        }
        ring
    });
    let (mut last, mut seen) = (0, 0);
    while last < RACE_PACKETS && seen + lost_now() < u64::from(RACE_PACKETS) {
        let Ok(event) = records.pop() else {
            continue;
        };
        assert!(event.mark > last);
        last = event.mark;
        seen += 1;
    }
    producer.join().unwrap();
    assert!(records.pop().is_err());
    assert_eq!(seen + lost_now(), u64::from(RACE_PACKETS));
    assert!(seen >= RING_RECORDS as u64);
}

#[test]
fn only_a_sleeper_is_woken_and_once() {
    let mut made = made(RING_RECORDS);
    made.bell.asleep.store(true, Ordering::Relaxed);
    event::flush(&mut made.ring); // no event was stored since the last flush
    note(&mut made.ring, 1);
    assert_eq!(made.bell.event.read(), Err(Errno::EAGAIN));
    event::flush(&mut made.ring);
    note(&mut made.ring, 2);
    event::flush(&mut made.ring);
    assert_eq!(made.bell.event.read(), Ok(1));
    assert!(!made.bell.asleep.load(Ordering::Relaxed));
    note(&mut made.ring, 3);
    event::flush(&mut made.ring);
    assert_eq!(made.bell.event.read(), Err(Errno::EAGAIN));
}
