// SPDX-License-Identifier: GPL-2.0-or-later
//! Settings of a cage.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::allow::Allowed;
use crate::uplink::UplinkKind;

/// Source of a cage's policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file in the policy language.
    File(PathBuf),
    /// Allowed names and addresses (--allow); everything else is denied.
    Allow(Vec<Allowed>),
    /// Everything passes; the sufficient policy is written to this file.
    Learn(PathBuf),
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub source: Source,
    /// The firewall's program.
    pub firewall: PathBuf,
    /// Program that connects the cage to the network; None: pasta if it is installed, otherwise slirp4netns.
    pub uplink: Option<UplinkKind>,
    /// True to print a line for each denied connection.
    pub verbose: bool,
    /// File to which the report of connections is written, as JSON.
    pub report: Option<PathBuf>,
    /// True if the command may connect to the host's loopback addresses.
    pub host_loopback: bool,
    /// Unix sockets of the host, and folders of such sockets, that stay reachable.
    pub host_sockets: Vec<PathBuf>,
    /// True to allow an encrypted ClientHello; only with `Source::Allow`.
    pub ech: bool,
    /// Command to run in the cage: the program and its arguments.
    pub command: Vec<OsString>,
}
