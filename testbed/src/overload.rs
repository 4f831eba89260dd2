// SPDX-License-Identifier: GPL-2.0-or-later
//! Causes an overload without a race: packets are sent while the firewall is stopped.

use crate::netns::Namespace;

use crate::firewall::Firewall;
use crate::proc;
use crate::traffic::{udp_client, udp_send};

/// Sends `count` datagrams of 18 bytes to 127.0.0.1 while the firewall is stopped (SIGSTOP), and then continues it.
pub fn send_while_stopped(
    namespace: &Namespace,
    firewall: &Firewall,
    count: u64,
) -> anyhow::Result<()> {
    let client = udp_client(namespace, "127.0.0.1".parse()?)?;
    proc::stop(firewall.pid)?;
    let sent = udp_send(&client, count, 18);
    proc::signal(firewall.pid, libc::SIGCONT);
    sent
}
