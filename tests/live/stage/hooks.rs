// SPDX-License-Identifier: GPL-2.0-or-later
//! The ways of the part `evasion` in the hooks input and output: kernel and twin decide on the server, or on the client.
//! The client's packets then pass its own kernel's hook output.

use testbed::twin::Twin;
use twinwall_tests::case::Row;

use crate::evasion::net::{Hook, Net, Sees};
use crate::evasion::quic::setting::Setting::{self, AioquicV4, AioquicV6, QuinnV4, QuinnV6};
use crate::evasion::quic::{self, answered, segments};
use crate::evasion::wire::Version::{self, V4, V6};
use crate::evasion::By::{self, StageAt};
use crate::evasion::{
    self, both_open, calibrate, datagrams, forged, queries, requests, ALLOW_LIST, BLOCK_LIST,
};

use Hook::{Input, Output};

/// Cases of the ways (to hide a denied name, or to send an allowed name) that depend on the state of connections and on
/// the settled class.
pub const ROWS: &[Row] = &[
    ("evasion-input", |twin| tcp(twin, Input, V4, BLOCK_LIST)),
    ("evasion-output", |twin| tcp(twin, Output, V4, BLOCK_LIST)),
    ("evasion-input-late-server", |twin| late(twin, Input)),
    ("evasion-input-quic-answered", |twin| {
        answered::hold(StageAt(twin, Input), QuinnV4, BLOCK_LIST)
    }),
    ("evasion-output-quic-answered", |twin| {
        answered::hold(StageAt(twin, Output), QuinnV4, BLOCK_LIST)
    }),
    ("evasion-input-quic", |twin| {
        quic::hold(StageAt(twin, Input), QuinnV4, BLOCK_LIST)
    }),
    ("evasion-output-quic", |twin| {
        quic::hold(StageAt(twin, Output), QuinnV4, BLOCK_LIST)
    }),
    ("evasion-input-both-open", |twin| {
        both_open::both_open(StageAt(twin, Input))
    }),
    ("evasion-output-both-open", |twin| {
        both_open::both_open(StageAt(twin, Output))
    }),
    ("evasion-input-honest", |twin| {
        evasion::honest(StageAt(twin, Input), V4)
    }),
    ("evasion-output-honest", |twin| {
        evasion::honest(StageAt(twin, Output), V4)
    }),
];

/// Cases of all other ways (to hide a denied name, or to send an allowed name), for `make test-long`.
pub const LONG: &[Row] = &[
    ("input-others", |twin| others(twin, Input)),
    ("output-others", |twin| others(twin, Output)),
    ("output-late-server", |twin| late(twin, Output)),
];

fn tcp(twin: Twin, hook: Hook, version: Version, text: &str) -> anyhow::Result<()> {
    evasion::hold(StageAt(twin, hook), Sees::Both, version, text)
}

fn late(twin: Twin, hook: Hook) -> anyhow::Result<()> {
    let mut net = Net::at(hook, Sees::Both)?;
    net.acknowledge_late()?;
    evasion::hold_in(&net, StageAt(twin, hook), V4, BLOCK_LIST)
}

/// Checks one after another all ways (to hide a denied name, or to send an allowed name) that ROWS leaves out.
fn others(twin: Twin, hook: Hook) -> anyhow::Result<()> {
    let by: By = StageAt(twin, hook);
    tcp(twin, hook, V4, ALLOW_LIST)?;
    tcp(twin, hook, V6, BLOCK_LIST)?;
    evasion::honest(by, V6)?;
    requests::hold(by, V4, BLOCK_LIST)?;
    requests::hold(by, V6, requests::ALLOW_LIST)?;
    requests::honest(by)?;
    for text in [queries::BLOCK_LIST, queries::ALLOW_LIST] {
        queries::hold(by, text)?;
        datagrams::hold(by, text)?;
        forged::hold(by, text)?;
    }
    queries::honest(by)?;
    datagrams::honest(by)?;
    forged::hold_answer(by)?;
    let settings: [(Setting, &str); 4] = [
        (QuinnV4, quic::ALLOW_LIST),
        (QuinnV6, BLOCK_LIST),
        (AioquicV4, BLOCK_LIST),
        (AioquicV6, BLOCK_LIST),
    ];
    for (setting, text) in settings {
        quic::hold(by, setting, text)?;
    }
    for setting in [QuinnV4, QuinnV6] {
        quic::honest(by, setting)?;
        segments::hold(by, setting, BLOCK_LIST)?;
    }
    answered::hold(by, QuinnV6, BLOCK_LIST)?;
    segments::honest(by)
}

/// Checks without a firewall, as `calibrate` does, that the ways to hide a denied name reach the server if the client's
/// kernel sends their packets.
pub fn nobody() -> anyhow::Result<()> {
    let net = Net::at(Output, Sees::Both)?;
    for version in [V4, V6] {
        calibrate(&net, version)?;
    }
    Ok(())
}
