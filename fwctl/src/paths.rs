// SPDX-License-Identifier: GPL-2.0-or-later
//! Default paths of a host's files.

/// Default policy file of a host.
pub const POLICY: &str = "/etc/twinwall/policy.nft";
/// Default file with the settings of the firewall for the host's policy.
pub const CONFIG: &str = "/etc/twinwall/twinwall.conf";
