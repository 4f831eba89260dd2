// SPDX-License-Identifier: GPL-2.0-or-later
//! Rights of the new firewall: by default user and group of the old firewall, with the capabilities that a firewall
//! needs. They are set before the program is executed, so that neither the program nor its arguments ever have root's
//! rights.

use caps::errors::CapsError;
use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::prctl::set_no_new_privs;
use nix::unistd::{setgroups, setresgid, setresuid, Gid, Uid};
use serde::{Deserialize, Serialize};

use super::peer::Peer;
use crate::failure::{Exit, Failure};

/// Capabilities that a new firewall may have with the arguments that the old firewall reports.
const OF_A_FIREWALL: [Capability; 2] = [Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW];
/// Additional capability of a firewall whose arguments come from root: to read a policy that only root may read.
const OF_ROOTS_WORD: Capability = Capability::CAP_DAC_READ_SEARCH;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rights {
    pub uid: u32,
    pub gid: u32,
    /// Names of the capabilities that the firewall keeps.
    capabilities: Vec<String>,
}

impl Rights {
    fn new(uid: u32, gid: u32, capabilities: &[Capability]) -> Rights {
        let capabilities = capabilities.iter().map(ToString::to_string).collect();
        Rights {
            uid,
            gid,
            capabilities,
        }
    }

    /// Returns the rights of a firewall's process: its user, its group, and its permitted capabilities, as far as
    /// OF_A_FIREWALL contains them. Fails if it lacks CAP_NET_ADMIN.
    pub fn of(peer: &Peer) -> Result<Rights, Failure> {
        let permitted = peer.status_line("CapPrm")?;
        let permitted = u64::from_str_radix(&permitted, 16).unwrap_or(0);
        let has = |one: &Capability| permitted & one.bitmask() != 0;
        if !has(&Capability::CAP_NET_ADMIN) {
            return Err(Failure::new(
                Exit::Refused,
                format_args!(
                    "pid {}, user {}, answers as a firewall, but is none: it has no CAP_NET_ADMIN",
                    peer.pid, peer.uid
                ),
            ));
        }
        let capabilities: Vec<_> = OF_A_FIREWALL.into_iter().filter(has).collect();
        Ok(Rights::new(peer.uid, peer.gid, &capabilities))
    }

    /// Returns the rights of a firewall whose arguments come from root: the given user and group, and all
    /// capabilities of OF_A_FIREWALL and OF_ROOTS_WORD.
    pub fn of_roots_word(uid: u32, gid: u32) -> Rights {
        let capabilities = [&OF_A_FIREWALL[..], &[OF_ROOTS_WORD]].concat();
        Rights::new(uid, gid, &capabilities)
    }

    fn change(&self, kept: &CapsHashSet) -> Result<(), CapsError> {
        let told = |error: nix::Error| CapsError::from(error.desc());
        for other in caps::read(None, CapSet::Bounding)?.difference(kept) {
            caps::drop(None, CapSet::Bounding, *other)?;
        }
        caps::securebits::set_keepcaps(true)?;
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        setgroups(&[]).map_err(told)?;
        setresgid(gid, gid, gid).map_err(told)?;
        setresuid(uid, uid, uid).map_err(told)?;
        caps::set(None, CapSet::Effective, kept)?;
        caps::set(None, CapSet::Permitted, kept)?;
        caps::set(None, CapSet::Inheritable, kept)?;
        caps::set(None, CapSet::Ambient, kept)?;
        set_no_new_privs().map_err(told)
    }

    /// Changes user and group of this process, and permanently gives up all its capabilities except these.
    pub fn apply(&self) -> Result<(), String> {
        let kept = self.capabilities.iter().map(|name| name.parse());
        let kept: Result<CapsHashSet, CapsError> = kept.collect();
        kept.and_then(|kept| self.change(&kept)).map_err(|error| {
            format!(
                "root's rights can't be given up ({error}): leave fwctl CAP_SETUID, CAP_SETGID, \
                 CAP_SETPCAP and those of a firewall"
            )
        })
    }
}
