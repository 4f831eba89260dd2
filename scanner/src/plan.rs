// SPDX-License-Identifier: GPL-2.0-or-later
//! The order of targets. All rings take chunks from one plan, so that they finish at about the same time. A target's
//! index encodes its address and port; its place is its position in the order.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::permutation::Permutation;
use crate::ports::Ports;
use crate::targets::set::Set;
use crate::targets::Address;

/// Maximum number of places (positions in the order of targets) that a ring takes at once.
const CHUNK: u64 = 256;

#[derive(Debug)]
pub struct Plan {
    pub targets: Set,
    pub ports: Ports,
    order: Option<Permutation>,
    /// Indices of unfinished targets of an interrupted scan; they come first.
    begun: Vec<u64>,
    /// First place (position in the order) that the interrupted scan had not taken; 0 if no scan is resumed.
    start: u64,
    taken: AtomicU64,
    rings: u64,
}

impl Plan {
    /// Creates a plan.
    /// - seed: key of the order; None orders by address, then by port.
    /// - rings: number of rings that share the plan.
    pub fn new(targets: Set, ports: Ports, seed: Option<u64>, rings: usize) -> Plan {
        let len = targets.len() * ports.len();
        Plan {
            order: seed.map(|seed| Permutation::new(len, seed)),
            targets,
            ports,
            begun: Vec::new(),
            start: 0,
            taken: AtomicU64::new(0),
            rings: rings as u64,
        }
    }

    /// Continues an interrupted scan of the same plan.
    /// - start: first place that the interrupted scan had not taken.
    /// - begun: indices of the targets that the interrupted scan had taken and not finished.
    pub fn resume(&mut self, start: u64, begun: Vec<u64>) {
        self.start = start;
        self.begun = begun;
    }

    /// Returns the number of targets of the whole plan.
    pub fn len(&self) -> u64 {
        self.targets.len() * self.ports.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of targets of this scan: all, or those that an interrupted scan has left.
    pub fn left(&self) -> u64 {
        self.len() - self.start + self.begun.len() as u64
    }

    pub fn target(&self, index: u64) -> (Address, u16) {
        let (host, port) = match self.order {
            Some(_) => (index % self.targets.len(), index / self.targets.len()),
            None => (index / self.ports.len(), index % self.ports.len()),
        };
        (self.targets.get(host), self.ports.get(port))
    }

    pub fn index(&self, address: Address, port: u16) -> Option<u64> {
        let host = self.targets.position(address)?;
        let port = self.ports.position(port)?;
        Some(match self.order {
            Some(_) => port * self.targets.len() + host,
            None => host * self.ports.len() + port,
        })
    }

    pub fn cursor(&self) -> Cursor<'_> {
        Cursor {
            plan: self,
            next: 0,
            end: 0,
        }
    }

    fn index_at(&self, turn: u64) -> u64 {
        let begun = self.begun.len() as u64;
        match (turn.checked_sub(begun), &self.order) {
            (None, _) => self.begun[turn as usize],
            (Some(place), Some(order)) => order.at(self.start + place),
            (Some(place), None) => self.start + place,
        }
    }

    /// Reserves a chunk of at most `most` turns: positions in this scan's order, which begins with `begun`. Returns the
    /// first turn and the turn after the last, or None if no turn is left.
    fn take(&self, most: u64) -> Option<(u64, u64)> {
        let all = self.left();
        let chunk = |from: u64| ((all - from) / (2 * self.rings)).clamp(1, most);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |from| {
                (from < all).then(|| from + chunk(from))
            })
            .ok()
            .map(|from| (from, from + chunk(from)))
    }

    /// Returns the state of a stopped scan: the first place that no ring has taken, and the indices in `begun` that no
    /// ring has taken. The rings hold the unfinished targets that they took.
    pub fn stopped(&self) -> (u64, Vec<u64>) {
        let taken = self.taken.load(Ordering::Relaxed);
        let begun = self.begun.len() as u64;
        let left = self.begun[taken.min(begun) as usize..].to_vec();
        (self.start + taken.saturating_sub(begun), left)
    }
}

/// A ring's position in the plan.
#[derive(Debug)]
pub struct Cursor<'a> {
    plan: &'a Plan,
    next: u64,
    end: u64,
}

impl Cursor<'_> {
    /// Returns the index of the next target; None if the plan has no target left. Takes a new chunk from the plan if no
    /// target of the last chunk is left. A chunk has at most `room` targets, because targets held by a full ring would
    /// wait for a time-out.
    /// - room: number of targets that the ring can probe now, at least 1.
    pub fn next_of(&mut self, room: u64) -> Option<u64> {
        if self.next == self.end {
            (self.next, self.end) = self.plan.take(room.min(CHUNK))?;
        }
        self.next += 1;
        Some(self.plan.index_at(self.next - 1))
    }

    pub fn target(&self, index: u64) -> (Address, u16) {
        self.plan.target(index)
    }
}

impl Iterator for Cursor<'_> {
    type Item = u64;

    /// Returns the index of the next target.
    fn next(&mut self) -> Option<u64> {
        self.next_of(CHUNK)
    }
}

impl Cursor<'_> {
    /// Returns the indices that were taken from the plan but not yielded.
    pub fn rest(&mut self) -> Vec<u64> {
        let rest = (self.next..self.end).map(|turn| self.plan.index_at(turn));
        let rest = rest.collect();
        self.next = self.end;
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::{Family, Range};

    fn plan(seed: Option<u64>) -> Plan {
        let range = Range {
            family: Family::V4,
            scope: 0,
            first: 0x0a000000,
            last: 0x0a0003e7,
        };
        let targets = Set::new([range]).unwrap();
        Plan::new(targets, Ports::parse("22,80,443").unwrap(), seed, 2)
    }

    #[test]
    fn two_rings_take_each_target_once() {
        for seed in [None, Some(1)] {
            let plan = plan(seed);
            let mut seen = vec![0; plan.len() as usize];
            let mut cursors = [plan.cursor(), plan.cursor()];
            let mut turn = 0;
            while let Some(index) = cursors[turn % 2]
                .next()
                .or_else(|| cursors[(turn + 1) % 2].next())
            {
                seen[index as usize] += 1;
                let (address, port) = plan.target(index);
                assert_eq!(plan.index(address, port), Some(index));
                turn += 1;
            }
            assert!(seen.iter().all(|&times| times == 1));
        }
    }

    #[test]
    fn sequential_goes_host_by_host() {
        let plan = plan(None);
        let first: Vec<_> = plan
            .cursor()
            .take(4)
            .map(|index| plan.target(index))
            .collect();
        let text: Vec<_> = first
            .iter()
            .map(|(address, port)| format!("{address}:{port}"))
            .collect();
        assert_eq!(
            text,
            ["10.0.0.0:22", "10.0.0.0:80", "10.0.0.0:443", "10.0.0.1:22"]
        );
    }

    #[test]
    fn an_interrupted_scan_goes_on_with_what_it_lacks() {
        let all = plan(Some(3));
        let mut seen = vec![0; all.len() as usize];
        let (mut start, mut begun) = (0, Vec::new());
        // The scan is interrupted repeatedly, also among targets left by an earlier interruption.
        loop {
            let mut plan = plan(Some(3));
            plan.resume(start, begun);
            let mut cursor = plan.cursor();
            let mut in_flight = Vec::new();
            for (turn, index) in cursor.by_ref().take(70).enumerate() {
                match turn % 3 {
                    0 => in_flight.push(index),
                    _ => seen[index as usize] += 1,
                }
            }
            if in_flight.is_empty() {
                break;
            }
            if in_flight.len() == 1 {
                seen[in_flight.pop().unwrap() as usize] += 1;
            }
            in_flight.extend(cursor.rest());
            (start, begun) = plan.stopped();
            begun.extend(in_flight);
        }
        assert!(seen.iter().all(|&times| times == 1));
    }
}
