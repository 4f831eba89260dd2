// SPDX-License-Identifier: GPL-2.0-or-later
//! Loads a policy into the kernel, and reverts it unless it is confirmed in time.
//!
//! Theory of operation: each `apply` makes a generation, a numbered folder with the policy's text, the nft transaction
//! that loads it and the transaction that undoes it. One file, `state.json`, names the applied generation and the
//! generation that waits for its confirmation; it is replaced as a whole by rename(2), and each replacement is a
//! commit. The order of steps makes a death at any step harmless: undo is written before the state is *pending*, the
//! timer (if there is a deadline) runs before the kernel changes, and undo may run any number of times. The kernel
//! itself identifies the generation that it holds: the transaction creates the table `inet twinwall` with the
//! generation as its comment.
//!
//! A policy with names is split (crate `stage`), and a firewall reads names for the kernel (`firewall`). Its generation
//! also has the firewall's policy and start parameters. In an apply and in a revert, the firewall changes its policy
//! before the kernel does; until both have the same policy, names count as unreadable.
//!
//! The timer is no child of fwctl: it is a systemd timer unit or an orphan process. At the deadline it kills any
//! process that holds the lock (for example a stopped `apply`), then undoes.
#![deny(unsafe_code)]

pub mod apply;
pub mod clock;
pub mod confirm;
pub mod conntrack;
pub mod expectations;
pub mod failure;
pub mod firewall;
pub mod flows;
pub mod guard;
pub mod kernel;
pub mod learned;
pub mod lists;
pub mod lock;
pub mod marks;
pub mod netlink;
pub mod nft;
mod outline;
mod present;
mod program;
pub mod queue_rules;
pub mod source;
pub mod state;
pub mod store;
mod swap;
pub mod timer;
pub mod undo;
