// SPDX-License-Identifier: GPL-2.0-or-later
//! The agent of a host: it carries pointers and bundles from the store to root's service, and asks that the policy be kept if the
//! store answers through it. It has no rights, and one thread.

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
use crate::report::{Phase, Report};
use crate::signed::Signed;
use crate::store::Store;

mod textfile;

/// The pause between two looks at the store, where no watch ends it.
const LOOK: Duration = Duration::from_secs(24);
/// The pause after the first failure; it doubles up to LOOK.
const RETRY: Duration = Duration::from_millis(500);
/// Number of turns between two reads of the ledger.
const LEDGER_LOOKS: u32 = 5;

pub struct Settings {
    pub host: String,
    pub channel: String,
    /// The folder for bundles, the agent's only one.
    pub staging: PathBuf,
    /// The socket of root's service.
    pub local: PathBuf,
    pub tls: Tls,
    /// Address of the firewall's metrics, for Prometheus.
    pub metrics: Option<String>,
    /// A file for the node exporter.
    pub textfile: Option<PathBuf>,
    /// Between two looks.
    pub look: Option<Duration>,
}

pub struct Agent {
    settings: Settings,
    store: Store,
    report: Report,
    /// The report that the store has.
    written: Option<Report>,
    /// The rotation and the pointer that root's service was asked about last.
    rotation: Vec<u8>,
    refused: Vec<u8>,
}

/// The name of this machine, as far as it may stand in a key.
pub fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    match is_name(&name) {
        true => name,
        false => "unnamed".to_owned(),
    }
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
            rotation: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn ask(&mut self, request: &Request, bundle: &[u8]) -> Result<()> {
        self.report.local = client::ask(&self.settings.local, request, bundle)?;
        Ok(())
    }

    /// Notes an error, which stands in the report until something works.
    fn note(&mut self, failure: &Failure) {
        if self.report.error.as_ref() != Some(&failure.text) {
            eprintln!("error: {}", failure.text);
        }
        self.report.error = Some(failure.text.clone());
    }

    /// Writes the report if it has changed.
    fn tell(&mut self) -> Result<()> {
        if self.written.as_ref() == Some(&self.report) {
            return Ok(());
        }
        if let Some(path) = &self.settings.textfile {
            textfile::write(path, &self.report)?;
        }
        let mut report = self.report.clone();
        report.time = unix_seconds();
        self.store.report(&self.settings.host, &report)?;
        self.written = Some(self.report.clone());
        Ok(())
    }

    /// The bundle of a pointer: from the staging folder, or from the store and into it.
    fn bundle(&mut self, pointer: &Pointer) -> Result<Vec<u8>> {
        let path = self.settings.staging.join(&pointer.digest);
        if let Ok(bytes) = file::read_at_most(&path, BUNDLE_MAX) {
            if bundle::digest(&bytes) == pointer.digest {
                return Ok(bytes);
            }
        }
        let tls = self.settings.tls.clone();
        let bytes = self
            .store
            .bundle(&pointer.digest, pointer.url.as_deref(), &tls)?;
        bundle::Bundle::parse(&bytes, &pointer.digest)?;
        for entry in fs::read_dir(&self.settings.staging)
            .into_iter()
            .flatten()
            .flatten()
        {
            let _ = fs::remove_file(entry.path());
        }
        file::replace(&path, &bytes)?;
        Ok(bytes)
    }

    /// Watches the policy that waits, then has it confirmed or undone.
    fn settle(&mut self, pointer: &Pointer) -> Result<()> {
        let generation = pointer.generation;
        let begun = Instant::now();
        sleep(Duration::from_secs(pointer.observe_seconds.into()));
        // Three quarters of the time are for the store; then the host goes back by itself, and says so.
        let end = Duration::from_secs(pointer.confirm_seconds.into()) * 3 / 4;
        let mut pause = RETRY;
        let channel = self.settings.channel.clone();
        let request = loop {
            match self
                .store
                .reach(&channel, end.saturating_sub(begun.elapsed()))
            {
                Ok(()) => break Request::Confirm { generation },
                Err(failure) if begun.elapsed() + pause > end => {
                    let text = &failure.text;
                    let why = format!("the store does not answer through the policy: {text}");
                    break Request::Revert { generation, why };
                }
                Err(_) => sleep(jitter(pause)),
            }
            pause = (pause * 2).min(LOOK);
        };
        self.ask(&request, &[])
    }

    /// Whether root's service should be asked about a pointer.
    fn concerns(&self, pointer: &Pointer, value: &[u8]) -> bool {
        let local = &self.report.local;
        let is_unfinished = matches!(local.phase, Phase::Started | Phase::Pending)
            || local.why.as_deref() == Some("not confirmed in time");
        let is_next = pointer.generation > local.generation
            || pointer.generation == local.generation && is_unfinished;
        is_next && self.refused != value && pointer.reaches(&self.settings.host)
    }

    fn rotate(&mut self) -> Result<()> {
        let channel = self.settings.channel.clone();
        let value = self.store.rotation(&channel)?.unwrap_or_default();
        if value.is_empty() || value == self.rotation {
            return Ok(());
        }
        let keys = Signed::parse(&value)?;
        let asked = self.ask(&Request::Rotate { keys }, &[]);
        // The pointer may be signed with the new keys.
        self.refused.clear();
        self.rotation = value;
        match asked {
            // It was taken before this agent began.
            Err(failure) if failure.text.contains("it is not the one after") => Ok(()),
            asked => asked,
        }
    }

    /// Reads the pointer, and does what it asks for.
    fn look(&mut self) -> Result<()> {
        self.rotate()?;
        let channel = self.settings.channel.clone();
        let Some(value) = self.store.pointer(&channel)? else {
            return Ok(());
        };
        let signed = Signed::parse(&value)?;
        let pointer = Pointer::parse(&signed.text)?;
        if pointer.generation < self.report.local.generation {
            return Err(crate::failure::untrusted(format_args!(
                "the store shows generation {}, this host has had {}: push a newer one",
                pointer.generation, self.report.local.generation
            )));
        }
        if !self.concerns(&pointer, &value) {
            return Ok(());
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
        let bundle = self.bundle(&pointer)?;
        let request = Request::Apply {
            pointer: signed,
            bundle_bytes: bundle.len(),
        };
        if let Err(failure) = self.ask(&request, &bundle) {
            if failure.kind == Kind::Refused {
                self.refused = value;
            }
            let _ = self.ask(&Request::State {}, &[]);
            return Err(failure);
        }
        self.report.wanted = pointer.generation;
        self.report.error = None;
        // Nothing is written before: the policy may cut the store off, and the time runs.
        self.settle(&pointer)
    }

    /// One look at the store with all its duties.
    fn turn(&mut self) -> Result<()> {
        let host = self.settings.host.clone();
        self.store.renew(&host)?;
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

    /// Works until it is ended.
    pub fn run(mut self) -> ! {
        let mut pause = RETRY;
        let mut looks = 0;
        loop {
            if looks % LEDGER_LOOKS == 0 {
                if let Err(failure) = self.ask(&Request::State {}, &[]) {
                    self.note(&failure);
                }
            }
            looks += 1;
            match self.turn() {
                Ok(()) => {
                    pause = RETRY;
                    let channel = self.settings.channel.clone();
                    let about = jitter(self.settings.look.unwrap_or(LOOK));
                    self.store.wait(&channel, about);
                }
                Err(failure) => {
                    self.note(&failure);
                    self.store.forget_watch();
                    sleep(jitter(pause));
                    pause = (pause * 2).min(LOOK);
                }
            }
        }
    }
}
