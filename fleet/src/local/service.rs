// SPDX-License-Identifier: GPL-2.0-or-later
//! Serves requests, as root. Messages from the socket are trusted only because of their signatures.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

use apply::state::{Generation, Outcome};

use super::protocol::{Answer, Request};
use super::record::{Folder, Rotated};
use super::{health, past, reach, trial};
use crate::bundle::{self, Bundle};
use crate::clock;
use crate::failure::{at, later, refused, untrusted, Kind, Result};
use crate::keys::{Keys, Rotation, ROTATION};
use crate::pointer::Pointer;
use crate::question::Question;
use crate::report::{was_interrupted, Ledger, Local, Phase, Trial};
use crate::signed::Signed;

/// Maximum number of times that a generation is applied if its confirmation is interrupted.
const ATTEMPTS_MAX: u32 = 3;

/// Configuration of this host, as root has written it, and the firewall's ledger, once it was read.
pub struct Host {
    pub id: String,
    pub channel: String,
    /// Path of the file with the public keys that this host trusts.
    pub keys: PathBuf,
    /// State folder of the service.
    pub folder: PathBuf,
    /// State folder of `fwctl apply`.
    pub apply: PathBuf,
    pub fwctl: PathBuf,
    /// Control socket of the firewall; None: there is no firewall.
    pub control: Option<PathBuf>,
    /// Folder of the packets that the unit twinwall-record has recorded.
    pub packets: PathBuf,
    /// Ledger of the firewall and name of its program, once they were read.
    pub asked: OnceCell<(Ledger, Option<String>)>,
}

/// Returns the keys that count: the rotated keys, unless the keys file has been changed since the rotation.
fn keys(host: &Host, folder: &Folder) -> Result<Keys> {
    let text = fs::read_to_string(&host.keys).map_err(at(&host.keys))?;
    let anchor = bundle::digest(text.as_bytes());
    match &folder.record.rotated {
        Some(rotated) if rotated.anchor == anchor => Keys::parse("rotated keys", &rotated.keys),
        _ => Keys::parse(&host.keys.to_string_lossy(), &text),
    }
}

impl Host {
    /// Returns the ledger of the firewall and the name of its program. They are read once per request.
    fn ledger(&self) -> Result<&(Ledger, Option<String>)> {
        if let Some(asked) = self.asked.get() {
            return Ok(asked);
        }
        let read = health::ledger(&self.fwctl, self.control.as_deref())?;
        Ok(self.asked.get_or_init(|| read))
    }

    /// Runs fwctl on the state folder `apply`. Fails with fwctl's error line unless fwctl succeeds.
    fn fwctl(&self, arguments: &[&str]) -> Result<()> {
        let state = self.apply.to_string_lossy();
        let arguments = [arguments, &["--state", &state]].concat();
        let (code, _, said) = health::run(&self.fwctl, &arguments)?;
        let line = said
            .lines()
            .next()
            .unwrap_or("fwctl failed and said nothing");
        match code {
            Some(0) => Ok(()),
            _ => Err(refused(line.trim_start_matches("error: "))),
        }
    }

    /// Returns the latest generation of `fwctl apply` that was made from the given bundle; None if there is none.
    /// - bundle: folder of the bundle.
    fn applied(&self, bundle: &Path) -> Result<Option<Generation>> {
        let file = bundle.join(bundle::POLICY);
        let state = apply::store::read(&self.apply)?.unwrap_or_default();
        let mut all = state.generations.into_iter().rev();
        Ok(all.find(|one| Path::new(&one.file) == file))
    }

    /// Updates the record to the state of `fwctl apply`, which a timer, a reboot or a killed process may have changed.
    fn reconcile(&self, folder: &mut Folder) -> Result<()> {
        let record = &folder.record;
        if !matches!(record.phase, Phase::Started | Phase::Pending) {
            return Ok(());
        }
        let generation = record.generation;
        let applied = self.applied(&folder.bundle(generation))?;
        let record = &mut folder.record;
        match applied.map(|one| (one.outcome, one.why)) {
            Some((Outcome::Confirmed, _)) => {
                record.phase = Phase::Confirmed;
                record.confirmed = generation;
            }
            Some((Outcome::Reverted | Outcome::Unapplied, why))
                if record.phase == Phase::Pending =>
            {
                record.phase = Phase::Reverted;
                record.why = why;
            }
            Some((Outcome::Pending, _)) => record.phase = Phase::Pending,
            _ => return Ok(()),
        }
        folder.write()
    }

    /// Ends the trial if its time is over, and stores its outcome.
    fn end_trial(&self, folder: &mut Folder) -> Result<()> {
        let record = &mut folder.record;
        let is_over = record
            .trial_ends
            .is_some_and(|end| clock::unix_seconds() >= end);
        let Some(one) = record.trial.as_mut().filter(|_| is_over) else {
            return Ok(());
        };
        if let Err(failure) = trial::end(one) {
            one.error = Some(failure.text);
        }
        record.trial_ends = None;
        folder.write()
    }

    /// Returns the host's state. The answer to `apply` has no ledger, because the agent sends another request before it
    /// writes its report.
    fn local(&self, folder: &Folder, request: &Request) -> Local {
        let record = &folder.record;
        let (ledger, twin) = match request {
            Request::Apply { .. } => (Ledger::None, None),
            _ => self.ledger().cloned().unwrap_or_default(),
        };
        Local {
            generation: record.generation,
            digest: record.digest.clone(),
            phase: record.phase,
            why: record.why.clone(),
            confirmed: record.confirmed,
            question: record.question,
            ledger,
            twin,
            trial: record.trial.clone().filter(|_| record.trial_ends.is_none()),
        }
    }

    /// Reverts the pending generation, and stores the reason.
    fn go_back(&self, folder: &mut Folder, why: &str) -> Result<()> {
        let done = self.fwctl(&["revert"]);
        self.reconcile(folder)?;
        if folder.record.phase == Phase::Pending {
            return done;
        }
        folder.record.why = Some(why.to_owned());
        folder.write()
    }

    /// Fails unless the host may accept a pointer now. Checks its channel, generation, digest, version, time and wave,
    /// and the earlier attempts to apply it.
    fn admit(&self, folder: &Folder, pointer: &Pointer) -> Result<()> {
        let record = &folder.record;
        if pointer.channel != self.channel {
            return Err(untrusted(format_args!(
                "the pointer belongs to channel {}, this host to {}: check the address of the store",
                pointer.channel, self.channel
            )));
        }
        if pointer.generation < record.generation {
            return Err(untrusted(format_args!(
                "generation {} is older than {}, which this host has had: push a newer one",
                pointer.generation, record.generation
            )));
        }
        if let Some(why) = pointer.obstacle(clock::unix_seconds()) {
            return Err(refused(format_args!(
                "generation {}: {why}",
                pointer.generation
            )));
        }
        if !pointer.reaches(&self.id) {
            return Err(later("the rollout has not reached this host: wait"));
        }
        if pointer.generation > record.generation {
            return match record.phase {
                Phase::Pending => Err(later("a generation waits for its confirmation: wait")),
                _ => Ok(()),
            };
        }
        if pointer.digest != record.digest {
            return Err(untrusted(format_args!(
                "there are two generations {}: push another one",
                pointer.generation
            )));
        }
        let may_again = was_interrupted(record.phase, record.why.as_deref());
        match may_again && record.attempts < ATTEMPTS_MAX {
            true => Ok(()),
            false => Err(refused(format_args!(
                "generation {} was {} here: push another one",
                pointer.generation,
                record.phase.word()
            ))),
        }
    }

    /// Tries a policy on the packets that the host has recorded: for a question, or if the old or the new policy reads
    /// names. Returns true if the trial has its outcome. Returns false if the kernel must try the policy: it counts
    /// exactly, but only packets that are still to come.
    /// - nothing: path at which a policy without rules is written.
    /// - old: present policy; None: no policy is applied.
    /// - one: in/out: the trial, which gets its outcome.
    fn try_past(
        &self,
        nothing: &Path,
        (old, new): (Option<&Path>, &Path),
        one: &mut Trial,
    ) -> Result<bool> {
        let old_reads = old.is_some_and(|old| trial::reads_names(old).unwrap_or_default());
        if one.question == 0 && !old_reads && !trial::reads_names(new)? {
            return Ok(false);
        }
        match past::decide(&self.fwctl, &self.packets, (old, new), nothing, one) {
            // The firewalls' language lacks parts of nft's language (NAT, flowtables). The kernel tries such policies.
            Err(_) if !trial::reads_names(new)? => Ok(false),
            tried => tried,
        }
    }

    /// Begins a trial of a bundle. After its end, the state has its outcome, or the reason why there is none.
    fn begin_trial(&self, folder: &mut Folder, mut one: Trial, bundle: &Bundle) -> Result<()> {
        let [place, tables, nothing] = folder.tried();
        bundle.unpack(&place)?;
        let policy = place.join(bundle::POLICY);
        let state = apply::store::read(&self.apply)?.unwrap_or_default();
        let applied = state.applied().map(|one| {
            let place = self.apply.join(one.number.to_string());
            place.join(apply::store::POLICY)
        });
        let policies = (applied.as_deref(), policy.as_path());
        let begun = match self.try_past(&nothing, policies, &mut one) {
            Ok(false) => {
                // The kernel can't decide by names: then only drops by the new policy are counted.
                let old = applied
                    .as_deref()
                    .filter(|old| trial::reads_names(old) == Ok(false));
                trial::begin(&policy, old, &tables).map(|()| false)
            }
            tried => tried,
        };
        let record = &mut folder.record;
        let end = clock::unix_seconds() + u64::from(one.seconds);
        record.trial_ends = (begun == Ok(false)).then_some(end);
        one.error = begun.err().map(|failure| failure.text);
        record.trial = Some(one);
        folder.write()
    }

    /// Begins the trial that a message (a question or a pointer) requests, if trusted keys have signed the message.
    /// Fails while another trial runs.
    /// - bytes: the bundle.
    fn try_policy(&self, folder: &mut Folder, message: &Signed, bytes: &[u8]) -> Result<()> {
        if folder.record.trial_ends.is_some() {
            return Err(later("another policy is tried: wait"));
        }
        let text = message.verify(&keys(self, folder)?)?;
        let one = match Question::parse(text) {
            Ok(question) => {
                let is_new = question.number > folder.record.question;
                let is_ours = question.channel == self.channel;
                if !is_new || !is_ours || clock::unix_seconds() >= question.expires {
                    return Err(refused(
                        "the question is old, or another channel's: ask again",
                    ));
                }
                folder.record.question = question.number;
                Trial {
                    question: question.number,
                    digest: question.digest,
                    seconds: question.seconds,
                    ..Trial::default()
                }
            }
            Err(_) => {
                let pointer = Pointer::parse(text)?;
                self.admit(folder, &pointer)?;
                Trial {
                    digest: pointer.digest,
                    seconds: pointer.try_seconds,
                    ..Trial::default()
                }
            }
        };
        let bundle = Bundle::parse(bytes, &one.digest)?;
        self.begin_trial(folder, one, &bundle)
    }

    /// Fails unless the trial that a pointer requires is over, and no rule would newly drop more packets than the
    /// pointer allows. If the trial has failed, or a rule would drop more, records the generation as reverted.
    fn expect_tried(&self, folder: &mut Folder, pointer: &Pointer) -> Result<()> {
        if pointer.try_seconds == 0 {
            return Ok(());
        }
        let record = &mut folder.record;
        let is_over = record.trial_ends.is_none();
        let tried = record.trial.as_ref().filter(|one| {
            is_over && one.digest == pointer.digest && one.seconds >= pointer.try_seconds
        });
        let Some(tried) = tried else {
            return Err(later("the policy was not tried before: wait"));
        };
        let bound = pointer.drops_per_second.unwrap_or(u64::MAX);
        let worst = tried.drops.first();
        let seconds = tried.recorded.unwrap_or(tried.seconds).max(1);
        let worst = worst.filter(|one| one.packets > bound.saturating_mul(seconds.into()));
        let why = match (&tried.error, worst) {
            (Some(error), _) => error.clone(),
            (None, Some(worst)) => format!(
                "it was not applied: {} would newly drop {} packets in {} s, more than {bound} a second",
                worst.rule, worst.packets, seconds
            ),
            (None, None) => return Ok(()),
        };
        record.generation = pointer.generation;
        record.digest = pointer.digest.clone();
        record.phase = Phase::Reverted;
        record.why = Some(why.clone());
        folder.write()?;
        Err(refused(why))
    }

    fn apply(&self, folder: &mut Folder, pointer: &Signed, bytes: &[u8]) -> Result<()> {
        let pointer = Pointer::parse(pointer.verify(&keys(self, folder)?)?)?;
        self.admit(folder, &pointer)?;
        self.expect_tried(folder, &pointer)?;
        let bundle = Bundle::parse(bytes, &pointer.digest)?;
        let place = folder.bundle(pointer.generation);
        bundle.unpack(&place)?;
        let record = &mut folder.record;
        let is_again = record.generation == pointer.generation;
        record.attempts = if is_again { record.attempts + 1 } else { 1 };
        record.generation = pointer.generation;
        record.digest = pointer.digest.clone();
        record.phase = Phase::Started;
        record.why = None;
        record.applied_ms = clock::unix_ms();
        record.observe_seconds = pointer.observe_seconds;
        record.drops_per_second = pointer.drops_per_second;
        folder.write()?;
        folder.keep([pointer.generation, folder.record.confirmed]);
        let policy = place.join(bundle::POLICY);
        let seconds = pointer.confirm_seconds.to_string();
        let applied = self.fwctl(&["apply", "--confirm", &seconds, &policy.to_string_lossy()]);
        folder.record.phase = match &applied {
            Ok(()) => {
                folder.record.applied_ms = clock::unix_ms();
                Phase::Pending
            }
            Err(failure) => {
                folder.record.why = Some(failure.text.clone());
                Phase::Reverted
            }
        };
        folder.write()?;
        applied
    }

    /// Returns the reason why the host is not healthy under the pending generation; None if it is healthy. Fails if it
    /// is too early to decide, or if the store does not answer.
    fn illness(&self, folder: &Folder) -> Result<Option<String>> {
        if self.ledger()?.0 == Ledger::Red {
            return Ok(Some("the firewall's ledger is red".to_owned()));
        }
        let record = &folder.record;
        let Some(applied) = self.applied(&folder.bundle(record.generation))? else {
            return Err(refused("fwctl apply does not know it any more: push again"));
        };
        let passed_ms = clock::unix_ms().saturating_sub(record.applied_ms);
        if passed_ms < u64::from(record.observe_seconds) * 1000 {
            return Err(later(format_args!(
                "generation {} is watched for {} s before it can be confirmed: wait",
                record.generation, record.observe_seconds
            )));
        }
        if let Some(bound) = record.drops_per_second {
            let seconds = passed_ms as f64 / 1000.0;
            if let Some(why) = health::excess(&applied.tables, seconds, bound)? {
                return Ok(Some(why));
            }
        }
        reach::check().map(|()| None)
    }

    fn confirm(&self, folder: &mut Folder, generation: u64) -> Result<()> {
        self.expect_pending(folder, generation)?;
        if let Some(why) = self.illness(folder)? {
            return self.go_back(folder, &why);
        }
        let done = self.fwctl(&["confirm"]);
        self.reconcile(folder)?;
        done
    }

    fn expect_pending(&self, folder: &Folder, generation: u64) -> Result<()> {
        let record = &folder.record;
        match record.phase == Phase::Pending && record.generation == generation {
            true => Ok(()),
            false => Err(refused(format_args!(
                "generation {generation} does not wait for its confirmation: it is {}",
                record.phase.word()
            ))),
        }
    }

    fn rotate(&self, folder: &mut Folder, keys_message: &Signed) -> Result<()> {
        let text = keys_message.verify(&keys(self, folder)?)?;
        let broken = |why: String| untrusted(format_args!("the rotation of keys: {why}"));
        let rotation: Rotation =
            serde_json::from_str(text).map_err(|error| broken(error.to_string()))?;
        let anchor = fs::read(&self.keys).map_err(at(&self.keys))?;
        let anchor = bundle::digest(&anchor);
        // The serial number counts even if root has changed the keys file: an old rotation must not undo the change.
        let present = folder.record.rotated.as_ref();
        let serial = present.map_or(0, |one| one.serial);
        if rotation.kind != ROTATION
            || rotation.channel != self.channel
            || rotation.serial <= serial
        {
            return Err(broken(format!("it is not the one after number {serial}")));
        }
        Keys::parse("the rotation of keys", &rotation.keys)?;
        folder.record.rotated = Some(Rotated {
            serial: rotation.serial,
            keys: rotation.keys,
            anchor,
        });
        folder.write()
    }

    fn serve_request(&self, request: &Request, bundle: &[u8]) -> Result<Local> {
        let mut folder = Folder::open(&self.folder)?;
        self.reconcile(&mut folder)?;
        self.end_trial(&mut folder)?;
        match request {
            Request::State {} => {}
            Request::Try { message, .. } => self.try_policy(&mut folder, message, bundle)?,
            Request::Apply { pointer, .. } => self.apply(&mut folder, pointer, bundle)?,
            Request::Confirm { generation } => self.confirm(&mut folder, *generation)?,
            Request::Revert { generation, why } => {
                self.expect_pending(&folder, *generation)?;
                let why: String = why.chars().filter(|c| !c.is_control()).take(500).collect();
                self.go_back(&mut folder, &why)?;
            }
            Request::Rotate { keys } => self.rotate(&mut folder, keys)?,
        }
        Ok(self.local(&folder, request))
    }

    /// Carries out a request of the agent. Returns the host's state after the request, or the error.
    pub fn serve(&self, request: &Request, bundle: &[u8]) -> Answer {
        match self.serve_request(request, bundle) {
            Ok(local) => Answer::Done(local),
            Err(failure) => match failure.kind {
                Kind::Later | Kind::Unreachable | Kind::System => Answer::Later(failure.text),
                Kind::Request | Kind::Untrusted | Kind::Refused => Answer::Error(failure.text),
            },
        }
    }
}
