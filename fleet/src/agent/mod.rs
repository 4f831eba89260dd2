// SPDX-License-Identifier: GPL-2.0-or-later
//! Agent of a host. It passes pointers (signed messages that name a policy) and bundles (the policy's files) from the
//! store to root's service. It requests the confirmation of a new policy if it can still reach the store. It has no
//! privileges, and one thread.

use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::bundle::{self, BUNDLE_MAX};
use crate::clock::{jitter, unix_seconds};
use crate::failure::{Failure, Kind, Result};
use crate::file;
use crate::http::Tls;
use crate::local::client;
use crate::local::protocol::Request;
use crate::pointer::{is_name, Pointer, VERSION};
use crate::question::Question;
use crate::report::{was_interrupted, Phase, Report};
use crate::signed::Signed;
use crate::store::{Store, RENEWAL, RENEWAL_AFTER_CHANGE};

mod textfile;

/// Average pause between two checks of the store for new messages. A change that etcd's watch reports ends the pause.
const LOOK: Duration = Duration::from_secs(24);
/// Pause after the first failure of a check of the store or of a confirmation. It doubles after each further failure,
/// up to LOOK.
const RETRY: Duration = Duration::from_millis(500);
/// Minimum time between two regular reads of the firewall's ledger, as a multiple of the pause between two checks of
/// the store. A change of the channel causes no read: it would start a process on each host at the same time.
const LEDGER_LOOKS: u32 = 5;

pub struct Settings {
    pub host: String,
    pub channel: String,
    /// Staging folder, for the bundle that was fetched last.
    pub staging: PathBuf,
    /// Unix socket of the host's service that runs as root (twinwall-fleet-local).
    pub local: PathBuf,
    pub tls: Tls,
    /// Address of the firewall's metrics for Prometheus, which the host's report contains; None: the report has none.
    pub metrics: Option<String>,
    /// File to which the agent writes its metrics, for the node exporter's textfile collector; None: no file.
    pub textfile: Option<PathBuf>,
    /// Average pause between two checks of the store; None: LOOK.
    pub look: Option<Duration>,
}

pub struct Agent {
    settings: Settings,
    store: Store,
    report: Report,
    /// Report that was last written to the store; None: none yet.
    written: Option<Report>,
    /// Time at which root's service was last asked for the ledger; None: never.
    ledger_read: Option<Instant>,
    /// Latest handled rotation of keys, as it is stored. Root's service need not be asked about it again.
    rotation: Vec<u8>,
    /// Latest refused pointer (the signed message that names a policy), as it is stored, and the reason. None: no
    /// pointer was refused since the last rotation of keys.
    refused: Option<(Vec<u8>, Failure)>,
    /// Latest handled question (a signed request to try a policy), as it is stored.
    question: Vec<u8>,
    /// End of the trial that the latest question requests, while it runs.
    trial_ends: Option<Instant>,
}

/// Returns the name of this machine; "unnamed" if the name is not allowed in keys.
pub fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    match is_name(&name) {
        true => name,
        false => "unnamed".to_owned(),
    }
}

/// Returns true if root's service should be asked about a pointer (the signed message that names a policy): the rollout
/// has reached this host, and the pointer's generation is new or unfinished.
fn concerns(settings: &Settings, report: &Report, pointer: &Pointer) -> bool {
    let local = &report.local;
    let is_unfinished =
        local.phase == Phase::Pending || was_interrupted(local.phase, local.why.as_deref());
    let is_next = pointer.generation > local.generation
        || pointer.generation == local.generation && is_unfinished;
    is_next && pointer.reaches(&settings.host)
}

impl Agent {
    pub fn new(settings: Settings, store: Store) -> Agent {
        let report = Report {
            channel: settings.channel.clone(),
            version: VERSION.to_owned(),
            metrics: settings.metrics.clone(),
            ..Report::default()
        };
        Agent {
            settings,
            store,
            report,
            written: None,
            ledger_read: None,
            rotation: Vec::new(),
            refused: None,
            question: Vec::new(),
            trial_ends: None,
        }
    }

    fn ask(&mut self, request: &Request, bundle: &[u8]) -> Result<()> {
        self.report.local = client::ask(&self.settings.local, request, bundle)?;
        Ok(())
    }

    /// Stores an error in the report, and prints it on stderr if the report did not have it. The error stays in the
    /// report until the next error, until a check of the store succeeds, or until root's service accepts a policy.
    fn note(&mut self, failure: &Failure) {
        if self.report.error.as_ref() != Some(&failure.text) {
            eprintln!("error: {}", failure.text);
        }
        self.report.error = Some(failure.text.clone());
    }

    /// Writes the report to the store if it has changed.
    fn tell(&mut self) -> Result<()> {
        if self.written.as_ref() == Some(&self.report) {
            return Ok(());
        }
        let mut report = self.report.clone();
        report.time = unix_seconds();
        self.store.report(&self.settings.host, &report)?;
        self.written = Some(self.report.clone());
        Ok(())
    }

    /// Writes the textfile with the metrics, if the settings name one. Writes also if the metrics have not changed: the
    /// alert for silent hosts reads the time of the file. An outage of the store does not prevent the write.
    fn write_metrics(&mut self) {
        let Some(path) = &self.settings.textfile else {
            return;
        };
        if let Err(failure) = textfile::write(path, &self.report) {
            self.note(&failure);
        }
    }

    /// Returns a bundle: from the staging folder, otherwise from the store. A bundle from the store replaces all files
    /// in the staging folder.
    /// - url: address of the bundle, if it is too large for etcd.
    fn bundle(&mut self, digest: &str, url: Option<&str>) -> Result<Vec<u8>> {
        let path = self.settings.staging.join(digest);
        if let Ok(bytes) = file::read_at_most(&path, BUNDLE_MAX) {
            if bundle::digest(&bytes) == digest {
                return Ok(bytes);
            }
        }
        let tls = self.settings.tls.clone();
        let bytes = self.store.bundle(digest, url, &tls)?;
        bundle::Bundle::parse(&bytes, digest)?;
        for entry in fs::read_dir(&self.settings.staging)
            .into_iter()
            .flatten()
            .flatten()
        {
            let _ = fs::remove_file(entry.path());
        }
        // The digest is verified at each read, so nothing depends on the disk.
        file::replace_soon(&path, &bytes)?;
        Ok(bytes)
    }

    /// Renews the host's lease and writes the metrics, during a pause. Errors of the store are ignored.
    fn stay_alive(&mut self) {
        let _ = self.store.renew(&self.settings.host, RENEWAL);
        self.write_metrics();
    }

    /// Pauses. Meanwhile renews the lease, and writes the metrics.
    fn pause(&mut self, time: Duration) {
        let begun = Instant::now();
        while let Some(left) = time.checked_sub(begun.elapsed()) {
            sleep(left.min(LOOK));
            if begun.elapsed() < time {
                self.stay_alive();
            }
        }
    }

    /// Pauses for `time`, or until the channel has a change that may concern this host. Renews the lease meanwhile.
    /// Returns true if the pause ended because of a change or of the watch's end; false if the time is over.
    fn wait_for_change(&mut self, time: Duration) -> bool {
        let begun = Instant::now();
        let mut has_changed = false;
        while let Some(left) = time.checked_sub(begun.elapsed()) {
            let (store, rest) = (&mut self.store, left.min(LOOK));
            let (settings, report, refused) = (&self.settings, &self.report, &self.refused);
            let may_concern = |value: &[u8]| {
                let pointer = Signed::parse(value).and_then(|one| Pointer::parse(&one.text));
                // A pointer that can't be parsed, or is older, is read too: its error belongs in the report.
                pointer.map_or(true, |pointer| {
                    let is_refused = refused.as_ref().is_some_and(|(one, _)| one == value);
                    pointer.generation < report.local.generation
                        || !is_refused && concerns(settings, report, &pointer)
                })
            };
            has_changed = store.wait(&settings.channel, rest, may_concern);
            if has_changed || begun.elapsed() >= time {
                break;
            }
            self.stay_alive();
        }
        has_changed
    }

    /// Waits until the observation time of the pending policy is over. Then checks the store and requests the
    /// confirmation, until both succeed. Requests the revert if they have not succeeded after three quarters of the
    /// time limit for the confirmation. Fails if the policy is no longer pending.
    fn settle(&mut self, pointer: &Pointer) -> Result<()> {
        let generation = pointer.generation;
        let begun = Instant::now();
        self.pause(Duration::from_secs(pointer.observe_seconds.into()));
        // The store may be unreachable for three quarters of the time. Then the agent requests the revert, with its
        // reason.
        let end = Duration::from_secs(pointer.confirm_seconds.into()) * 3 / 4;
        let mut pause = RETRY;
        let channel = self.settings.channel.clone();
        loop {
            let left = end.saturating_sub(begun.elapsed());
            let reached = self.store.reach(&channel, left);
            // Root's service checks the store as well.
            let done = reached.and_then(|()| self.ask(&Request::Confirm { generation }, &[]));
            let Err(failure) = done else {
                return Ok(());
            };
            self.ask(&Request::State {}, &[])?;
            if self.report.local.phase != Phase::Pending {
                return Err(failure);
            }
            if begun.elapsed() + pause > end {
                let text = &failure.text;
                let why = format!("the store does not answer through the policy: {text}");
                return self.ask(&Request::Revert { generation, why }, &[]);
            }
            if failure.kind != Kind::Unreachable {
                // The store answers the agent, and root's check fails. This may take longer than a lease.
                let _ = self.store.renew(&self.settings.host, RENEWAL);
            }
            sleep(jitter(pause));
            pause = (pause * 2).min(LOOK);
        }
    }

    /// Returns true if the trial of a bundle has its outcome already: the host has decided recorded packets, or the
    /// trial has failed.
    /// - question: number of the question that requests the trial; 0 = the trial of a pointer.
    fn has_tried(&self, question: u64, digest: &str) -> bool {
        let trial = self.report.local.trial.as_ref();
        trial.is_some_and(|one| one.question == question && one.digest == digest)
    }

    /// Requests the trial of a pointer's policy on the host's traffic, if the pointer requires a trial. Waits for its
    /// end.
    fn try_first(&mut self, pointer: &Pointer, signed: &Signed, bundle: &[u8]) -> Result<()> {
        if pointer.try_seconds == 0 {
            return Ok(());
        }
        // The trial replaces the answer to a question, so the store must have the answer before.
        if self.trial_ends.is_some() {
            self.ask(&Request::State {}, &[])?;
        }
        if self.report.local.trial.is_some() {
            self.tell()?;
        }
        let request = Request::Try {
            message: signed.clone(),
            bundle_bytes: bundle.len(),
        };
        self.ask(&request, bundle)?;
        if !self.has_tried(0, &pointer.digest) {
            // One more second, because the service counts whole seconds.
            self.pause(Duration::from_secs(u64::from(pointer.try_seconds) + 1));
        }
        Ok(())
    }

    /// Handles the question in the store (a signed request to try a policy), if it is new and valid: requests the trial
    /// from root's service.
    fn take_question(&mut self, value: Vec<u8>) -> Result<()> {
        if value.is_empty() || value == self.question {
            return Ok(());
        }
        let message = Signed::parse(&value)?;
        let question = Question::parse(&message.text)?;
        let is_new = question.number > self.report.local.question;
        if is_new && unix_seconds() < question.expires {
            let bundle = self.bundle(&question.digest, None)?;
            let bundle_bytes = bundle.len();
            self.ask(
                &Request::Try {
                    message,
                    bundle_bytes,
                },
                &bundle,
            )?;
            if !self.has_tried(question.number, &question.digest) {
                let seconds = u64::from(question.seconds) + 1;
                self.trial_ends = Some(Instant::now() + Duration::from_secs(seconds));
            }
        }
        self.question = value;
        Ok(())
    }

    fn rotate(&mut self, value: Vec<u8>) -> Result<()> {
        if value.is_empty() || value == self.rotation {
            return Ok(());
        }
        let keys = Signed::parse(&value)?;
        let asked = self.ask(&Request::Rotate { keys }, &[]);
        if asked.as_ref().is_err_and(|one| one.kind != Kind::Refused) {
            return asked;
        }
        // The pointer may be signed with the new keys.
        self.refused = None;
        self.rotation = value;
        match asked {
            // The service has accepted this rotation before this agent began.
            Err(failure) if failure.text.contains("it is not the one after") => Ok(()),
            asked => asked,
        }
    }

    /// Handles the pointer in the store (the signed message that names a policy), if it is new, valid and for this
    /// host: makes root's service apply its policy, and waits for the confirmation or the revert. An earlier refusal of
    /// the same pointer is returned again.
    fn take_pointer(&mut self, value: Vec<u8>) -> Result<()> {
        let signed = Signed::parse(&value)?;
        let pointer = Pointer::parse(&signed.text)?;
        if pointer.generation < self.report.local.generation {
            return Err(crate::failure::untrusted(format_args!(
                "the store shows generation {}, this host has had {}: push a newer one",
                pointer.generation, self.report.local.generation
            )));
        }
        self.report.wanted = pointer.generation;
        if !concerns(&self.settings, &self.report, &pointer) {
            return Ok(());
        }
        if let Some((refused, failure)) = &self.refused {
            if *refused == value {
                return Err(failure.clone());
            }
        }
        if self.report.local.phase == Phase::Pending {
            return self.settle(&pointer);
        }
        if let Some(why) = pointer.obstacle(unix_seconds()) {
            return Err(crate::failure::refused(format_args!(
                "generation {}: {why}",
                pointer.generation
            )));
        }
        let bundle = self.bundle(&pointer.digest, pointer.url.as_deref())?;
        let tried = self.try_first(&pointer, &signed, &bundle);
        let request = Request::Apply {
            pointer: signed,
            bundle_bytes: bundle.len(),
        };
        if let Err(failure) = tried.and_then(|()| self.ask(&request, &bundle)) {
            if failure.kind == Kind::Refused {
                self.refused = Some((value, failure.clone()));
            }
            let _ = self.ask(&Request::State {}, &[]);
            return Err(failure);
        }
        self.report.error = None;
        // The report is not written first: the policy may cut off the store, and the time for the confirmation has
        // begun.
        self.settle(&pointer)
    }

    /// Reads the channel's messages (rotation of keys, question, pointer), and carries them out.
    fn look(&mut self) -> Result<()> {
        let channel = self.settings.channel.clone();
        let messages = self.store.messages(&channel)?;
        self.rotate(messages.rotation.unwrap_or_default())?;
        let tried = self.take_question(messages.question.unwrap_or_default());
        // A question that fails must not delay the pointer.
        let applied = messages
            .pointer
            .map_or(Ok(()), |value| self.take_pointer(value));
        applied.and(tried)
    }

    /// Checks the store once: renews the lease, carries out messages, and writes the report. Fails if the store can't
    /// be reached, or the lease or the report can't be written. Other errors of messages are only noted in the report.
    /// - age: minimum age at which the lease is renewed.
    fn turn(&mut self, age: Duration) -> Result<()> {
        self.store.renew(&self.settings.host, age)?;
        let looked = self.look();
        match &looked {
            Ok(()) => self.report.error = None,
            Err(failure) => self.note(failure),
        }
        self.report.wanted = self.report.wanted.max(self.report.local.generation);
        self.tell()?;
        match looked {
            Err(failure) if failure.kind == Kind::Unreachable => Err(failure),
            _ => Ok(()),
        }
    }

    /// Requests the host's state, with its ledger and latest trial, from root's service: if LEDGER_LOOKS pauses have
    /// passed since the last read, or if the trial of a question has ended.
    /// - look: pause between two checks of the store.
    fn read_ledger(&mut self, look: Duration) {
        let has_answer = self.trial_ends.is_some_and(|end| Instant::now() >= end);
        if has_answer {
            self.trial_ends = None;
        }
        let is_old = |read: Instant| read.elapsed() >= look * LEDGER_LOOKS;
        if !has_answer && !self.ledger_read.is_none_or(is_old) {
            return;
        }
        self.ledger_read = Some(Instant::now());
        if let Err(failure) = self.ask(&Request::State {}, &[]) {
            self.note(&failure);
        }
    }

    /// Checks the store again and again, until the process is ended.
    pub fn run(mut self) -> ! {
        let look = self.settings.look.unwrap_or(LOOK);
        let mut pause = RETRY;
        let mut age = RENEWAL;
        loop {
            self.read_ledger(look);
            let done = self.turn(age);
            if let Err(failure) = &done {
                self.note(failure);
            }
            self.write_metrics();
            if done.is_err() {
                self.store.forget_watch();
                sleep(jitter(pause));
                (pause, age) = ((pause * 2).min(LOOK), RENEWAL);
                continue;
            }
            pause = RETRY;
            let about = jitter(look);
            let end = self.trial_ends;
            let end = end.map(|end| end.saturating_duration_since(Instant::now()));
            age = match self.wait_for_change(about.min(end.unwrap_or(about))) {
                true => RENEWAL_AFTER_CHANGE,
                false => RENEWAL,
            };
        }
    }
}
