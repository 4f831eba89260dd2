// SPDX-License-Identifier: GPL-2.0-or-later
//! Bucket of a host: a number that determines the wave of a rollout that reaches the host.

use sha2::{Digest, Sha256};

/// Number of buckets, into which a hash distributes the hosts. A wave of a rollout reaches a number of whole buckets.
pub const BUCKETS: u16 = 1000;

/// Returns the bucket of a host for a generation, 0 to 999. It depends on the generation, so that no host is always in
/// the first wave.
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
