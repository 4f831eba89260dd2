// SPDX-License-Identifier: GPL-2.0-or-later
//! The store as an agent sees it: etcd, or a folder at an https or file address. Its content is not trusted.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::bundle::{BUNDLE_MAX, ETCD_MAX};
use crate::etcd::{Entry, Etcd, Watch, PATIENCE};
use crate::failure::{at, request, unreachable, Kind, Result};
use crate::file;
use crate::http::{Connection, Tls, Url};
use crate::report::Report;
use crate::signed::SIGNED_MAX;

/// Seconds without a renewal of the host's lease after which etcd removes the sign that the host is alive.
pub const LEASE_SECONDS: u64 = 60;
/// Minimum age at which a host's lease is renewed.
pub const RENEWAL: Duration = Duration::from_secs(10);
/// Minimum age at which a host's lease is renewed after a change of the channel. A change wakes many hosts at once, and
/// etcd should not have to renew their leases at that time.
pub const RENEWAL_AFTER_CHANGE: Duration = Duration::from_secs(20);

/// Names of keys in etcd, and of files in a folder. In etcd they begin with `twinwall/`.
pub mod key {
    pub const PREFIX: &str = "twinwall/";
    pub const HOSTS: &str = "twinwall/hosts/";
    pub const ALIVE: &str = "twinwall/alive/";

    pub fn channel(name: &str) -> String {
        format!("channel/{name}")
    }
    /// Returns the key of the latest question. It is between the channel's key (of the pointer) and [`behind_channel`],
    /// so that one watch covers pointer and question.
    pub fn question(channel: &str) -> String {
        format!("channel/{channel}/question")
    }
    /// Returns the end of the range of a channel's keys: `0` follows `/`. The range also has the keys of some other
    /// channels: those of `web-2` are in the range of `web`.
    pub fn behind_channel(channel: &str) -> String {
        format!("channel/{channel}0")
    }
    pub fn policy(digest: &str) -> String {
        format!("policy/{digest}")
    }
    pub fn keys(channel: &str) -> String {
        format!("keys/{channel}")
    }
    pub fn history(channel: &str, generation: u64) -> String {
        format!("history/{channel}/{generation:020}")
    }
    pub fn in_etcd(name: &str) -> String {
        format!("{PREFIX}{name}")
    }
    pub fn host(id: &str) -> String {
        format!("{HOSTS}{id}")
    }
    pub fn alive(id: &str) -> String {
        format!("{ALIVE}{id}")
    }
}

/// Store from which hosts get policies.
pub enum Store {
    Etcd(Box<Shared>),
    Folder(Place),
}

/// Client of etcd, with an agent's watch of its channel and the lease of its host.
pub struct Shared {
    etcd: Etcd,
    watch: Option<Watch>,
    lease: Option<String>,
    /// Time at which the lease was made or renewed.
    renewed: Instant,
    /// Revision of etcd's data in the latest answer to a read of keys.
    revision: u64,
    /// Revision in which the pointer that was read last had been written; 0 = none yet.
    pointer: u64,
    /// True if the watch has reported a change since the pointer was read.
    was_told: bool,
}

/// Folder in place of etcd, or file of a bundle, by its path or address.
pub enum Place {
    File(PathBuf),
    Http(Url, Tls),
}

/// Signed messages of a channel, as they are stored.
#[derive(Debug, Default)]
pub struct Messages {
    pub pointer: Option<Vec<u8>>,
    /// Latest rotation of keys (the message with the new keys of the hosts).
    pub rotation: Option<Vec<u8>>,
    /// Latest question (the request to try a policy). A folder has no question, because hosts can't answer there.
    pub question: Option<Vec<u8>>,
}

impl Shared {
    /// Stores the revision of the store's latest answer. Drops the watch if the revision is smaller than before.
    fn see(&mut self, revision: u64) {
        if revision < self.revision {
            // The store was replaced, for example by an old copy. The watch would wait too long for its next revision.
            self.watch = None;
        }
        self.revision = revision;
    }

    fn get(&mut self, name: &str) -> Result<Option<Entry>> {
        let found = self.etcd.get(&key::in_etcd(name))?;
        self.see(found.revision);
        Ok(found.entries.into_iter().next())
    }

    fn messages(&mut self, channel: &str) -> Result<Messages> {
        let names = [
            key::channel(channel),
            key::keys(channel),
            key::question(channel),
        ];
        let keys = names.map(|name| key::in_etcd(&name));
        let mut found = self.etcd.get_all(&keys)?;
        self.see(found.revision);
        let mut take = |key: &String| {
            let at = found.entries.iter().position(|one| one.key == *key)?;
            Some(found.entries.swap_remove(at))
        };
        let pointer = take(&keys[0]);
        let [rotation, question] = [&keys[1], &keys[2]].map(|key| take(key).map(|one| one.value));
        let modified = pointer.as_ref().map_or(0, |entry| entry.modified);
        if modified > self.pointer && self.pointer > 0 && !self.was_told {
            // The watch did not report this change: its connection may be half open.
            self.watch = None;
        }
        (self.pointer, self.was_told) = (modified, false);
        Ok(Messages {
            pointer: pointer.map(|entry| entry.value),
            rotation,
            question,
        })
    }
}

/// Reads a file of a folder. Returns None if it does not exist.
/// - name: empty: the place is the file itself.
/// - most: maximum size in bytes.
fn fetch(place: &Place, name: &str, most: usize) -> Result<Option<Vec<u8>>> {
    match place {
        Place::File(folder) => {
            // Without a name, the place is the file itself, e.g. the address of a bundle.
            let path = match name {
                "" => folder.clone(),
                name => folder.join(name),
            };
            match path.exists() {
                true => file::read_at_most(&path, most).map(Some),
                false => Ok(None),
            }
        }
        Place::Http(url, tls) => {
            let mut connection = Connection::open(url, tls, PATIENCE)?;
            let path = match name {
                "" => String::new(),
                name => format!("/{name}"),
            };
            let headers = "Connection: close\r\n";
            let answer = connection.ask("GET", &path, headers, b"", most)?;
            match answer.status {
                200 => Ok(Some(answer.body)),
                404 => Ok(None),
                status => Err(unreachable(format_args!(
                    "{path}: status {status}: is the folder served?"
                ))),
            }
        }
    }
}

impl Place {
    /// Parses file:///FOLDER, https://HOST/FOLDER or http://HOST/FOLDER.
    pub fn parse(text: &str, tls: &Tls) -> Result<Place> {
        match text.strip_prefix("file://") {
            Some(path) if path.starts_with('/') => Ok(Place::File(PathBuf::from(path))),
            Some(_) => Err(request(format_args!("{text}: write file:///FOLDER"))),
            None => Ok(Place::Http(Url::parse(text)?, tls.clone())),
        }
    }
}

impl Store {
    pub fn etcd(etcd: Etcd) -> Store {
        Store::Etcd(Box::new(Shared {
            etcd,
            watch: None,
            lease: None,
            renewed: Instant::now(),
            revision: 0,
            pointer: 0,
            was_told: false,
        }))
    }

    fn read(&mut self, name: &str, most: usize) -> Result<Option<Vec<u8>>> {
        match self {
            Store::Folder(place) => fetch(place, name, most),
            Store::Etcd(shared) => Ok(shared.get(name)?.map(|entry| entry.value)),
        }
    }

    /// Reads a channel's messages, by one request to etcd.
    pub fn messages(&mut self, channel: &str) -> Result<Messages> {
        match self {
            Store::Folder(place) => Ok(Messages {
                pointer: fetch(place, &key::channel(channel), SIGNED_MAX)?,
                rotation: fetch(place, &key::keys(channel), SIGNED_MAX)?,
                question: None,
            }),
            Store::Etcd(shared) => shared.messages(channel),
        }
    }

    /// Reads a bundle, without verifying it.
    /// - url: address of the bundle, if it is too large for etcd.
    pub fn bundle(&mut self, digest: &str, url: Option<&str>, tls: &Tls) -> Result<Vec<u8>> {
        let read = match url {
            Some(url) => fetch(&Place::parse(url, tls)?, "", BUNDLE_MAX)?,
            None => {
                let most = match self {
                    Store::Etcd(_) => ETCD_MAX,
                    Store::Folder(_) => BUNDLE_MAX,
                };
                self.read(&key::policy(digest), most)?
            }
        };
        read.ok_or_else(|| unreachable(format_args!("bundle {digest} is not there: push again")))
    }

    /// Fails if the store does not answer on a new connection, or refuses (`Kind::Refused`).
    /// - limit: time limit for etcd. A folder at an address has PATIENCE for each step.
    pub fn reach(&mut self, channel: &str, limit: Duration) -> Result<()> {
        match self {
            Store::Folder(place) => fetch(place, &key::channel(channel), SIGNED_MAX).map(|_| ()),
            Store::Etcd(shared) => shared
                .etcd
                .reach(&key::in_etcd(&key::channel(channel)), limit),
        }
    }

    /// Waits until a change of the channel may concern the host, or until `limit` is over. etcd's watch is only a hint:
    /// the caller reads the store. Returns true after a change that may concern the host, or if the watch has ended.
    /// Returns false if the time is over; a folder has no watch.
    /// - concerns: returns true if a value of the pointer's key, which is not verified, may concern the host.
    pub fn wait(
        &mut self,
        channel: &str,
        limit: Duration,
        concerns: impl Fn(&[u8]) -> bool,
    ) -> bool {
        let Store::Etcd(shared) = self else {
            sleep(limit);
            return false;
        };
        let pointer = key::in_etcd(&key::channel(channel));
        if shared.watch.is_none() {
            let end = key::in_etcd(&key::behind_channel(channel));
            shared.watch = shared.etcd.watch(&pointer, &end, shared.revision + 1).ok();
        }
        let begun = Instant::now();
        while let Some(left) = limit.checked_sub(begun.elapsed()) {
            let Some(watch) = &mut shared.watch else {
                sleep(left);
                return false;
            };
            match watch.wait(left) {
                Ok(changes) => {
                    shared.was_told |= !changes.is_empty();
                    let is_hint = |one: &Entry| one.key != pointer || concerns(&one.value);
                    if changes.iter().any(is_hint) {
                        return true;
                    }
                }
                Err(_) => {
                    // The watch has ended, or was compacted. The caller reads the store again soon.
                    shared.watch = None;
                    sleep(left.min(crate::clock::jitter(Duration::from_secs(1))));
                    return true;
                }
            }
        }
        false
    }

    /// Drops a watch whose connection may be dead.
    pub fn forget_watch(&mut self) {
        if let Store::Etcd(shared) = self {
            shared.watch = None;
        }
    }

    /// Marks the host as alive in etcd: renews its lease if it is older than `age`, or creates a lease. Does nothing if
    /// the store is a folder.
    pub fn renew(&mut self, host: &str, age: Duration) -> Result<()> {
        let Store::Etcd(shared) = self else {
            return Ok(());
        };
        if let Some(lease) = &shared.lease {
            if shared.renewed.elapsed() < age {
                return Ok(());
            }
            match shared.etcd.renew(lease) {
                Ok(true) => {
                    shared.renewed = Instant::now();
                    return Ok(());
                }
                Err(failure) if failure.kind == Kind::Unreachable => return Err(failure),
                _ => shared.lease = None,
            }
        }
        let lease = shared.etcd.lease(LEASE_SECONDS)?;
        shared.etcd.put(&key::alive(host), b"", Some(&lease))?;
        (shared.lease, shared.renewed) = (Some(lease), Instant::now());
        Ok(())
    }

    /// Writes the host's report to etcd. Does nothing if the store is a folder.
    pub fn report(&mut self, host: &str, report: &Report) -> Result<()> {
        let Store::Etcd(shared) = self else {
            return Ok(());
        };
        let text = serde_json::to_vec(report).unwrap_or_default();
        shared.etcd.put(&key::host(host), &text, None)
    }
}

/// Writes a value into a folder that agents read.
pub fn write_into(folder: &Path, name: &str, value: &[u8]) -> Result<()> {
    let path = folder.join(name);
    let parent = path.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent).map_err(at(parent))?;
    file::replace(&path, value)?;
    let mode = Permissions::from_mode(0o644);
    std::fs::set_permissions(&path, mode).map_err(at(&path))
}
