// SPDX-License-Identifier: GPL-2.0-or-later
//! A started reader's thread allocates nothing, as counted by the allocator itself.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use capture::backend::Kind;
use capture::chunk::Pools;
use capture::counts::{read, Counts};
use capture::pages::Pages;
use capture::reader::{End, Opening, Reader, Shared};
use capture::ring::Shape;
use capture::{filter, frame, link};
use testbed::allocation::{counted, Counting};
use testbed::netns::Namespace;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PACKETS: u64 = 20_000;

#[test]
fn a_reader_allocates_nothing_once_started() {
    let place = Namespace::new().unwrap_or_else(|error| panic!("{error:#}: make check-root"));
    place.enter(|| {
        let interface = link::find("lo").unwrap();
        let opening = Opening {
            filter: filter::compile("udp port 9", &interface, 65_535).unwrap(),
            interface,
            snap_bytes: 65_535,
            backend: Kind::Tpacket3,
            pages: Pages::Base,
            policy: None,
            ring_bytes: 16 << 20,
            threads: 1,
            promiscuous: false,
            group: 0,
        };
        let counts = Counts::new(1);
        let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
        let shared = Shared {
            stop: &stop,
            asked: &asked,
            follow: false,
        };
        let pools = Pools::new(1, 16 << 20, Shape::BLOCK_BYTES + frame::OVERHEAD);
        let (mut outboxes, inbox) = pools.boxes();
        let reader = Reader {
            ring: opening.open(opening.interface.index).unwrap(),
            opening: &opening,
            interface: 0,
            tells: true,
            counts: &counts.rings[0],
            outbox: outboxes.pop().unwrap(),
            shared: &shared,
            name: CString::new("lo").unwrap(),
            index: opening.interface.index,
            is_down: false,
            gap: 0,
        };
        let allocated = thread::scope(|scope| {
            scope.spawn(|| {
                let inbox = inbox;
                while !matches!(
                    inbox
                        .next(Duration::from_millis(50))
                        .map(|chunk| inbox.give(chunk)),
                    Err(RecvTimeoutError::Disconnected)
                ) {}
            });
            let reading = scope.spawn(|| {
                let (end, allocated) = counted(|| reader.run());
                assert!(matches!(end, End::Stopped), "{end:?}");
                allocated
            });
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            for _ in 0..PACKETS {
                // Nothing listens on the port; the stack reports that.
                let _ = socket.send_to(&[7; 300], "127.0.0.1:9");
            }
            asked.store(1, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
            reading.join().unwrap()
        });
        assert!(read(&counts.rings[0].delivered) > PACKETS / 2);
        // The channel's first use on a thread takes memory for that thread.
        assert!(allocated <= 2, "{allocated} allocations");
    });
}
