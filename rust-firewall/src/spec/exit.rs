// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/exits.toml.
//! Exit codes.

/// Exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LogExit {
    /// Stopped by SIGINT or SIGTERM, or all is well.
    Stopped = 0,
    /// A system call failed, or explain --expect found another verdict.
    Call = 1,
    /// Bad command line, policy or capture.
    Usage = 2,
    /// No CAP_NET_ADMIN (for reject: CAP_NET_RAW).
    Capability = 3,
    /// Kernel without NFQUEUE or what the policy needs of it.
    Kernel = 4,
    /// Queue owned by another process.
    Owned = 5,
    /// Receive buffer refused.
    Buffer = 6,
}
