// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings of a cage.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::allow::Allowed;
use crate::uplink::UplinkKind;

/// Source of the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file in the policy language.
    File(PathBuf),
    /// Names and addresses; everything else is denied.
    Allow(Vec<Allowed>),
    /// Everything passes; the sufficient policy is written to this file.
    Learn(PathBuf),
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub source: Source,
    /// The firewall's program.
    pub firewall: PathBuf,
    /// Uplink; None: pasta if it is installed, otherwise slirp4netns.
    pub uplink: Option<UplinkKind>,
    /// True to print a line for each denied connection.
    pub verbose: bool,
    /// Destination of the report, as JSON.
    pub report: Option<PathBuf>,
    /// True if the command may connect to the host's loopback addresses.
    pub host_loopback: bool,
    /// Unix sockets of the host that stay reachable.
    pub host_sockets: Vec<PathBuf>,
    /// True to allow an encrypted ClientHello; only with `Source::Allow`.
    pub ech: bool,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}
