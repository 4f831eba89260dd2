// SPDX-License-Identifier: GPL-2.0-or-later
//! What a client shows of itself in its first bytes: the name it asks for, and what stands beside it.

/// Bytes of a host's name without the dot at its end (RFC 1035, section 3.1).
pub const HOST_BYTES: usize = 253;
/// Bytes of the list of protocols (RFC 7301) that are kept; a longer one is unreadable.
pub const ALPN_BYTES: usize = 255;
/// Bytes of a method (RFC 9110, section 9) that are kept; a longer one is cut and equals none of a policy.
pub const METHOD_BYTES: usize = 16;

/// State of a packet's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum NamesState {
    /// The packet belongs to no client and server that names are looked for in: it has no field of them.
    #[default]
    None,
    /// The client has not shown enough yet.
    Undecided,
    /// All is read: what is not there is missing.
    Known,
    /// It can't be read, and never will: `--fail unknown` decides.
    Unreadable,
}

/// Protocol of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum NamesProtocol {
    /// None of the others.
    #[default]
    Other,
    /// TLS over TCP (RFC 8446).
    Tls,
    /// TLS over QUIC (RFC 9001, RFC 9369).
    Quic,
    /// HTTP/1 without TLS (RFC 9112).
    Http,
    /// A query of DNS (RFC 1035).
    Dns,
}

/// Names that a client has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    pub state: NamesState,
    pub protocol: NamesProtocol,
    /// Bytes of `host`; 0 = it named none.
    pub host_length: u8,
    /// Bytes of `alpn`; 0 = it offered none.
    pub alpn_length: u8,
    /// Bytes of `method`; 0 = none.
    pub method_length: u8,
    /// Offers an encrypted ClientHello (extension 0xfe0d), be it GREASE.
    pub ech: bool,
    /// The highest version of TLS that it offers, as on the wire (0x0304 = 1.3); 0 = none. GREASE (RFC 8701) is none.
    pub version: u16,
    /// The type that a query of DNS asks for.
    pub dns_type: u16,
    /// The server's name of TLS, the host of HTTP without its port, or the name of a DNS query: in lower case (ASCII),
    /// without a dot at its end, else as it came.
    pub host: [u8; HOST_BYTES],
    /// The protocols offered, each behind its length, as on the wire.
    pub alpn: [u8; ALPN_BYTES],
    /// The method of HTTP, as it came.
    pub method: [u8; METHOD_BYTES],
}

impl Default for Names {
    fn default() -> Self {
        Names {
            state: NamesState::None,
            protocol: NamesProtocol::Other,
            host_length: 0,
            alpn_length: 0,
            method_length: 0,
            ech: false,
            version: 0,
            dns_type: 0,
            host: [0; HOST_BYTES],
            alpn: [0; ALPN_BYTES],
            method: [0; METHOD_BYTES],
        }
    }
}

/// The host's name; empty if there is none.
pub fn host(names: &Names) -> &[u8] {
    names
        .host
        .get(..names.host_length.into())
        .unwrap_or_default()
}
