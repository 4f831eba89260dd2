// SPDX-License-Identifier: GPL-2.0-or-later
//! `fleet`: distributes a policy to many hosts by crate `fleet` (docs/FLEET.md).

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fleet::bundle::Bundle;
use fleet::clock::unix_seconds;
use fleet::etcd::{Etcd, Login};
use fleet::failure::{at, request, Kind, Result};
use fleet::hosts::{self, Host};
use fleet::keys::{secret, Keys, Rotation, ROTATION};
use fleet::options;
use fleet::rollout::{self, Bounds, Signer, Step, Wishes};
use fleet::signed::Signed;
use fleet::store::key;
use serde_json::json;

use crate::arguments::Arguments;
use crate::failure::{Exit, Failure};
use crate::output;

pub mod arguments;
mod diff;
mod init;
mod status;

use arguments::{
    Advance, Careful, Channel, Fleet, Push, Rollback, Rotate, Servers, Signing, Waiting,
};

/// Minimum pause between two reads of a rollout's state, and pause between two reads of the hosts' answers.
const LOOK: Duration = Duration::from_millis(300);
/// Ratio of the pause after a read of a rollout's state to the time of the read. The pause is at least LOOK and at most
/// LOOK_MAX. Reading the reports of a large fleet costs etcd as much as the hosts' requests. A slow read waits for the
/// hosts' requests, so a pause longer than LOOK_MAX would not help the hosts.
const LOOK_SHARE: u32 = 3;
const LOOK_MAX: Duration = Duration::from_secs(1);

impl From<fleet::failure::Failure> for Failure {
    fn from(failure: fleet::failure::Failure) -> Failure {
        let exit = match failure.kind {
            Kind::Request | Kind::Untrusted => Exit::Usage,
            Kind::Unreachable => Exit::Unreachable,
            Kind::Refused | Kind::Later | Kind::System => Exit::Refused,
        };
        Failure::new(exit, failure.text)
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(at(path))
}

fn etcd(servers: &Servers) -> Result<Etcd> {
    let tls = options::tls(servers.etcd.iter(), servers.ca.as_deref())?;
    let login = servers.login.as_deref().map(Login::read).transpose()?;
    options::etcd(&servers.etcd, &tls, login)
}

fn signer(signing: &Signing) -> Result<Signer> {
    let password = std::env::var("TWINWALL_KEY_PASSWORD").ok();
    let key =
        |path: &std::path::PathBuf| secret(&path.to_string_lossy(), &read(path)?, password.clone());
    let keys = signing.sign.iter().map(key).collect::<Result<_>>()?;
    let trusted = match &signing.keys {
        Some(path) => Some(Keys::parse(&path.to_string_lossy(), &read(path)?)?),
        None => None,
    };
    Signer::new(keys, trusted)
}

fn wishes(careful: &Careful, waves: &[u16], url: Option<&str>) -> Wishes {
    Wishes {
        waves: waves.to_owned(),
        not_before: careful.not_before.unwrap_or(0),
        expires: careful.expires,
        least_version: careful.least_version.clone(),
        confirm_seconds: careful.confirm,
        observe_seconds: careful.observe,
        try_seconds: careful.try_seconds,
        drops_per_second: careful.max_drops,
        url: url.map(str::to_owned),
    }
}

/// Watches a rollout, and begins its waves. Returns Exit::Fine when the rollout is complete, and Exit::Findings if it
/// stopped, or made no progress for `waiting.patience` seconds.
fn follow(
    etcd: &mut Etcd,
    channel: &str,
    generation: u64,
    waiting: &Waiting,
    signer: &Signer,
) -> Result<Exit> {
    let bounds = Bounds {
        reverted: waiting.max_reverted,
        confirmed_percent: waiting.enough,
    };
    let patience = Duration::from_secs(waiting.patience);
    let (mut last, mut since) = (None, Instant::now());
    loop {
        let begun = Instant::now();
        let step = match rollout::advance(etcd, channel, generation, bounds, signer) {
            // An outage of the store is ignored for the time `patience`.
            Err(failure) if failure.kind == Kind::Unreachable && since.elapsed() < patience => {
                sleep(LOOK);
                continue;
            }
            step => step?,
        };
        if last.as_ref() != Some(&step) {
            since = Instant::now();
            match &step {
                Step::Wait(confirmed, wanted) => {
                    output::line(&format!("{confirmed} of {wanted} hosts have confirmed"))
                }
                Step::Nobody => output::line(&format!(
                    "waiting for hosts: none that generation {generation} reaches has reported"
                )),
                Step::Next(next) => output::line(&format!(
                    "wave {}: {}% of the hosts",
                    next.wave + 1,
                    f64::from(next.share()) / 10.0
                )),
                Step::Done(silent, without) => {
                    let hosts = [("silent hosts", *silent), ("hosts without it", *without)];
                    let hosts = hosts.into_iter().filter(|(_, count)| *count > 0);
                    let hosts: Vec<String> = hosts
                        .map(|(kind, count)| format!("{kind} ({count})"))
                        .collect();
                    let rest = match hosts.is_empty() {
                        true => String::new(),
                        false => format!(
                            ", except on {}: see fwctl fleet status {channel}",
                            hosts.join(" and ")
                        ),
                    };
                    output::line(&format!("generation {generation} is everywhere{rest}"));
                    return Ok(Exit::Fine);
                }
                Step::Stopped(count, why) => {
                    output::line(&format!(
                        "STOPPED: {count} went back: {why}: run fwctl fleet rollback {channel}, or push another policy"
                    ));
                    return Ok(Exit::Findings);
                }
            };
        }
        if since.elapsed() > patience {
            output::line(&format!(
                "no progress for {} s: see fwctl fleet status {channel}, then run fwctl fleet advance {channel}",
                patience.as_secs()
            ));
            return Ok(Exit::Findings);
        }
        last = Some(step);
        sleep((begun.elapsed() * LOOK_SHARE).clamp(LOOK, LOOK_MAX));
    }
}

fn push(asked: &Push) -> Result<Exit> {
    let signer = signer(&asked.signing)?;
    let bundle = Bundle::pack(&asked.policy)?;
    if let Some(folder) = &asked.into {
        let wishes = wishes(&asked.careful, &[fleet::bucket::BUCKETS], None);
        let pointer = rollout::push_into(folder, &asked.channel, &bundle, &wishes, &signer)?;
        output::line(&format!(
            "generation {} of channel {} is in {}",
            pointer.generation,
            asked.channel,
            folder.display()
        ));
        return Ok(Exit::Fine);
    }
    if let Some(path) = &asked.bundle {
        fs::write(path, bundle.bytes()).map_err(at(path))?;
    }
    let wishes = wishes(&asked.careful, &asked.waves, asked.url.as_deref());
    let mut etcd = etcd(&asked.servers)?;
    let pointer = rollout::push(&mut etcd, &asked.channel, &bundle, &wishes, &signer)?;
    output::line(&format!(
        "generation {} of channel {}: {}, {} bytes",
        pointer.generation,
        asked.channel,
        &pointer.digest[..12],
        bundle.bytes().len()
    ));
    match asked.waiting.no_wait {
        true => Ok(Exit::Fine),
        false => follow(
            &mut etcd,
            &asked.channel,
            pointer.generation,
            &asked.waiting,
            &signer,
        ),
    }
}

fn advance(asked: &Advance) -> Result<Exit> {
    let signer = signer(&asked.signing)?;
    let mut etcd = etcd(&asked.servers)?;
    let present = rollout::present(&mut etcd, &asked.channel, Some(&signer.trusted))?;
    let present = present.ok_or_else(|| request("nothing was pushed: run fwctl fleet push"))?;
    let generation = present.pointer.generation;
    follow(
        &mut etcd,
        &asked.channel,
        generation,
        &asked.waiting,
        &signer,
    )
}

fn rollback(asked: &Rollback) -> Result<Exit> {
    let signer = signer(&asked.signing)?;
    let mut etcd = etcd(&asked.servers)?;
    let wishes = wishes(&asked.careful, &[fleet::bucket::BUCKETS], None);
    let (pointer, earlier) = rollout::rollback(
        &mut etcd,
        &asked.channel,
        asked.generation,
        &wishes,
        &signer,
    )?;
    let generation = pointer.generation;
    output::line(&format!(
        "generation {generation} of channel {} has the policy of generation {earlier}",
        asked.channel
    ));
    match asked.waiting.no_wait {
        true => Ok(Exit::Fine),
        false => follow(
            &mut etcd,
            &asked.channel,
            generation,
            &asked.waiting,
            &signer,
        ),
    }
}

fn rotate(asked: &Rotate) -> Result<Exit> {
    let signer = signer(&asked.signing)?;
    let keys = read(&asked.new)?;
    Keys::parse(&asked.new.to_string_lossy(), &keys)?;
    let rotation = Rotation {
        kind: ROTATION.to_owned(),
        channel: asked.channel.clone(),
        serial: asked.serial.unwrap_or_else(unix_seconds),
        keys,
    };
    let text = serde_json::to_string(&rotation).unwrap_or_default() + "\n";
    let value = Signed::sign(text, &signer.secret)?.value();
    let name = key::in_etcd(&key::keys(&asked.channel));
    etcd(&asked.servers)?.put(&name, &value, None)?;
    output::line(&format!(
        "rotation {} of the keys is published",
        rotation.serial
    ));
    Ok(Exit::Fine)
}

fn targets(asked: &Channel) -> Result<Exit> {
    let hosts = hosts::read(&mut etcd(&asked.servers)?, &asked.channel)?;
    let target = |host: &Host| {
        let address = host.report.metrics.as_ref()?;
        let labels = json!({"host": host.id, "channel": asked.channel});
        Some(json!({"targets": [address], "labels": labels}))
    };
    let all: Vec<serde_json::Value> = hosts.iter().filter_map(target).collect();
    output::json(&[serde_json::Value::from(all).to_string()]);
    Ok(Exit::Fine)
}

fn forget(host: &str, servers: &Servers) -> Result<Exit> {
    etcd(servers)?.remove(&key::host(host))?;
    output::line(&format!("host {host} is forgotten until it reports again"));
    Ok(Exit::Fine)
}

pub fn run(arguments: &Arguments, asked: &Fleet) -> std::result::Result<Exit, Failure> {
    let done = match asked {
        Fleet::Init(asked) => init::run(asked),
        Fleet::Push(asked) => push(asked),
        Fleet::Advance(asked) => advance(asked),
        Fleet::Status(asked) => status::run(asked, arguments.json),
        Fleet::Diff(asked) => diff::run(asked, arguments.json),
        Fleet::Rollback(asked) => rollback(asked),
        Fleet::Rotate(asked) => rotate(asked),
        Fleet::Targets(asked) => targets(asked),
        Fleet::Forget { host, servers } => forget(host, servers),
    };
    Ok(done?)
}
