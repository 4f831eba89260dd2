// SPDX-License-Identifier: GPL-2.0-or-later
//! The Rust twin's modules, for its program, its tests and its fuzzers.
#![deny(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod answer;
pub mod arguments;
pub mod ask;
pub mod candidates;
pub mod carry;
pub mod check;
pub mod compile;
pub mod contract;
pub mod control;
pub mod control_answer;
pub mod control_client;
#[allow(unsafe_code)]
pub mod control_peer;
pub mod control_request;
pub mod control_self;
pub mod control_socket;
pub mod counts;
pub mod daemon;
pub mod decide;
pub mod describe;
pub mod event;
pub mod event_text;
pub mod events;
pub mod events_gather;
pub mod events_sink;
pub mod explain;
pub mod explain_json;
pub mod explain_text;
pub mod feed;
pub mod fields;
pub mod flow;
pub mod given;
pub mod guard;
pub mod guard_run;
pub mod guard_watch;
pub mod handover;
#[allow(unsafe_code)]
pub mod handover_channel;
pub mod handover_state;
pub mod index;
pub mod interface;
pub mod lexer;
pub mod load;
pub mod log;
pub mod lookup;
pub mod metrics;
pub mod metrics_plain;
pub mod metrics_text;
pub mod notify;
pub mod options;
pub mod options_daemon;
pub mod options_explain;
pub mod overlap;
pub mod packet;
pub mod parse;
pub mod parse_chain;
pub mod parse_count;
pub mod parse_elements;
pub mod parse_match;
pub mod parse_refuse;
pub mod parse_rule;
pub mod parse_set;
pub mod parse_state;
pub mod pcap;
pub mod pcap_link;
pub mod policy;
pub mod print;
pub mod privilege;
pub mod privilege_landlock;
#[allow(unsafe_code)]
pub mod privilege_seccomp;
pub mod queue;
pub mod queue_adopt;
pub mod queue_attribute;
#[allow(unsafe_code)]
pub mod queue_classic;
#[allow(unsafe_code)]
pub mod queue_mnl;
pub mod queue_proc;
#[allow(unsafe_code)]
pub mod queue_raw;
#[allow(unsafe_code)]
pub mod queue_socket;
pub mod reject;
pub mod reload;
pub mod report;
pub mod report_policy;
pub mod requirement;
pub mod resolve;
pub mod set;
pub mod snapshot;
pub mod source;
pub mod state;
pub mod stats;
pub mod supervise;
pub mod symbol;
pub mod tally;
pub mod token;
pub mod trace;
pub mod value;
pub mod verdict;
pub mod wait;
pub mod walk;
pub mod worker;
pub mod workers;
