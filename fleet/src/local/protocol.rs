// SPDX-License-Identifier: GPL-2.0-or-later
//! Requests to root's service: a line of JSON; in `apply` and `try` the bundle's bytes follow. The answer is a line of
//! JSON.

use std::io::{BufRead, Read};

use serde::{Deserialize, Serialize};

use crate::bundle::BUNDLE_MAX;
use crate::failure::{request, Result};
use crate::report::Local;
use crate::signed::{Signed, SIGNED_MAX};

/// Path of the Unix socket of root's service (twinwall-fleet-local).
pub const SOCKET: &str = "/run/twinwall-fleet.sock";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// Report the host's state.
    State {},
    /// Apply a pointer's policy, with a time limit for its confirmation.
    Apply {
        pointer: Signed,
        bundle_bytes: usize,
    },
    /// Try a policy on the host's traffic: for a question, or before a pointer's policy is applied.
    Try {
        message: Signed,
        bundle_bytes: usize,
    },
    /// Confirm the pending policy if the host is healthy; revert it if the host is not. The agent has reached the store
    /// under this policy.
    Confirm { generation: u64 },
    /// Revert the pending policy.
    Revert { generation: u64, why: String },
    /// Replace the trusted keys.
    Rotate { keys: Signed },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    Done(Local),
    /// The request was refused, and is refused again if it is repeated: "CAUSE: CURE".
    Error(String),
    /// The request can't be carried out now, and may succeed later: "CAUSE: CURE".
    Later(String),
}

/// Reads a request and its bundle. The bundle is empty unless the request is `apply` or `try`.
pub fn read(from: impl BufRead) -> Result<(Request, Vec<u8>)> {
    let broken =
        |why: String| request(format_args!("the request: {why}: are both of one version?"));
    let mut line = Vec::new();
    // JSON makes a text at most six times as long.
    let mut from = from.take(8 * SIGNED_MAX as u64);
    from.read_until(b'\n', &mut line)
        .map_err(|error| broken(error.to_string()))?;
    let read: Request = serde_json::from_slice(&line).map_err(|error| broken(error.to_string()))?;
    let mut bundle = Vec::new();
    if let Request::Apply { bundle_bytes, .. } | Request::Try { bundle_bytes, .. } = read {
        if bundle_bytes > BUNDLE_MAX {
            return Err(broken(format!("a bundle of {bundle_bytes} bytes")));
        }
        from.set_limit(bundle_bytes as u64);
        from.read_to_end(&mut bundle)
            .map_err(|error| broken(error.to_string()))?;
    }
    Ok((read, bundle))
}
