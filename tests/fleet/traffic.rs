// SPDX-License-Identifier: GPL-2.0-or-later
//! Sends datagrams to two ports of each host: to one through its firewall's queue, to the other past the queue, where
//! the kernel alone decides.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use twinwall_tests::fleet::{Place, QUEUED};

/// UDP ports of a host: one whose packets go to the queue, and one whose packets don't.
const PORTS: [u16; 2] = [QUEUED, QUEUED + 1];

/// Pause between two rounds. A round sends a datagram to each port of each host.
const ROUND: Duration = Duration::from_millis(100);
/// Quiet time after which no datagram is on its way any more.
const QUIET: Duration = Duration::from_secs(1);

/// Traffic to all hosts while it runs.
pub struct Traffic {
    ended: Arc<AtomicBool>,
    sender: JoinHandle<std::io::Result<u64>>,
    receiver: JoinHandle<[u64; 2]>,
}

/// Numbers of sent and lost datagrams.
pub struct Count {
    /// Number of datagrams sent to each of the two ports, over all hosts.
    pub sent: u64,
    /// Numbers of datagrams lost, over all hosts: of the port whose packets go to a queue, then of the other port.
    pub lost: [u64; 2],
}

/// Reads all sockets until the traffic has ended and no datagram has arrived for [`QUIET`]. Returns the numbers of
/// datagrams that arrived at each of the two ports.
fn receive(sockets: &[[UdpSocket; 2]], ended: &AtomicBool) -> [u64; 2] {
    let mut arrived = [0; 2];
    let mut last = Instant::now();
    let mut buffer = [0; 64];
    while !ended.load(Ordering::Relaxed) || last.elapsed() < QUIET {
        for (socket, count) in sockets
            .iter()
            .flat_map(|pair| [(&pair[0], 0), (&pair[1], 1)])
        {
            while socket.recv(&mut buffer).is_ok() {
                arrived[count] += 1;
                last = Instant::now();
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
    arrived
}

impl Traffic {
    pub fn start(place: &Place) -> anyhow::Result<Traffic> {
        let mut sockets = Vec::new();
        for host in &place.hosts {
            let open = |port: u16| -> std::io::Result<UdpSocket> {
                let bind = || UdpSocket::bind(("0.0.0.0", port));
                let socket = host.namespace.enter(bind)?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            };
            sockets.push([open(PORTS[0])?, open(PORTS[1])?]);
        }
        let client = place.operator.enter(|| UdpSocket::bind("0.0.0.0:0"))?;
        let hosts = place.hosts.iter().map(|host| host.address.clone());
        let hosts: Vec<[String; 2]> = hosts
            .map(|host| PORTS.map(|port| format!("{host}:{port}")))
            .collect();
        // Datagrams wait for ARP first, and the kernel drops some of them. One datagram to each address resolves it.
        for host in hosts.iter().flatten() {
            client.send_to(b"x", host)?;
        }
        thread::sleep(QUIET);
        for socket in sockets.iter().flatten() {
            while socket.recv(&mut [0; 64]).is_ok() {}
        }
        let ended = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ended);
        let sender = thread::spawn(move || {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                for host in &hosts {
                    for address in host {
                        client.send_to(b"x", address)?;
                    }
                    sent += 1;
                }
                thread::sleep(ROUND);
            }
            Ok(sent)
        });
        let stop = Arc::clone(&ended);
        let receiver = thread::spawn(move || receive(&sockets, &stop));
        Ok(Traffic {
            ended,
            sender,
            receiver,
        })
    }

    pub fn stop(self) -> anyhow::Result<Count> {
        self.ended.store(true, Ordering::Relaxed);
        let sent = self.sender.join().expect("the sender does not panic")?;
        let arrived = self.receiver.join().expect("the receiver does not panic");
        let lost = arrived.map(|arrived| sent - arrived.min(sent));
        Ok(Count { sent, lost })
    }
}
