// SPDX-License-Identifier: GPL-2.0-or-later
//! One policy for many hosts.
//!
//! Theory of operation: a person pushes a policy. `push` stores it as a bundle under its digest, and signs a pointer to
//! it: channel, generation, digest, waves and bounds. The store (etcd, or a folder behind https or file) is not
//! trusted; signatures are. On each host an agent without privileges waits for a new pointer, fetches the bundle and
//! passes both to a service of root. The service verifies everything itself, runs `fwctl apply` with a time limit for
//! the confirmation, and keeps the highest generation on disk. The agent requests the confirmation when it reaches the
//! store under the new policy. The service confirms if it reaches the store as well, and if the ledger and the drops
//! are within bounds. Without a confirmation, the host reverts by itself.
//!
//! - formats: `bundle`, `pointer`, `question`, `signed`, `keys`, `report`; what each host decides by them: `bucket`, `clock`
//! - transport: `http`, `etcd`, `store`, `options`
//! - the agent: `agent`; the service of root: `local`; the operator's side: `rollout`, `hosts`, `roles`
#![forbid(unsafe_code)]

pub mod agent;
pub mod bucket;
pub mod bundle;
pub mod clock;
pub mod etcd;
pub mod failure;
pub mod file;
pub mod hosts;
pub mod http;
pub mod keys;
pub mod local;
pub mod options;
pub mod pointer;
pub mod question;
pub mod report;
pub mod roles;
pub mod rollout;
pub mod signed;
pub mod store;
