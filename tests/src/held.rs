// SPDX-License-Identifier: GPL-2.0-or-later
//! Sends datagrams that wait in a queue of a namespace because the queue's firewall is stopped.

use std::net::UdpSocket;

use anyhow::ensure;
use testbed::firewall::Firewall;
use testbed::netns::Namespace;
use testbed::place::restore;
use testbed::proc;
use testbed::queue::queues_in;
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};

/// UDP port whose packets go to the queue.
pub const PORT: u16 = 5000;
const COUNT: u32 = 20;

pub struct Held<'a> {
    namespace: &'a Namespace,
    firewall: Firewall,
    server: UdpSocket,
}

impl Held<'_> {
    /// Starts a firewall, stops it (SIGSTOP), and sends datagrams that then wait in its queue.
    pub fn send(namespace: &Namespace) -> anyhow::Result<Held<'_>> {
        let rule = format!("-A INPUT -p udp --dport {PORT} -j NFQUEUE --queue-num 0");
        restore(namespace, "iptables", &rule)?;
        let firewall = Firewall::start(namespace, Twin::Rust, &["--deadline", "0"])?;
        let (server, client) = namespace.enter(|| {
            let server = UdpSocket::bind(("127.0.0.1", PORT))?;
            anyhow::Ok((server, UdpSocket::bind("127.0.0.1:0")?))
        })?;
        proc::stop(firewall.pid)?;
        for _ in 0..COUNT {
            client.send_to(b"x", ("127.0.0.1", PORT))?;
        }
        let held = Held {
            namespace,
            firewall,
            server,
        };
        until("the datagrams to wait", PATIENCE, || {
            Ok(held.waiting()? == COUNT)
        })?;
        Ok(held)
    }

    fn waiting(&self) -> anyhow::Result<u32> {
        Ok(queues_in(self.namespace)?
            .iter()
            .map(|row| row.waiting)
            .sum())
    }

    /// Fails unless all datagrams still wait in the queue.
    pub fn check(&self, step: &str) -> anyhow::Result<()> {
        let waiting = self.waiting()?;
        ensure!(
            waiting == COUNT,
            "{step}: {waiting} of {COUNT} datagrams wait"
        );
        Ok(())
    }

    /// Continues the firewall; fails unless all datagrams arrive.
    pub fn release(self) -> anyhow::Result<()> {
        proc::signal(self.firewall.pid, libc::SIGCONT);
        self.server.set_read_timeout(Some(PATIENCE))?;
        for _ in 0..COUNT {
            self.server.recv(&mut [0; 8])?;
        }
        Ok(())
    }
}
