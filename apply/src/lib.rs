// SPDX-License-Identifier: GPL-2.0-or-later
//! Loads a policy into the kernel, and goes back unless it is confirmed in time.
//!
//! Theory of operation: each `apply` makes a generation, a numbered folder with the policy's text, the nft transaction that loads it
//! and the transaction that undoes it. One file, `state.json`, says which generation is applied and which waits for its
//! confirmation; it is replaced as a whole by rename(2), and each replacement is a commit. The order of steps makes every
//! death harmless: undo is written before the state says *pending*, the timer runs before the kernel changes, and undo
//! may run any number of times. Which generation the kernel holds, the kernel itself says: the transaction creates the
//! table `inet twinwall` with the generation as its comment.
//!
//! A policy with names is split (crate `stage`), and a firewall names for the kernel (`firewall`). Its generation has the
//! firewall's policy and orders too. On every way, there and back, the firewall follows a policy before the kernel holds it; until
//! both do, names count as unreadable.
//!
//! The timer is nobody's child: a timer unit of systemd, or an orphan process. At the deadline it ends whoever holds the lock
//! (an `apply` that was stopped in the middle), then undoes.
#![deny(unsafe_code)]

pub mod apply;
pub mod clock;
pub mod confirm;
pub mod conntrack;
pub mod expectations;
pub mod failure;
pub mod firewall;
pub mod guard;
pub mod kernel;
pub mod lists;
pub mod lock;
pub mod marks;
pub mod netlink;
pub mod nft;
mod outline;
mod program;
pub mod queue_rules;
pub mod source;
pub mod state;
pub mod store;
mod swap;
pub mod timer;
pub mod undo;
