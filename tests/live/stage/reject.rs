// SPDX-License-Identifier: GPL-2.0-or-later
//! `reject` by the kernel, for a connection that shows a denied name: both ends must receive a reset at once.

use anyhow::Context;
use stage::Options;
use testbed::twin::Twin;
use twinwall_tests::case::Row;

use super::{split, Stage};
use crate::evasion::net::{Net, Sees};
use crate::evasion::wire::Version;
use crate::names::reject::{ask, Ends, POLICY};

pub const ROWS: &[Row] = &[("reject-resets-both-ends", both_ends)];

/// Checks that both ends receive a reset: over IPv4 and IPv6, by rules with and without a bypass (packets then pass if
/// no firewall runs).
fn both_ends(twin: Twin) -> anyhow::Result<()> {
    for bypass in [false, true] {
        let net = Net::new(Sees::Both)?;
        let options = Options {
            bypass,
            ..Options::default()
        };
        let stage = Stage::start_split(&net, twin, split(POLICY, options)?, &[])?;
        for version in [Version::V4, Version::V6] {
            ask(&|| Ends::over(&net, version))
                .with_context(|| format!("{version:?}, bypass {bypass}"))?;
        }
        stage.end()?;
    }
    Ok(())
}
