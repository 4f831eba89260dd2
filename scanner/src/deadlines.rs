// SPDX-License-Identifier: GPL-2.0-or-later
//! Deadlines of the slots. All that wait for the same thing wait equally long, so a queue a kind is in order by itself:
//! what is entered last ends last. Links lie in arrays: to enter and to leave costs no search and no memory.

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For a connection.
    Connecting,
    /// For the end of a conversation.
    Talking,
    /// For ports, memory or descriptors to be free again.
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
    /// For so many slots; `wait_ns` is how long each kind waits.
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

    /// From now on the slot waits for this; it no longer waits for what it did before.
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

    /// Takes out a slot whose time is over.
    pub fn expired(&mut self, kind: Kind, now_ns: u64) -> Option<usize> {
        let slot = self.first[kind as usize];
        if slot == NONE || self.links[slot as usize].at_ns > now_ns {
            return None;
        }
        self.leave(slot as usize);
        Some(slot as usize)
    }

    /// When the next one is over.
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
