// SPDX-License-Identifier: GPL-2.0-or-later
//! Deadlines of the slots. All slots of a kind wait equally long, so a queue per kind is sorted by itself: the slot
//! entered last expires last. Links are stored in arrays: entering and leaving need no search and no allocation.

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The slot waits until its connection is established.
    Connecting,
    /// The slot waits for the end of its conversation.
    Talking,
    /// The slot pauses for a fixed time after a shortage of ports, memory or descriptors.
    Paused,
}

const KINDS: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Link {
    kind: Option<Kind>,
    before: u32,
    behind: u32,
    at_ns: u64,
}

#[derive(Debug)]
pub struct Deadlines {
    links: Vec<Link>,
    first: [u32; KINDS],
    last: [u32; KINDS],
    wait_ns: [u64; KINDS],
}

impl Deadlines {
    /// Creates an empty queue for each kind of wait, with room for `slots` slots.
    /// - wait_ns: duration of a wait of each kind.
    pub fn new(slots: usize, wait_ns: [u64; KINDS]) -> Deadlines {
        let none = Link {
            kind: None,
            before: NONE,
            behind: NONE,
            at_ns: 0,
        };
        Deadlines {
            links: vec![none; slots],
            first: [NONE; KINDS],
            last: [NONE; KINDS],
            wait_ns,
        }
    }

    /// Starts a wait of this kind for the slot; ends its earlier wait.
    pub fn enter(&mut self, slot: usize, kind: Kind, now_ns: u64) {
        self.leave(slot);
        let queue = kind as usize;
        let last = std::mem::replace(&mut self.last[queue], slot as u32);
        match last {
            NONE => self.first[queue] = slot as u32,
            _ => self.links[last as usize].behind = slot as u32,
        }
        self.links[slot] = Link {
            kind: Some(kind),
            before: last,
            behind: NONE,
            at_ns: now_ns + self.wait_ns[queue],
        };
    }

    pub fn leave(&mut self, slot: usize) {
        let link = self.links[slot];
        let Some(kind) = self.links[slot].kind.take() else {
            return;
        };
        match link.before {
            NONE => self.first[kind as usize] = link.behind,
            before => self.links[before as usize].behind = link.behind,
        }
        match link.behind {
            NONE => self.last[kind as usize] = link.before,
            behind => self.links[behind as usize].before = link.before,
        }
    }

    /// Removes and returns a slot whose deadline of this kind has passed; None if no deadline of this kind has passed.
    pub fn expired(&mut self, kind: Kind, now_ns: u64) -> Option<usize> {
        let slot = self.first[kind as usize];
        if slot == NONE || self.links[slot as usize].at_ns > now_ns {
            return None;
        }
        self.leave(slot as usize);
        Some(slot as usize)
    }

    /// Returns the earliest deadline of all slots; None if no slot waits.
    pub fn next_ns(&self) -> Option<u64> {
        let first = self.first.iter().filter(|&&slot| slot != NONE);
        first.map(|&slot| self.links[slot as usize].at_ns).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_stay_end_in_order() {
        let mut deadlines = Deadlines::new(10, [100, 50, 5]);
        for slot in 0..5 {
            deadlines.enter(slot, Kind::Connecting, slot as u64);
        }
        deadlines.leave(0);
        deadlines.leave(2);
        deadlines.leave(4);
        deadlines.leave(4);
        deadlines.enter(7, Kind::Connecting, 10);
        assert_eq!(deadlines.next_ns(), Some(101));
        deadlines.enter(3, Kind::Talking, 20);
        assert_eq!(deadlines.next_ns(), Some(70));
        assert_eq!(deadlines.expired(Kind::Connecting, 100), None);
        assert_eq!(deadlines.expired(Kind::Connecting, 200), Some(1));
        assert_eq!(deadlines.expired(Kind::Connecting, 200), Some(7));
        assert_eq!(deadlines.expired(Kind::Connecting, 200), None);
        assert_eq!(deadlines.expired(Kind::Talking, 70), Some(3));
        assert_eq!(deadlines.next_ns(), None);
    }
}
