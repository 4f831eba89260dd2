// SPDX-License-Identifier: GPL-2.0-or-later
//! Pointer: the signed message that names the policy of a channel's hosts, and the rules of its rollout. `fwctl fleet`
//! signs it.

use serde::{Deserialize, Serialize};

use crate::bucket::{bucket, BUCKETS};
use crate::failure::{untrusted, Result};
use crate::question::TRY_SECONDS_MAX;

/// Value of `kind` in a pointer (the signed message that names the policy of a channel's hosts).
pub const POINTER: &str = "twinwall-pointer";
/// Version of this program, which hosts compare with `least_version`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
const CONFIRM_SECONDS_MAX: u32 = 86400;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pointer {
    /// Kind of the message, always POINTER.
    pub kind: String,
    pub channel: String,
    /// Number that rises with each push and rollback. A host never accepts a smaller number.
    pub generation: u64,
    /// SHA-256 of the bundle (the policy's files), in hexadecimal.
    pub digest: String,
    /// Address of a bundle that is too large for etcd: https://… or file:///…; None: the store has the bundle.
    pub url: Option<String>,
    /// Start of the time in which hosts may apply the policy, in seconds since 1970.
    pub not_before: u64,
    /// End of the time in which hosts may apply the policy, in seconds since 1970; None: no end.
    pub expires: Option<u64>,
    /// Version that a host must have at least, e.g. "0.1.0".
    pub least_version: String,
    /// Shares of the hosts in thousandths, one for each wave. A share includes the waves before it; the last share is
    /// 1000.
    pub waves: Vec<u16>,
    /// Index in `waves` of the present wave.
    pub wave: usize,
    /// Seconds after which a host reverts unless the policy is confirmed.
    pub confirm_seconds: u32,
    /// Seconds for which a host observes the policy before it may be confirmed.
    pub observe_seconds: u32,
    /// Seconds of traffic on which a host tries the policy before it applies it; 0 = no trial.
    pub try_seconds: u32,
    /// Packets per second that each rule may drop before the confirmation, and may newly drop in the trial. None: no
    /// limit.
    pub drops_per_second: Option<u64>,
}

/// Returns the numbers of a version, for comparisons. None if it is no version.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let parts = version.split('.');
    parts.map(|part| part.parse().ok()).collect()
}

/// Returns true if a name is allowed in keys and paths: 1 to 64 of a-z, A-Z, 0-9, `-`, `_` and `.`, not beginning with
/// a dot.
pub fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&name.len()) && !name.starts_with('.') && name.chars().all(is_plain)
}

/// Returns true if a text is a SHA-256 in lower-case hexadecimal.
pub fn is_digest(text: &str) -> bool {
    let is_hex = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 64 && text.bytes().all(is_hex)
}

impl Pointer {
    /// Parses the text of a pointer. Does not verify its signatures.
    pub fn parse(text: &str) -> Result<Pointer> {
        let broken = |why: &str| untrusted(format_args!("the pointer: {why}: push again"));
        let read: Pointer = serde_json::from_str(text).map_err(|error| {
            untrusted(format_args!(
                "the pointer is of another version: {error}: update this host"
            ))
        })?;
        let rises = read.waves.windows(2).all(|pair| pair[0] < pair[1]);
        for (holds, why) in [
            (read.kind == POINTER, "it is something else"),
            (is_name(&read.channel), "a bad name of a channel"),
            (read.generation > 0, "generation 0"),
            (is_digest(&read.digest), "no digest"),
            (
                rises && read.waves.last() == Some(&BUCKETS) && read.waves[0] > 0,
                "waves that don't rise to 1000",
            ),
            (read.wave < read.waves.len(), "there is no such wave"),
            (
                (1..=CONFIRM_SECONDS_MAX).contains(&read.confirm_seconds)
                    && read.observe_seconds < read.confirm_seconds,
                "it can't be confirmed in time",
            ),
            (
                read.try_seconds <= TRY_SECONDS_MAX,
                "a trial that takes too long",
            ),
            (
                numbers(&read.least_version).is_some(),
                "least_version is no version",
            ),
        ] {
            if !holds {
                return Err(broken(why));
            }
        }
        Ok(read)
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Returns the share of hosts that the rollout has reached, in thousandths.
    pub fn share(&self) -> u16 {
        self.waves.get(self.wave).copied().unwrap_or(0)
    }

    /// Returns true if the rollout has reached a host.
    pub fn reaches(&self, host: &str) -> bool {
        bucket(host, &self.channel, self.generation) < self.share()
    }

    /// Returns the reason why a host can't apply the policy now, by its clock and version. None if it can.
    pub fn obstacle(&self, now: u64) -> Option<String> {
        if numbers(VERSION) < numbers(&self.least_version) {
            let least = &self.least_version;
            return Some(format!("it needs version {least}: update this host"));
        }
        if now < self.not_before {
            return Some("its time has not come".to_owned());
        }
        let is_over = self.expires.is_some_and(|expires| now >= expires);
        is_over.then(|| "it has expired: push again, or set this host's clock".to_owned())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn pointer() -> Pointer {
        Pointer {
            kind: POINTER.to_owned(),
            channel: "web".to_owned(),
            generation: 1,
            digest: "0".repeat(64),
            url: None,
            not_before: 100,
            expires: Some(200),
            least_version: "0.1.0".to_owned(),
            waves: vec![10, 1000],
            wave: 0,
            confirm_seconds: 60,
            observe_seconds: 5,
            try_seconds: 0,
            drops_per_second: None,
        }
    }

    #[test]
    fn a_pointer_is_read_as_it_was_written() {
        let pointer = pointer();
        assert_eq!(Pointer::parse(&pointer.text()).unwrap(), pointer);
    }

    #[test]
    fn impossible_pointers_are_refused() {
        let spoil: [fn(&mut Pointer); 11] = [
            |one| one.kind = "twinwall-keys".to_owned(),
            |one| one.channel = "../x".to_owned(),
            |one| one.generation = 0,
            |one| one.digest = "A".repeat(64),
            |one| one.waves = vec![],
            |one| one.waves = vec![1000, 10],
            |one| one.waves = vec![10, 900],
            |one| one.wave = 2,
            |one| one.observe_seconds = 60,
            |one| one.try_seconds = 601,
            |one| one.least_version = "new".to_owned(),
        ];
        for spoil in spoil {
            let mut one = pointer();
            spoil(&mut one);
            assert!(Pointer::parse(&one.text()).is_err(), "{one:?}");
        }
        let more = pointer().text().replacen('{', "{\"more\":1,", 1);
        assert!(Pointer::parse(&more).is_err());
    }

    #[test]
    fn time_and_version_are_obstacles() {
        let mut one = pointer();
        assert_eq!(one.obstacle(100), None);
        assert!(one.obstacle(99).unwrap().contains("not come"));
        assert!(one.obstacle(200).unwrap().contains("expired"));
        one.least_version = "0.10.0".to_owned();
        assert!(one.obstacle(100).unwrap().contains("0.10.0"));
    }
}
