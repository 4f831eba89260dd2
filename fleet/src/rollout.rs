// SPDX-License-Identifier: GPL-2.0-or-later
//! Operator's side: pushes, waves, rollbacks and the state of hosts. All state is in etcd, and each change of a pointer
//! is a compare-and-set, so that an operation may be killed and run again on any machine.

use std::path::Path;

use minisign::{PublicKey, SecretKey};

use crate::bucket::{bucket, BUCKETS};
use crate::bundle::{Bundle, ETCD_MAX};
use crate::clock::{unix_ms, unix_seconds};
use crate::etcd::Etcd;
use crate::failure::{request, untrusted, Result};
use crate::file;
use crate::hosts::{self, Host, State};
use crate::keys::Keys;
use crate::pointer::{Pointer, POINTER};
use crate::question::{Question, QUESTION};
use crate::signed::{Signed, SIGNED_MAX};
use crate::store::{self, key};

/// Seconds for which a question (a request to hosts to try a policy) is valid, in addition to the seconds of its trial.
pub const ANSWER_SECONDS: u64 = 120;

/// Keys with which the operator signs, and keys that must have signed the store's content.
pub struct Signer {
    pub secret: Vec<SecretKey>,
    /// Keys with which the store's content is verified before it is signed again.
    pub trusted: Keys,
}

impl Signer {
    /// Creates a signer.
    /// - trusted: None: the public keys of `secret`.
    pub fn new(secret: Vec<SecretKey>, trusted: Option<Keys>) -> Result<Signer> {
        let public = |key: &SecretKey| {
            PublicKey::from_secret_key(key)
                .map_err(|error| request(format_args!("a key: {error}: name another one")))
        };
        let trusted = match trusted {
            Some(trusted) => trusted,
            None => Keys {
                need: secret.len(),
                keys: secret.iter().map(public).collect::<Result<_>>()?,
            },
        };
        Ok(Signer { secret, trusted })
    }
}

/// Pointer in etcd (the message that names a channel's policy), with the revision in which it was last written.
pub struct Present {
    pub pointer: Pointer,
    modified: u64,
}

/// Parameters of a push or a rollback.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Shares of the hosts in thousandths, one for each wave. A share includes the waves before it; the last share is
    /// 1000.
    pub waves: Vec<u16>,
    pub not_before: u64,
    pub expires: Option<u64>,
    pub least_version: String,
    pub confirm_seconds: u32,
    pub observe_seconds: u32,
    pub try_seconds: u32,
    pub drops_per_second: Option<u64>,
    /// Address of a bundle that is too large for etcd.
    pub url: Option<String>,
}

/// Reads the pointer of a channel. Returns None if no policy was pushed.
/// - trusted: keys that must have signed the pointer; None: it is only shown, so it is not verified.
pub fn present(etcd: &mut Etcd, channel: &str, trusted: Option<&Keys>) -> Result<Option<Present>> {
    let found = etcd.get(&key::in_etcd(&key::channel(channel)))?;
    let Some(entry) = found.entries.into_iter().next() else {
        return Ok(None);
    };
    Ok(Some(Present {
        pointer: read(&entry.value, channel, trusted)?,
        modified: entry.modified,
    }))
}

/// Parses a signed pointer. Fails if it belongs to another channel.
/// - trusted: keys that must have signed the pointer; None: its signatures are not verified.
fn read(value: &[u8], channel: &str, trusted: Option<&Keys>) -> Result<Pointer> {
    let signed = Signed::parse(value)?;
    if let Some(keys) = trusted {
        signed.verify(keys)?;
    }
    let pointer = Pointer::parse(&signed.text)?;
    match pointer.channel == channel {
        true => Ok(pointer),
        false => Err(untrusted(format_args!(
            "the pointer of channel {channel} is one of {}: the store can't be trusted: find out who writes there",
            pointer.channel
        ))),
    }
}

/// Signs a pointer. Fails if hosts would refuse it.
fn signed(pointer: &Pointer, signer: &Signer) -> Result<Vec<u8>> {
    Pointer::parse(&pointer.text())?;
    Ok(Signed::sign(pointer.text(), &signer.secret)?.value())
}

/// Signs a pointer, replaces the present pointer, and writes the pointer to the history. Fails if the present pointer
/// has changed since it was read.
/// - modified: revision in which the present pointer was written; 0 = there is none.
fn publish(etcd: &mut Etcd, pointer: &Pointer, modified: u64, signer: &Signer) -> Result<()> {
    let value = signed(pointer, signer)?;
    let channel = key::in_etcd(&key::channel(&pointer.channel));
    let history = key::in_etcd(&key::history(&pointer.channel, pointer.generation));
    match etcd.put_if(modified, &[(&channel, &value), (&history, &value)])? {
        true => Ok(()),
        false => Err(request(format_args!(
            "somebody else has changed channel {} meanwhile: see fwctl fleet status, then run it again",
            pointer.channel
        ))),
    }
}

fn pointer_of(channel: &str, generation: u64, digest: String, wishes: &Wishes) -> Pointer {
    Pointer {
        kind: POINTER.to_owned(),
        channel: channel.to_owned(),
        generation,
        digest,
        url: wishes.url.clone(),
        not_before: wishes.not_before,
        expires: wishes.expires,
        least_version: wishes.least_version.clone(),
        waves: wishes.waves.clone(),
        wave: 0,
        confirm_seconds: wishes.confirm_seconds,
        observe_seconds: wishes.observe_seconds,
        try_seconds: wishes.try_seconds,
        drops_per_second: wishes.drops_per_second,
    }
}

/// Returns the waves of a pointer, with the first wave so large that it includes a host that is alive, if there is any.
/// A wave without hosts would prove nothing.
fn with_a_canary(pointer: &Pointer, hosts: &[Host]) -> Vec<u16> {
    let alive = hosts.iter().filter(|host| host.is_alive);
    let buckets = alive.map(|host| bucket(&host.id, &pointer.channel, pointer.generation));
    let least = buckets.min().map_or(0, |first| first + 1);
    let first = pointer.waves.first().copied().unwrap_or(BUCKETS).max(least);
    let rest = pointer.waves.iter().copied().filter(|wave| *wave > first);
    [first].into_iter().chain(rest).collect()
}

/// Stores a bundle in etcd, unless it has an address of its own. Returns its digest.
/// - url: address of the bundle, if it is too large for etcd.
fn store_bundle(etcd: &mut Etcd, bundle: &Bundle, url: Option<&str>) -> Result<String> {
    let (bytes, digest) = bundle.packed();
    if url.is_none() {
        if bytes.len() > ETCD_MAX {
            return Err(request(format_args!(
                "the bundle has {} bytes, more than the {ETCD_MAX} that etcd stores: write it to a file with --bundle FILE, and give its address with --url URL",
                bytes.len()
            )));
        }
        // The key is the digest of the content, so writing it again changes nothing, or repairs it.
        etcd.put(&key::in_etcd(&key::policy(&digest)), &bytes, None)?;
    }
    Ok(digest)
}

/// Stores a bundle, and publishes a pointer to it, with its first wave.
pub fn push(
    etcd: &mut Etcd,
    channel: &str,
    bundle: &Bundle,
    wishes: &Wishes,
    signer: &Signer,
) -> Result<Pointer> {
    let digest = store_bundle(etcd, bundle, wishes.url.as_deref())?;
    let present = present(etcd, channel, Some(&signer.trusted))?;
    let (before, modified) = present.map_or((0, 0), |one| (one.pointer.generation, one.modified));
    let mut pointer = pointer_of(channel, before + 1, digest, wishes);
    pointer.waves = with_a_canary(&pointer, &hosts::read(etcd, channel)?);
    publish(etcd, &pointer, modified, signer)?;
    Ok(pointer)
}

/// Stores a bundle in a folder that agents read, and publishes a pointer to it there. A folder has no rollout: the
/// first wave of `wishes` must reach all hosts.
pub fn push_into(
    folder: &Path,
    channel: &str,
    bundle: &Bundle,
    wishes: &Wishes,
    signer: &Signer,
) -> Result<Pointer> {
    let (bytes, digest) = bundle.packed();
    let name = key::channel(channel);
    let path = folder.join(&name);
    let before = match path.exists() {
        true => {
            let value = file::read_at_most(&path, SIGNED_MAX)?;
            read(&value, channel, Some(&signer.trusted))?.generation
        }
        false => 0,
    };
    let pointer = pointer_of(channel, before + 1, digest, wishes);
    let value = signed(&pointer, signer)?;
    store::write_into(folder, &key::policy(&pointer.digest), &bytes)?;
    store::write_into(folder, &name, &value)?;
    Ok(pointer)
}

/// Returns the latest earlier generation with another policy whose rollout has reached its last wave. Fails if there is
/// none.
fn latest_complete(etcd: &mut Etcd, present: &Pointer, signer: &Signer) -> Result<u64> {
    let channel = &present.channel;
    for generation in (1..present.generation).rev() {
        let found = etcd.get(&key::in_etcd(&key::history(channel, generation)))?;
        let Some(entry) = found.entries.first() else {
            continue;
        };
        let old = read(&entry.value, channel, Some(&signer.trusted))?;
        if old.digest != present.digest && old.wave + 1 == old.waves.len() {
            return Ok(generation);
        }
    }
    Err(request(format_args!(
        "no earlier policy of channel {channel} has reached its last wave: name a generation"
    )))
}

/// Publishes the policy of an earlier generation again, as a new generation. Returns the new pointer and the number of
/// the earlier generation.
/// - generation: None: the latest earlier generation with another policy whose rollout has reached its last wave.
pub fn rollback(
    etcd: &mut Etcd,
    channel: &str,
    generation: Option<u64>,
    wishes: &Wishes,
    signer: &Signer,
) -> Result<(Pointer, u64)> {
    let present = present(etcd, channel, Some(&signer.trusted))?
        .ok_or_else(|| request(format_args!("channel {channel} has no policy: push one")))?;
    let wanted = match generation {
        Some(generation) => generation,
        None => latest_complete(etcd, &present.pointer, signer)?,
    };
    let found = etcd.get(&key::in_etcd(&key::history(channel, wanted)))?;
    let Some(entry) = found.entries.first() else {
        return Err(request(format_args!(
            "channel {channel} had no generation {wanted}: name another one"
        )));
    };
    let old = read(&entry.value, channel, Some(&signer.trusted))?;
    if old.generation != wanted {
        return Err(untrusted(format_args!(
            "generation {wanted} of the history is {}: name another one",
            old.generation
        )));
    }
    let mut pointer = pointer_of(channel, present.pointer.generation + 1, old.digest, wishes);
    pointer.url = old.url;
    publish(etcd, &pointer, present.modified, signer)?;
    Ok((pointer, wanted))
}

/// Asks all hosts of a channel what a policy would drop, for a number of seconds of their traffic. Returns the
/// question's number, which is also in the answers.
pub fn ask(
    etcd: &mut Etcd,
    channel: &str,
    bundle: &Bundle,
    seconds: u32,
    signer: &Signer,
) -> Result<u64> {
    let question = Question {
        kind: QUESTION.to_owned(),
        channel: channel.to_owned(),
        number: unix_ms(),
        digest: store_bundle(etcd, bundle, None)?,
        seconds,
        expires: unix_seconds() + u64::from(seconds) + ANSWER_SECONDS,
    };
    let value = Signed::sign(question.text(), &signer.secret)?.value();
    etcd.put(&key::in_etcd(&key::question(channel)), &value, None)?;
    Ok(question.number)
}

/// Limits that the waves so far must meet before the next wave starts.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of reverted hosts in the waves so far; more of them stop the rollout.
    pub reverted: usize,
    /// Share of the hosts in the waves so far that must have confirmed, in percent of those that are neither silent nor
    /// reverted.
    pub confirmed_percent: usize,
}

/// Result of one step of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Too few hosts have confirmed yet: number of hosts that have confirmed, number of hosts that count. (0, 0): the
    /// pointer's time has not begun.
    Wait(usize, usize),
    /// No host of the waves so far is alive, so nothing shows that the policy works.
    Nobody,
    /// The next wave has begun, or the first wave was enlarged: the new pointer.
    Next(Pointer),
    /// The last wave meets the bounds. Numbers of silent hosts, whose policy is not known, and of other hosts that have
    /// not confirmed, including reverted hosts.
    Done(usize, usize),
    /// Too many hosts have reverted, or all hosts that are not silent: their number, and the reason of the first host.
    Stopped(usize, String),
}

/// Returns the next step of a rollout if no host of the waves so far is present. In the first wave the step is `Next`,
/// with this wave enlarged to include a host that is alive. In a later wave, or if no host is alive, it is `Nobody`.
fn present_canary(pointer: &Pointer, hosts: &[Host]) -> Step {
    let waves = with_a_canary(pointer, hosts);
    match pointer.wave == 0 && waves != pointer.waves {
        true => Step::Next(Pointer {
            waves,
            ..pointer.clone()
        }),
        false => Step::Nobody,
    }
}

/// Returns the next step of a rollout, from the hosts' states.
fn judge(pointer: &Pointer, hosts: &[Host], bounds: Bounds) -> Step {
    let reached: Vec<&Host> = hosts
        .iter()
        .filter(|host| pointer.reaches(&host.id))
        .collect();
    let are = |state: State| {
        let all = reached.iter().copied();
        all.filter(move |host| host.state(pointer) == state)
    };
    let reverted = are(State::Reverted).count();
    let silent = are(State::Silent).count();
    let wanted = reached.len() - silent - reverted;
    let all_reverted = reverted > 0 && wanted == 0;
    if reverted > bounds.reverted || all_reverted {
        let first = are(State::Reverted).next();
        let why = first.map_or(String::new(), |host| format!("{}: {}", host.id, host.why()));
        return Step::Stopped(reverted, why);
    }
    let confirmed = are(State::Confirmed).count();
    if wanted == 0 {
        return present_canary(pointer, hosts);
    }
    if confirmed * 100 < wanted * bounds.confirmed_percent {
        return Step::Wait(confirmed, wanted);
    }
    match pointer.wave + 1 < pointer.waves.len() {
        true => {
            let mut next = pointer.clone();
            next.wave += 1;
            Step::Next(next)
        }
        false => Step::Done(silent, wanted + reverted - confirmed),
    }
}

/// Reads the state of a rollout, and begins its next wave if the bounds allow it.
/// - generation: generation of the rollout. Fails if another generation has replaced it.
pub fn advance(
    etcd: &mut Etcd,
    channel: &str,
    generation: u64,
    bounds: Bounds,
    signer: &Signer,
) -> Result<Step> {
    let present = present(etcd, channel, Some(&signer.trusted))?
        .filter(|one| one.pointer.generation == generation);
    let present = present.ok_or_else(|| {
        request(format_args!(
            "generation {generation} of channel {channel} was replaced by another: see fwctl fleet status"
        ))
    })?;
    if unix_seconds() < present.pointer.not_before {
        return Ok(Step::Wait(0, 0));
    }
    let hosts = hosts::read(etcd, channel)?;
    let step = judge(&present.pointer, &hosts, bounds);
    if let Step::Next(next) = &step {
        publish(etcd, next, present.modified, signer)?;
    }
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::tests::host;
    use crate::pointer::tests::pointer;
    use crate::report::Phase;

    const BOUNDS: Bounds = Bounds {
        reverted: 0,
        confirmed_percent: 100,
    };

    /// Returns a pointer whose first wave reaches about half of the hosts.
    fn half() -> Pointer {
        let mut half = pointer();
        half.waves = vec![500, 1000];
        half
    }

    #[test]
    fn a_wave_follows_when_all_have_confirmed() {
        let half = half();
        let ids: Vec<String> = (0..40).map(|number| format!("h{number}")).collect();
        let (inside, outside): (Vec<&String>, Vec<&String>) =
            ids.iter().partition(|id| half.reaches(id));
        assert!(inside.len() > 5 && outside.len() > 5);
        let mut hosts: Vec<Host> = inside
            .iter()
            .map(|id| host(id, Phase::Confirmed, true))
            .collect();
        hosts.extend(outside.iter().map(|id| host(id, Phase::None, true)));
        assert!(matches!(judge(&half, &hosts, BOUNDS), Step::Next(next) if next.wave == 1));
        let last = Pointer {
            wave: 1,
            ..half.clone()
        };
        let of_all = inside.len() + outside.len();
        assert_eq!(
            judge(&last, &hosts, BOUNDS),
            Step::Wait(inside.len(), of_all)
        );
        hosts[0].report.local.phase = Phase::Pending;
        let count = inside.len();
        assert_eq!(judge(&half, &hosts, BOUNDS), Step::Wait(count - 1, count));
        hosts[0].is_alive = false;
        assert!(matches!(judge(&half, &hosts, BOUNDS), Step::Next(_)));
        hosts[0].report.local.phase = Phase::Reverted;
        assert!(matches!(judge(&half, &hosts, BOUNDS), Step::Stopped(1, _)));
        let one = Bounds {
            reverted: 1,
            ..BOUNDS
        };
        assert!(matches!(judge(&half, &hosts, one), Step::Next(_)));
    }

    #[test]
    fn the_end_of_a_rollout_counts_silent_hosts() {
        let last = Pointer { wave: 1, ..half() };
        let mut hosts = vec![
            host("a", Phase::Confirmed, true),
            host("b", Phase::Confirmed, false),
            host("c", Phase::None, false),
        ];
        assert_eq!(judge(&last, &hosts, BOUNDS), Step::Done(2, 0));
        hosts[1].is_alive = true;
        assert_eq!(judge(&last, &hosts, BOUNDS), Step::Done(1, 0));
        hosts[2].is_alive = true;
        assert_eq!(judge(&last, &hosts, BOUNDS), Step::Wait(2, 3));
    }

    #[test]
    fn a_wave_whose_hosts_all_reverted_is_followed_by_none() {
        let last = Pointer { wave: 1, ..half() };
        let bounds = Bounds {
            reverted: 1,
            ..BOUNDS
        };
        let mut hosts = vec![host("a", Phase::Reverted, true)];
        assert!(matches!(judge(&last, &hosts, bounds), Step::Stopped(1, _)));
        hosts.push(host("b", Phase::Confirmed, true));
        assert_eq!(judge(&last, &hosts, bounds), Step::Done(0, 1));
    }

    #[test]
    fn the_first_wave_reaches_a_host_that_is_there() {
        let ids = ["a", "b", "c"];
        let hosts: Vec<Host> = ids.map(|id| host(id, Phase::None, id != "a")).into();
        let mut tiny = pointer();
        tiny.waves = vec![1, 2, 1000];
        tiny.waves = with_a_canary(&tiny, &hosts);
        let reached: Vec<&&str> = ids[1..].iter().filter(|id| tiny.reaches(id)).collect();
        assert_eq!(reached.len(), 1, "{:?}", tiny.waves);
        assert_eq!(tiny.waves.last(), Some(&1000));
        assert_eq!(with_a_canary(&half(), &[]), [500, 1000]);
    }

    #[test]
    fn a_wave_of_nobody_is_followed_by_none() {
        let mut tiny = pointer();
        tiny.waves = vec![1, 1000];
        assert_eq!(judge(&tiny, &[], BOUNDS), Step::Nobody);
        let silent = host("a", Phase::None, false);
        assert_eq!(
            judge(&tiny, std::slice::from_ref(&silent), BOUNDS),
            Step::Nobody
        );
        // A host that comes later is the canary.
        let hosts = [silent, host("b", Phase::None, true)];
        let Step::Next(next) = judge(&tiny, &hosts, BOUNDS) else {
            panic!("no wave for the host that is there");
        };
        assert!(next.wave == 0 && next.reaches("b"), "{:?}", next.waves);
        assert_eq!(judge(&next, &hosts, BOUNDS), Step::Wait(0, 1));
        let last = Pointer { wave: 1, ..tiny };
        assert_eq!(judge(&last, &[], BOUNDS), Step::Nobody);
    }
}
