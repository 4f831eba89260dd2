// SPDX-License-Identifier: GPL-2.0-or-later
//! `fleet diff`: shows what a policy would newly drop on each host of a channel.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fleet::bundle::Bundle;
use fleet::etcd::Etcd;
use fleet::failure::Result;
use fleet::hosts::{self, Host};
use fleet::report::{Flip, Trial};
use fleet::rollout::{self, ANSWER_SECONDS};
use serde_json::json;

use super::arguments::Diff;
use super::{etcd, signer, LOOK};
use crate::failure::Exit;
use crate::output;
use crate::table::{self, Side};

/// Returns a host's answer to a question (a request to try a policy).
/// - question: number of the question.
fn answer(host: &Host, question: u64) -> Option<&Trial> {
    let trial = host.report.local.trial.as_ref();
    trial.filter(|one| one.question == question)
}

/// Waits until all hosts that are alive have answered, or the time is over. Returns the hosts of the channel.
fn hosts(etcd: &mut Etcd, asked: &Diff, question: u64) -> Result<Vec<Host>> {
    let end = Duration::from_secs(u64::from(asked.seconds) + ANSWER_SECONDS);
    let begun = Instant::now();
    let mut answers: HashMap<String, Trial> = HashMap::new();
    loop {
        let mut hosts = hosts::read(etcd, &asked.channel)?;
        for host in &mut hosts {
            match answer(host, question) {
                Some(trial) => drop(answers.insert(host.id.clone(), trial.clone())),
                // A later trial has replaced the answer in the host's report.
                None if answers.contains_key(&host.id) => {
                    host.report.local.trial = answers.get(&host.id).cloned();
                }
                None => {}
            }
        }
        let mut there = hosts.iter().filter(|host| host.is_alive);
        let have_answered = there.all(|host| answer(host, question).is_some());
        if have_answered || begun.elapsed() > end {
            return Ok(hosts);
        }
        sleep(LOOK);
    }
}

/// Returns the rows of a table: host, packets, flows, the change and its rule.
fn rows(hosts: &[Host], question: u64) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for host in hosts {
        let mut row = |flip: &Flip, words: &str| {
            let flows = flip.flows.map_or(String::new(), |flows| flows.to_string());
            let packets = match flip.packets {
                0 => String::new(),
                packets => packets.to_string(),
            };
            let text = format!("{words}{}", flip.rule);
            rows.push([host.id.clone(), packets, flows, text]);
        };
        match answer(host, question) {
            None if host.is_alive => row(&Flip::default(), "no answer"),
            None => row(&Flip::default(), "silent"),
            Some(Trial {
                error: Some(error), ..
            }) => row(&Flip::default(), error),
            Some(trial) => {
                trial.drops.iter().for_each(|flip| row(flip, "dropped by "));
                let passes = trial.passes.iter();
                passes.for_each(|flip| row(flip, "accepted, now dropped by "));
            }
        }
    }
    rows
}

fn text(hosts: &[Host], question: u64, seconds: u32) -> Vec<String> {
    let mut all = vec![["host", "packets", "flows", "would be"].map(str::to_owned)];
    all.extend(rows(hosts, question));
    let answers = hosts.iter().filter_map(|host| answer(host, question));
    let tried: Vec<&Trial> = answers.filter(|one| one.error.is_none()).collect();
    let recorded = tried.iter().filter(|one| one.recorded.is_some()).count();
    let mut lines = vec![format!(
        "{} of {} hosts tried the policy: {recorded} on their last {seconds} s, {} on the {seconds} s that followed",
        tried.len(),
        hosts.len(),
        tried.len() - recorded
    )];
    match all.len() > 1 {
        true => lines.extend(table::lines(
            [Side::Left, Side::Right, Side::Right, Side::Left],
            &all,
        )),
        false => lines.push("nothing would be decided otherwise".to_owned()),
    }
    lines
}

pub fn run(asked: &Diff, is_json: bool) -> Result<Exit> {
    let signer = signer(&asked.signing)?;
    let bundle = Bundle::pack(&asked.policy)?;
    let mut etcd = etcd(&asked.servers)?;
    let question = rollout::ask(&mut etcd, &asked.channel, &bundle, asked.seconds, &signer)?;
    let hosts = hosts(&mut etcd, asked, question)?;
    let object = |host: &Host| {
        json!({"host": host.id, "alive": host.is_alive, "trial": answer(host, question)})
            .to_string()
    };
    match is_json {
        true => output::json(&hosts.iter().map(object).collect::<Vec<_>>()),
        false => output::lines(&text(&hosts, question, asked.seconds)),
    };
    let is_fine = |host: &Host| match answer(host, question) {
        Some(trial) => trial.error.is_none() && trial.drops.is_empty(),
        None => !host.is_alive,
    };
    Ok(match hosts.iter().all(is_fine) {
        true => Exit::Fine,
        false => Exit::Findings,
    })
}
