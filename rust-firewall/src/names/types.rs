// SPDX-License-Identifier: GPL-2.0-or-later
//! Names that a client shows in its first bytes: the host that it asks for, and related fields.

/// Maximum length of a host name without its final dot (RFC 1035, section 3.1).
pub const HOST_BYTES: usize = 253;
/// Maximum length of the list of protocols (RFC 7301); a longer list is unreadable.
pub const ALPN_BYTES: usize = 255;
/// Maximum length of a method (RFC 9110, section 9); a longer one is cut, and equals no method of a policy.
pub const METHOD_BYTES: usize = 16;

/// State of a packet's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum NamesState {
    /// The packet has no names: its connection is not followed for names.
    #[default]
    None,
    /// Bytes of the client are missing.
    Undecided,
    /// All names are read; an empty field was not sent.
    Known,
    /// The names are unreadable for good: `--fail unknown` decides.
    Unreadable,
}

/// Protocol of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum NamesProtocol {
    /// Another protocol.
    #[default]
    Other,
    /// TLS over TCP (RFC 8446).
    Tls,
    /// TLS over QUIC (RFC 9001, RFC 9369).
    Quic,
    /// HTTP/1 without TLS (RFC 9112).
    Http,
    /// DNS query (RFC 1035).
    Dns,
}

/// Names that a client has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    pub state: NamesState,
    pub protocol: NamesProtocol,
    /// Length of host; 0 = the client has named none.
    pub host_length: u8,
    /// Length of alpn; 0 = the client has offered none.
    pub alpn_length: u8,
    /// Length of method; 0 = none.
    pub method_length: u8,
    /// True if the client offers an encrypted ClientHello (extension 0xfe0d), even if it is GREASE.
    pub ech: bool,
    /// Highest offered version of TLS, as on the wire (0x0304 = 1.3); 0 = none. Values of GREASE (RFC 8701) don't
    /// count.
    pub version: u16,
    /// Type of a DNS query.
    pub dns_type: u16,
    /// Server name of TLS, host of HTTP without its port, or name of a DNS query: in lower case (ASCII), without a
    /// final dot, otherwise as it was sent.
    pub host: [u8; HOST_BYTES],
    /// Offered protocols, each after its length, as on the wire.
    pub alpn: [u8; ALPN_BYTES],
    /// Method of HTTP, as it was sent.
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

/// Returns the host name; empty if there is none.
pub fn host(names: &Names) -> &[u8] {
    names
        .host
        .get(..names.host_length.into())
        .unwrap_or_default()
}
