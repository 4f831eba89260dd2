// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads the kernel's figures on the queues of a namespace. Reading and parsing are separate.

use std::fs;

use anyhow::{Context, Result};

use crate::netns::Namespace;

/// One line of /proc/net/netfilter/nfnetlink_queue (seq_show in net/netfilter/nfnetlink_queue.c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueRow {
    /// Queue number, from 0, as in --queue-num.
    pub number: u16,
    /// Netlink port of the owner.
    pub peer: u32,
    /// Packets waiting for a verdict.
    pub waiting: u32,
    /// Packets dropped because the queue was full.
    pub queue_dropped: u32,
    /// Packets dropped because the owner's socket was full.
    pub user_dropped: u32,
    /// Id of the last packet: number of packets offered to the owner so far, modulo 2^32.
    pub id_sequence: u32,
}

/// Sums of the kernel's figures over several queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTotal {
    /// Packets passed to the owner: offered packets without those dropped at the owner's full socket. The kernel
    /// numbers the dropped packets, too.
    pub handed: u64,
    /// Packets dropped because a queue or its owner's socket was full.
    pub dropped: u64,
    /// Packets waiting for a verdict.
    pub waiting: u64,
}

impl QueueTotal {
    /// Returns the sums over rows.
    pub fn of(rows: &[QueueRow]) -> QueueTotal {
        rows.iter()
            .fold(QueueTotal::default(), |sum, row| QueueTotal {
                handed: sum.handed + u64::from(row.id_sequence.wrapping_sub(row.user_dropped)),
                dropped: sum.dropped + u64::from(row.queue_dropped) + u64::from(row.user_dropped),
                waiting: sum.waiting + u64::from(row.waiting),
            })
    }
}

/// Returns the queues 0 to `count` - 1 in the namespace of a process; missing queues are omitted.
pub fn queues(pid: u32, count: u16) -> Result<Vec<QueueRow>> {
    // The process's own path: a thread's /proc/net would show the namespace of this program.
    let file = format!("/proc/{pid}/net/netfilter/nfnetlink_queue");
    let text = fs::read_to_string(&file).context(file)?;
    Ok(parse_queues(&text)
        .into_iter()
        .filter(|row| row.number < count)
        .collect())
}

/// Returns all queues in a namespace.
pub fn queues_in(namespace: &Namespace) -> Result<Vec<QueueRow>> {
    let file = "/proc/thread-self/net/netfilter/nfnetlink_queue";
    let text = namespace.enter(|| fs::read_to_string(file)).context(file)?;
    Ok(parse_queues(&text))
}

fn parse_queues(text: &str) -> Vec<QueueRow> {
    let row = |line: &str| {
        let fields: Vec<u32> = line
            .split_whitespace()
            .map(|field| field.parse().ok())
            .collect::<Option<_>>()?;
        let [number, peer, waiting, _mode, _range, queue_dropped, user_dropped, id_sequence, ..] =
            fields[..]
        else {
            return None;
        };
        let number = number.try_into().ok()?;
        Some(QueueRow {
            number,
            peer,
            waiting,
            queue_dropped,
            user_dropped,
            id_sequence,
        })
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_rows_are_parsed_as_the_kernel_prints_them() {
        let text = "    0   1234     7 2   128     3     5   999999  1\n\
                        1 4294963199     0 2 65531     0     0        0  1\n";
        let rows = parse_queues(text);
        assert_eq!(
            rows[0],
            QueueRow {
                number: 0,
                peer: 1234,
                waiting: 7,
                queue_dropped: 3,
                user_dropped: 5,
                id_sequence: 999_999
            }
        );
        assert_eq!(rows[1].peer, 4_294_963_199);
        assert_eq!(
            QueueTotal::of(&rows),
            QueueTotal {
                handed: 999_994,
                dropped: 8,
                waiting: 7
            }
        );
        assert_eq!(parse_queues("something else\n1 2 3\n"), []);
    }
}
