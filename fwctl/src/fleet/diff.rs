// SPDX-License-Identifier: GPL-2.0-or-later
//! `fleet diff`: shows what a policy would newly drop on each host of a channel.

use std::thread::sleep;
use std::time::{Duration, Instant};

use fleet::bundle::Bundle;
use fleet::etcd::Etcd;
use fleet::failure::Result;
use fleet::report::Trial;
use fleet::rollout::{self, Host, ANSWER_SECONDS};
use serde_json::json;

use super::arguments::Diff;
use super::{etcd, signer, LOOK};
use crate::failure::Exit;
use crate::output;
use crate::table::{self, Side};

/// Returns a host's answer to a question.
fn answer(host: &Host, question: u64) -> Option<&Trial> {
    let trial = host.report.local.trial.as_ref();
    trial.filter(|one| one.question == question)
}

/// Waits until all reachable hosts have answered, or the time is over.
fn hosts(etcd: &mut Etcd, asked: &Diff, question: u64) -> Result<Vec<Host>> {
    let end = Duration::from_secs(u64::from(asked.seconds) + ANSWER_SECONDS);
    let begun = Instant::now();
    loop {
        let hosts = rollout::hosts(etcd, &asked.channel)?;
        let mut there = hosts.iter().filter(|host| host.is_alive);
        let have_answered = there.all(|host| answer(host, question).is_some());
        if have_answered || begun.elapsed() > end {
            return Ok(hosts);
        }
        sleep(LOOK);
    }
}

/// Returns the rows of a table: host, packets, rule.
fn rows(hosts: &[Host], question: u64) -> Vec<[String; 3]> {
    let mut rows = Vec::new();
    for host in hosts {
        let mut row = |packets: String, text: &str| {
            rows.push([host.id.clone(), packets, text.to_owned()]);
        };
        match answer(host, question) {
            None if host.is_alive => row(String::new(), "no answer"),
            None => row(String::new(), "silent"),
            Some(Trial {
                error: Some(error), ..
            }) => row(String::new(), error),
            Some(trial) => {
                for flip in &trial.drops {
                    row(flip.packets.to_string(), &flip.rule);
                }
                if trial.passes > 0 {
                    row(trial.passes.to_string(), "are dropped now and would pass");
                }
            }
        }
    }
    rows
}

fn text(hosts: &[Host], question: u64, seconds: u32) -> Vec<String> {
    let mut all = vec![["host", "packets", "would newly be dropped by"].map(str::to_owned)];
    all.extend(rows(hosts, question));
    let answers = hosts.iter().filter_map(|host| answer(host, question));
    let tried = answers.filter(|one| one.error.is_none()).count();
    let mut lines = vec![format!(
        "{tried} of {} hosts tried the policy on {seconds} s of their traffic",
        hosts.len()
    )];
    match all.len() > 1 {
        true => lines.extend(table::lines([Side::Left, Side::Right, Side::Left], &all)),
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
