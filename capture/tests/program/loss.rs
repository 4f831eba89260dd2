// SPDX-License-Identifier: GPL-2.0-or-later
//! Lost packets are counted exactly, and the file records where they are missing.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::Duration;

use capture::arguments::Arguments;
use capture::chunk::{Chunk, Pools};
use capture::counts::Counts;
use capture::reader::{End, Reader, Shared};
use capture::ring::Shape;
use capture::{command, frame};
use clap::Parser;
use testbed::wait::{pause_for, until};

use crate::place::{count, gaps, ledger, send, Place, Run, BACKENDS, LIMIT, OURS};

#[test]
fn a_reader_that_is_too_slow_loses_what_the_ledger_says() {
    BACKENDS.iter().for_each(|backend| lost(backend));
}

fn lost(backend: &[&str]) {
    let place = Place::new();
    let file = place.file("x.pcapng");
    let mut run = Run::on(
        &place,
        &[backend, &["-w", &file, "--ring", "2M", OURS]].concat(),
    );
    run.stop();
    send(&place.here, 0..4000, 1000);
    run.signal(libc::SIGCONT);
    // The ring has room again.
    run.has_taken(4000);
    send(&place.here, 4000..4100, 1000);
    let ledger = run.end();
    assert_eq!(ledger.kernel, 4100, "{backend:?}: {ledger}");
    assert!(ledger.drops > 1000, "{ledger}");
    assert_eq!(ledger.written, 4100 - ledger.drops);
    assert_eq!(count(&file), ledger.written);
    assert_eq!(gaps(&file), (ledger.drops, Some((4100, ledger.drops))));
}

#[test]
fn the_ledger_is_told_while_it_runs() {
    let place = Place::new();
    let file = place.file("x.pcapng");
    let mut run = Run::on(&place, &["-w", &file, OURS]);
    send(&place.here, 0..500, 100);
    run.has_taken(500);
    let now = ledger(&run.said);
    assert_eq!((now.kernel, now.written), (500, 500), "{}", run.said);
    run.end();
}

/// After a kill, packets that are older than a second are in the file, and the file ends at a whole block.
#[test]
fn after_a_kill_the_file_is_whole() {
    let is_written_in_time = || {
        let place = Place::new();
        let file = place.file("x.pcapng");
        let mut run = Run::on(&place, &["-w", &file, OURS]);
        send(&place.here, 0..2944, 200);
        pause_for(Duration::from_secs(1));
        let length = || std::fs::metadata(&file).unwrap().len();
        let after_a_second = length();
        run.has_taken(2944);
        let at_the_kill = length();
        run.signal(libc::SIGKILL);
        assert_eq!(run.wait(), None);
        assert_eq!(count(&file), 2944);
        assert_eq!(gaps(&file), (0, None));
        Ok(after_a_second == at_the_kill)
    };
    until("nothing delays the writer", LIMIT, is_written_in_time).unwrap();
}

/// Packets arrive one at a time, every 20 ms. A kill loses at most the packets of the last second.
#[test]
fn a_kill_amid_packets_takes_a_second_of_them_at_most() {
    for backend in BACKENDS {
        let is_written_in_time = || {
            let place = Place::new();
            let file = place.file("x.pcapng");
            let mut run = Run::on(&place, &[backend, &["-w", &file, OURS]].concat());
            for number in 0..75 {
                send(&place.here, number..number + 1, 100);
                pause_for(Duration::from_millis(20));
            }
            run.signal(libc::SIGKILL);
            assert_eq!(run.wait(), None);
            let count = count(&file);
            assert!(count <= 75, "{backend:?}: {count}");
            Ok(count >= 25)
        };
        until("nothing delays the writer", LIMIT, is_written_in_time).unwrap();
    }
}

/// At the end, the output accepts nothing for longer than the end waits for a packet.
#[test]
fn a_slow_output_gets_every_packet_at_the_end() {
    let place = Place::new();
    let words = format!("capture -i veth -w - {OURS}");
    let arguments = Arguments::try_parse_from(words.split(' ')).unwrap();
    let (opening, ring) = place.here.enter(|| {
        let opening = command::openings(&arguments).unwrap().remove(0);
        let ring = opening.open(opening.interface.index).unwrap();
        (opening, ring)
    });
    send(&place.here, 0..5000, 1000);
    let counts = Counts::new(1);
    let (stop, asked) = (AtomicBool::new(true), AtomicU64::new(0));
    let shared = Shared {
        stop: &stop,
        asked: &asked,
        follow: false,
    };
    // Four chunks: less than half of the packets.
    let pools = Pools::new(1, 0, Shape::BLOCK_BYTES + frame::OVERHEAD);
    let (mut outboxes, inbox) = pools.boxes();
    let reader = Reader {
        ring,
        opening: &opening,
        interface: 0,
        tells: true,
        counts: &counts.rings[0],
        outbox: outboxes.pop().unwrap(),
        shared: &shared,
        name: CString::new("veth").unwrap(),
        index: opening.interface.index,
        is_down: false,
        gap: 0,
    };
    let mut written = 0;
    let end = thread::scope(|scope| {
        let reading = scope.spawn(|| reader.run());
        let all: Vec<Chunk> = (0..4).map(|_| inbox.next(LIMIT).unwrap()).collect();
        pause_for(Duration::from_secs(3));
        let mut write = |chunk: Chunk| {
            written += chunk.packets;
            inbox.give(chunk);
        };
        all.into_iter().for_each(&mut write);
        while let Ok(chunk) = inbox.next(LIMIT) {
            write(chunk);
        }
        reading.join().unwrap()
    });
    assert!(matches!(end, End::Stopped), "{end:?}");
    let ledger = counts.ledger();
    assert_eq!((ledger.kernel, ledger.delivered), (5000, 5000), "{ledger}");
    assert_eq!(written, 5000);
}
