// SPDX-License-Identifier: GPL-2.0-or-later
//! The ways of the part `evasion`, tried with a kernel that decides and a twin that only reads names: no denied name
//! may pass, and honest clients must pass.

use twinwall_tests::case::Row;

use crate::evasion::net::{Net, Sees};
use crate::evasion::quic::setting::Setting::{AioquicV4, AioquicV6, QuinnV4, QuinnV6};
use crate::evasion::quic::{self, answered, segments};
use crate::evasion::wire::Version::{V4, V6};
use crate::evasion::By::Stage;
use crate::evasion::{
    self, both_open, checksum, datagrams, forged, odd_requests, queries, reopened, requests,
    within, ALLOW_LIST, BLOCK_LIST, ONE_WAY,
};

pub const ROWS: &[Row] = &[
    ("evasion-block-list", |twin| {
        evasion::hold(Stage(twin), Sees::Both, V4, BLOCK_LIST)
    }),
    ("evasion-one-way", |twin| {
        evasion::hold(Stage(twin), Sees::Both, V4, ONE_WAY)
    }),
    ("evasion-allow-list", |twin| {
        evasion::hold(Stage(twin), Sees::Both, V4, ALLOW_LIST)
    }),
    ("evasion-block-list-ipv6", |twin| {
        evasion::hold(Stage(twin), Sees::Both, V6, BLOCK_LIST)
    }),
    ("evasion-late-server", |twin| {
        let mut net = Net::new(Sees::Both)?;
        net.acknowledge_late()?;
        evasion::hold_in(&net, Stage(twin), V4, BLOCK_LIST)
    }),
    ("evasion-honest", |twin| evasion::honest(Stage(twin), V4)),
    ("evasion-honest-ipv6", |twin| {
        evasion::honest(Stage(twin), V6)
    }),
    ("evasion-checksum-filled-in", |twin| {
        checksum::filled_in(Stage(twin), &[])
    }),
    ("evasion-reopened-block-list", |twin| {
        reopened::hold(Stage(twin), V4, BLOCK_LIST)
    }),
    ("evasion-reopened-allow-list", |twin| {
        reopened::hold(Stage(twin), V4, ALLOW_LIST)
    }),
    ("evasion-odd-requests", |twin| {
        odd_requests::hold(Stage(twin), BLOCK_LIST)
    }),
    ("evasion-answer-within-another", |twin| {
        within::hold(Stage(twin))
    }),
    ("evasion-both-open", |twin| {
        both_open::both_open(Stage(twin))
    }),
    ("evasion-requests-block-list", |twin| {
        requests::hold(Stage(twin), V4, BLOCK_LIST)
    }),
    ("evasion-requests-allow-list", |twin| {
        requests::hold(Stage(twin), V6, requests::ALLOW_LIST)
    }),
    ("evasion-requests-honest", |twin| {
        requests::honest(Stage(twin))
    }),
    ("evasion-queries-block-list", |twin| {
        queries::hold(Stage(twin), queries::BLOCK_LIST)
    }),
    ("evasion-queries-allow-list", |twin| {
        queries::hold(Stage(twin), queries::ALLOW_LIST)
    }),
    ("evasion-queries-honest", |twin| {
        queries::honest(Stage(twin))
    }),
    ("evasion-datagrams-block-list", |twin| {
        datagrams::hold(Stage(twin), queries::BLOCK_LIST)
    }),
    ("evasion-datagrams-allow-list", |twin| {
        datagrams::hold(Stage(twin), queries::ALLOW_LIST)
    }),
    ("evasion-datagrams-honest", |twin| {
        datagrams::honest(Stage(twin))
    }),
    ("evasion-forged-block-list", |twin| {
        forged::hold(Stage(twin), queries::BLOCK_LIST)
    }),
    ("evasion-forged-allow-list", |twin| {
        forged::hold(Stage(twin), queries::ALLOW_LIST)
    }),
    ("evasion-forged-answer", |twin| {
        forged::hold_answer(Stage(twin))
    }),
    ("evasion-quic-block-list", |twin| {
        quic::hold(Stage(twin), QuinnV4, BLOCK_LIST)
    }),
    ("evasion-quic-allow-list", |twin| {
        quic::hold(Stage(twin), QuinnV4, quic::ALLOW_LIST)
    }),
    ("evasion-quic-honest", |twin| {
        quic::honest(Stage(twin), QuinnV4)
    }),
    ("evasion-quic-block-list-ipv6", |twin| {
        quic::hold(Stage(twin), QuinnV6, BLOCK_LIST)
    }),
    ("evasion-quic-block-list-version-2", |twin| {
        quic::hold(Stage(twin), AioquicV4, BLOCK_LIST)
    }),
    ("evasion-quic-honest-version-2", |twin| {
        quic::honest(Stage(twin), AioquicV4)
    }),
    ("evasion-quic-honest-ipv6", |twin| {
        quic::honest(Stage(twin), QuinnV6)
    }),
    ("evasion-quic-block-list-version-2-ipv6", |twin| {
        quic::hold(Stage(twin), AioquicV6, BLOCK_LIST)
    }),
    ("evasion-quic-answered-ipv6", |twin| {
        answered::hold(Stage(twin), QuinnV6, BLOCK_LIST)
    }),
    ("evasion-quic-segments-ipv6", |twin| {
        segments::hold(Stage(twin), QuinnV6, BLOCK_LIST)
    }),
    ("evasion-quic-answered-block-list", |twin| {
        answered::hold(Stage(twin), QuinnV4, BLOCK_LIST)
    }),
    ("evasion-quic-answered-allow-list", |twin| {
        answered::hold(Stage(twin), QuinnV4, quic::ALLOW_LIST)
    }),
    ("evasion-quic-segments-block-list", |twin| {
        segments::hold(Stage(twin), QuinnV4, BLOCK_LIST)
    }),
    ("evasion-quic-segments-honest", |twin| {
        segments::honest(Stage(twin))
    }),
];
