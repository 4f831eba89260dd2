// SPDX-License-Identifier: GPL-2.0-or-later
//! Traffic: a flood of datagrams, requests and answers, connections, malformed packets.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use testbed::netns::Namespace;
use testbed::packets::{ipv4, udp, RawSender};
use testbed::place::LOCALHOST;
use testbed::traffic::{tcp_ask, tcp_connect, tcp_echo, udp_client, UdpServer};
use testbed::wait::pause_for;

/// Number of datagrams per burst; with the pause between bursts, at most 20,000 datagrams a second.
const BURST: usize = 100;
const PAUSE: Duration = Duration::from_millis(5);
const UDP: u8 = libc::IPPROTO_UDP as u8;

pub struct Traffic {
    stop: Arc<AtomicBool>,
    connections: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    _server: UdpServer,
}

impl Traffic {
    pub fn start(namespace: &Arc<Namespace>) -> anyhow::Result<Traffic> {
        let server = UdpServer::start(namespace, LOCALHOST, true)?;
        tcp_echo(namespace, LOCALHOST)?;
        let stop = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicU64::new(0));
        let flood = udp_client(namespace, LOCALHOST)?;
        // Sending fails if a firewall drops the packet; such packets are part of the traffic.
        let flooding = repeat(&stop, PAUSE, move || {
            for length in 0..BURST {
                let _ = flood.send(&vec![0x55; 1 + length % 8 * 64]);
            }
        });
        let raw = RawSender::new(namespace, LOCALHOST)?;
        let spoiling = repeat(&stop, Duration::from_millis(100), move || {
            let _ = raw.send(&ipv4(UDP, 0, &udp(4, b"abcd")));
        });
        let (inside, count) = (namespace.clone(), connections.clone());
        let connecting = repeat(&stop, Duration::from_millis(50), move || {
            let stream = tcp_connect(&inside, LOCALHOST, Duration::from_secs(2));
            if stream.is_ok_and(|mut stream| tcp_ask(&mut stream).is_ok()) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Traffic {
            stop,
            connections,
            threads: vec![flooding, spoiling, connecting],
            _server: server,
        })
    }

    /// Stops the traffic. Returns the number of successful connections.
    pub fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("a sender does not panic");
        }
        self.connections.load(Ordering::Relaxed)
    }
}

fn repeat(
    stop: &Arc<AtomicBool>,
    pause: Duration,
    mut work: impl FnMut() + Send + 'static,
) -> JoinHandle<()> {
    let stop = stop.clone();
    thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            work();
            pause_for(pause);
        }
    })
}
