// SPDX-License-Identifier: GPL-2.0-or-later
//! The bucket of a host: which wave of a rollout reaches it.

use sha2::{Digest, Sha256};

/// Buckets, and so the finest share of a wave.
pub const BUCKETS: u16 = 1000;

/// The bucket of a host for a generation, 0 to 999. Each generation mixes the hosts anew, so that no host is always the canary.
pub fn bucket(host: &str, channel: &str, generation: u64) -> u16 {
    let mut hash = Sha256::new();
    hash.update(b"twinwall-bucket\0");
    hash.update(generation.to_be_bytes());
    hash.update(channel.as_bytes());
    hash.update(b"\0");
    hash.update(host.as_bytes());
    let bytes: [u8; 32] = hash.finalize().into();
    let mut first = [0; 8];
    first.copy_from_slice(&bytes[..8]);
    (u64::from_be_bytes(first) % u64::from(BUCKETS)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_as_large_as_they_say_and_mix() {
        let in_share = |generation: u64, share: u16| {
            let hosts = 0..10_000;
            let is_in = |host: &u32| bucket(&format!("host{host}"), "web", generation) < share;
            hosts.filter(is_in).collect::<Vec<u32>>()
        };
        let (first, second) = (in_share(1, 100), in_share(2, 100));
        assert!((900..1100).contains(&first.len()), "{}", first.len());
        let both = first.iter().filter(|host| second.contains(host)).count();
        assert!((50..150).contains(&both), "{both}");
    }
}
