// SPDX-License-Identifier: GPL-2.0-or-later
//! A started ring's thread allocates nothing, as counted by the allocator itself.

use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::thread;

use scanner::counts::{Counts, Sum};
use scanner::engine::epoll::Epoll;
use scanner::engine::features;
use scanner::engine::memory::Memory;
use scanner::engine::uring::Uring;
use scanner::engine::Engine;
use scanner::flight::{Flight, Settings};
use scanner::plan::Plan;
use scanner::ports::Ports;
use scanner::probe::{http::Http, ssh::Ssh, Scan};
use scanner::record::boxes;
use scanner::state::State;
use scanner::targets::set::Set;
use scanner::targets::{Family, Range};
use testbed::allocation::{counted, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn plan(port: u16) -> Plan {
    let range = Range {
        family: Family::V4,
        scope: 0,
        first: 0x7f00_0000,
        last: 0x7f00_0fff,
    };
    let ports = Ports::parse(&format!("{port},9")).unwrap();
    Plan::new(Set::new([range]).unwrap(), ports, Some(1), 1)
}

/// Scans 127.0.0.0/20 at `port` and port 9 on one ring. Returns the number of allocations on the ring's thread, and the
/// scan's counts.
/// - scan: probe of open ports; None: only the states of ports are found.
fn fly(
    engine: impl Fn(usize, Memory) -> Box<dyn FnOnce(Start) -> u64>,
    scan: Option<Box<dyn Scan>>,
    port: u16,
) -> (u64, Sum) {
    let slots = 512;
    let (input, output) = scan.as_ref().map_or((0, 0), |scan| scan.room());
    let memory = Memory::new(slots, input, output).unwrap();
    let counts = [Counts::default()];
    let allocated = engine(slots, memory)(Start {
        scan,
        port,
        slots,
        counts: &counts[0],
    });
    (allocated, Sum::of(&counts))
}

struct Start<'a> {
    scan: Option<Box<dyn Scan>>,
    port: u16,
    slots: usize,
    counts: &'a Counts,
}

fn run<E: Engine>(engine: E, start: Start) -> u64 {
    let plan = plan(start.port);
    let (mut outboxes, inbox) = boxes(1);
    let stop = AtomicBool::new(false);
    let settings = Settings {
        slots: start.slots,
        connect_timeout_ns: 2_000_000_000,
        talk_timeout_ns: 5_000_000_000,
        retries: 1,
        rate: 0.0,
        told: [true; 4],
    };
    let outbox = outboxes.pop().unwrap();
    let cursor = plan.cursor();
    let flight = Flight::new(
        engine,
        start.scan,
        cursor,
        settings,
        start.counts,
        outbox,
        &stop,
    );
    thread::scope(|scope| {
        scope.spawn(|| inbox.each::<()>(|_| Ok(())));
        // The channel's first use on a thread takes memory for that thread.
        let (left, allocated) = counted(|| flight.run().unwrap());
        assert!(left.is_empty());
        allocated
    })
}

fn on_uring(slots: usize, memory: Memory) -> Box<dyn FnOnce(Start) -> u64> {
    let (features, _) = features::probe().expect("io_uring");
    Box::new(move |start| run(Uring::new(slots, memory, features).unwrap(), start))
}

fn on_epoll(slots: usize, memory: Memory) -> Box<dyn FnOnce(Start) -> u64> {
    Box::new(move |start| run(Epoll::new(slots, memory).unwrap(), start))
}

#[test]
fn a_ring_allocates_nothing_once_started() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"SSH-2.0-x\r\n");
        }
    });
    let http = || -> Box<dyn Scan> { Box::new(Http::new("/", &[], false).unwrap()) };
    for engine in [on_uring, on_epoll] {
        for scan in [None, Some(Box::new(Ssh) as Box<dyn Scan>), Some(http())] {
            let (allocated, sum) = fly(engine, scan, port);
            assert_eq!(sum.done(), 2 * 4096);
            assert!(sum.state(State::Open) > 3_500, "{sum:?}");
            // Only the lists of completions and of unfinished targets are allocated, for any number of targets.
            assert!(allocated <= 4, "{allocated} allocations, {sum:?}");
        }
    }
}
