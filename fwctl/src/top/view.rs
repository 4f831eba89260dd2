// SPDX-License-Identifier: GPL-2.0-or-later
//! Contents of `top`: rates between two samples, and their history.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;

use serde::Serialize;

use super::sample::Sample;
use super::talkers::{Heard, Talk};
use crate::answer::{Rule, StatsTotal, Status, StatusLedger, StatusQueue};

/// Number of rates that are stored for each kind and each rule.
pub const HISTORY: usize = 120;
const TALKERS_MAX: usize = 64;
/// Time for which talkers are remembered, in seconds.
pub const LATELY_S: f64 = 5.0;

/// Sort key of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Rate,
    Packets,
    /// Order in the policy.
    Place,
}

impl Sort {
    pub fn name(self) -> &'static str {
        match self {
            Sort::Rate => "rate",
            Sort::Packets => "packets",
            Sort::Place => "place",
        }
    }

    pub fn next(self) -> Sort {
        match self {
            Sort::Rate => Sort::Packets,
            Sort::Packets => Sort::Place,
            Sort::Place => Sort::Rate,
        }
    }
}

/// Packets of a kind (a verdict, `malformed`, `lost` or `unseen`), with the rate per second.
#[derive(Clone, Debug, Serialize)]
pub struct Kind {
    pub name: String,
    pub packets: u64,
    pub rate: f64,
    #[serde(skip)]
    pub history: Vec<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Queue {
    pub queue: u16,
    pub rate: f64,
    pub waiting: u64,
    pub queue_length: u64,
    pub queue_full: u64,
    pub user_drop: u64,
    pub unseen: u64,
    pub stalled: u64,
    pub lost_rate: f64,
    pub reconciled: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct RuleRate {
    pub rule: String,
    pub chain: String,
    pub text: String,
    /// Packets of the rule's first counter, otherwise of its first log; None without both.
    pub packets: Option<u64>,
    pub rate: f64,
    #[serde(skip)]
    pub history: Vec<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Talker {
    pub address: IpAddr,
    pub rate: f64,
    pub refused_rate: f64,
    /// Last name that was requested on the talker's connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct View {
    pub time_ms: u64,
    pub interval_s: f64,
    #[serde(skip)]
    pub status: Status,
    #[serde(serialize_with = "ledger")]
    pub ledger: StatusLedger,
    /// Packets and rates by kind: the verdicts, then `malformed`, `lost` and `unseen`.
    pub kinds: Vec<Kind>,
    pub queues: Vec<Queue>,
    pub rules: Vec<RuleRate>,
    pub talkers: Vec<Talker>,
    /// Talkers of the last seconds, so that an occasional talker stays visible.
    #[serde(skip)]
    pub talkers_lately: Vec<Talker>,
    /// Number of packets that are not counted in `talkers`, because they came too fast for the event stream.
    pub talk_missed: u64,
    #[serde(skip)]
    pub talk_error: Option<String>,
}

fn ledger<S: serde::Serializer>(ledger: &StatusLedger, serializer: S) -> Result<S::Ok, S::Error> {
    let object = serde_json::json!({
        "reconciled": ledger.reconciled,
        "difference": ledger.difference,
        "lost": ledger.lost,
    });
    object.serialize(serializer)
}

/// Rates over time by name, the latest last.
#[derive(Default)]
struct History(HashMap<String, VecDeque<f64>>);

impl History {
    fn add(&mut self, key: String, rate: f64) -> Vec<f64> {
        let rates = self.0.entry(key).or_default();
        if rates.len() == HISTORY {
            rates.pop_front();
        }
        rates.push_back(rate);
        rates.iter().copied().collect()
    }
}

/// State for the computation of views from samples.
#[derive(Default)]
pub struct Watch {
    before: Option<Sample>,
    kinds: History,
    rules: History,
    /// Packets in the firewall's events, for each of the last intervals (up to LATELY_S) with its length in seconds,
    /// the latest last.
    talks: VecDeque<(f64, Talk)>,
}

/// Returns the packet counts by kind, in the order of the display.
fn kinds_of(total: &StatsTotal) -> Vec<(String, u64)> {
    let order = ["accept", "drop", "reject", "mark", "repeat", "requeue"];
    let verdicts = order.iter().filter_map(|name| {
        let packets = *total.verdicts.get(*name)?;
        // Other verdicts are omitted if no packet has them.
        let usual = ["accept", "drop", "reject"].contains(name);
        (usual || packets > 0).then(|| ((*name).to_owned(), packets))
    });
    let mut kinds: Vec<_> = verdicts.collect();
    kinds.push(("malformed".to_owned(), total.malformed.values().sum()));
    kinds.push(("lost".to_owned(), total.lost.unwrap_or(0)));
    let unseen = total.kernel.as_ref().map_or(0, |kernel| kernel.unseen);
    kinds.push(("unseen".to_owned(), unseen));
    kinds
}

/// Returns the packets of a rule: of its first counter, otherwise of its first log.
fn packets_of(rule: &Rule) -> Option<u64> {
    let counted = rule.counters.first().map(|counter| counter.packets);
    counted.or_else(|| rule.logs.first().map(|log| log.packets))
}

/// Returns a key of a rule that reloads don't change: its table, its chain, and its comment, otherwise its text. Equal
/// rules have the same key.
fn key_of(rule: &Rule) -> String {
    let name = rule.comment.as_ref().unwrap_or(&rule.text);
    format!("{} {} {name}", rule.table, rule.chain)
}

/// Returns the rate per second of a counter; 0 if it decreased (it was reset), or has no earlier value.
fn rate(now: u64, before: Option<u64>, interval_s: f64) -> f64 {
    let more = now.saturating_sub(before.unwrap_or(now));
    more as f64 / interval_s
}

fn queue_of(now: &StatusQueue, before: Option<&StatusQueue>, interval_s: f64) -> Queue {
    // Numbers that are unknown to the firewall count as 0 here. They make the ledger red.
    let known = |figure: Option<u64>| figure.unwrap_or(0);
    let lost = |queue: &StatusQueue| known(queue.queue_full) + known(queue.user_drop);
    Queue {
        queue: now.queue,
        rate: rate(now.received, before.map(|queue| queue.received), interval_s),
        waiting: known(now.waiting),
        queue_length: now.queue_length,
        queue_full: known(now.queue_full),
        user_drop: known(now.user_drop),
        unseen: known(now.unseen),
        stalled: now.stalled,
        lost_rate: rate(lost(now), before.map(lost), interval_s),
        reconciled: now.reconciled,
    }
}

/// Returns the talkers of some intervals, at most TALKERS_MAX, those with the most packets first.
fn talkers_of<'a>(talks: impl Iterator<Item = &'a (f64, Talk)>) -> Vec<Talker> {
    let mut all: HashMap<IpAddr, Heard> = HashMap::new();
    let mut seconds = 0.0;
    for (interval_s, talk) in talks {
        seconds += interval_s;
        for (address, heard) in &talk.heard {
            let sum = all.entry(*address).or_default();
            sum.packets += heard.packets;
            sum.refused += heard.refused;
            sum.name = heard.name.clone().or(sum.name.take());
        }
    }
    let mut heard: Vec<_> = all.into_iter().collect();
    heard
        .sort_by(|(a, heard_a), (b, heard_b)| heard_b.packets.cmp(&heard_a.packets).then(a.cmp(b)));
    let first = heard.into_iter().take(TALKERS_MAX);
    first
        .map(|(address, heard)| Talker {
            address,
            rate: heard.packets as f64 / seconds,
            refused_rate: heard.refused as f64 / seconds,
            name: heard.name,
        })
        .collect()
}

impl Watch {
    fn kinds(&mut self, now: &StatsTotal, before: &StatsTotal, interval_s: f64) -> Vec<Kind> {
        let before: BTreeMap<_, _> = kinds_of(before).into_iter().collect();
        let kinds = kinds_of(now).into_iter().map(|(name, packets)| {
            let rate = rate(packets, before.get(&name).copied(), interval_s);
            Kind {
                history: self.kinds.add(name.clone(), rate),
                name,
                packets,
                rate,
            }
        });
        kinds.collect()
    }

    fn rules(&mut self, now: &[Rule], before: &[Rule], interval_s: f64) -> Vec<RuleRate> {
        // Equal rules are distinguished by their order.
        let mut known: HashMap<String, VecDeque<u64>> = HashMap::new();
        for rule in before {
            let packets = known.entry(key_of(rule)).or_default();
            packets.push_back(packets_of(rule).unwrap_or(0));
        }
        let mut equals: HashMap<String, u64> = HashMap::new();
        let rules = now.iter().map(|rule| {
            let key = key_of(rule);
            let before = known.get_mut(&key).and_then(VecDeque::pop_front);
            let packets = packets_of(rule);
            let rate = rate(packets.unwrap_or(0), before, interval_s);
            let number = equals.entry(key.clone()).or_default();
            *number += 1;
            RuleRate {
                history: self.rules.add(format!("{key} {number}"), rate),
                rule: rule.rule.clone(),
                chain: format!("{} {}", rule.table, rule.chain),
                text: rule.text.clone(),
                packets,
                rate,
            }
        });
        rules.collect()
    }

    /// Adds the packets of an interval, and removes the oldest intervals until one interval or at most LATELY_S remain.
    fn hear(&mut self, talk: Talk, interval_s: f64) {
        self.talks.push_back((interval_s, talk));
        let mut seconds: f64 = self.talks.iter().map(|(interval_s, _)| interval_s).sum();
        while self.talks.len() > 1 && seconds > LATELY_S {
            let oldest = self.talks.pop_front();
            seconds -= oldest.map_or(0.0, |(interval_s, _)| interval_s);
        }
    }

    /// Returns the view of a sample; None for the first sample, which has no rates.
    pub fn view(&mut self, sample: Sample, talk: Talk) -> Option<View> {
        let before = self.before.replace(sample.clone())?;
        let passed_ms = sample.stats.time_ms.saturating_sub(before.stats.time_ms);
        let interval_s = passed_ms.max(1) as f64 / 1000.0;
        let (talk_missed, talk_error) = (talk.missed, talk.error.clone());
        self.hear(talk, interval_s);
        let Sample {
            status,
            stats,
            rules,
        } = sample;
        let queues = status.queues.iter().map(|now| {
            let mut all = before.status.queues.iter();
            let before = all.find(|queue| queue.queue == now.queue);
            queue_of(now, before, interval_s)
        });
        Some(View {
            time_ms: stats.time_ms,
            interval_s,
            ledger: status.ledger.clone(),
            kinds: self.kinds(&stats.total, &before.stats.total, interval_s),
            queues: queues.collect(),
            rules: self.rules(&rules.rules, &before.rules.rules, interval_s),
            talkers: talkers_of(self.talks.iter().rev().take(1)),
            talkers_lately: talkers_of(self.talks.iter()),
            talk_missed,
            talk_error,
            status,
        })
    }
}

/// Sorts rules, those with the highest rate or the most packets first. For Sort::Place, leaves the order of the policy.
pub fn sort(rules: &mut [RuleRate], by: Sort) {
    match by {
        Sort::Rate => rules.sort_by(|a, b| b.rate.total_cmp(&a.rate)),
        Sort::Packets => rules.sort_by_key(|rule| std::cmp::Reverse(rule.packets)),
        Sort::Place => {}
    }
}
