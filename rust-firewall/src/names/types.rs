// SPDX-License-Identifier: GPL-2.0-or-later
//! Names in a client's first bytes: the host that the client requests, and related fields.

/// Maximum length of a host name in bytes, without its final dot (RFC 1035, section 3.1).
pub const HOST_BYTES: usize = 253;
/// Maximum length of the ALPN list (RFC 7301) in bytes; a longer list is unreadable.
pub const ALPN_BYTES: usize = 255;
/// Maximum length of an HTTP method (RFC 9110, section 9) in bytes; a longer method is cut, and equals no method of a
/// policy.
pub const METHOD_BYTES: usize = 16;

/// State of a packet's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum NamesState {
    /// The packet has no names: the firewall does not read names of its connection.
    #[default]
    None,
    /// The names are not known yet: bytes of the client are missing.
    Undecided,
    /// All names are read. An empty field means that the client did not send it, or sent it empty.
    Known,
    /// The names can't be read: `--fail unknown` decides.
    Unreadable,
}

/// Protocol in which the client sends names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum NamesProtocol {
    /// None of the protocols below.
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
    /// Length of host in bytes; 0 = no host name.
    pub host_length: u8,
    /// Length of alpn in bytes; 0 = no offered protocol.
    pub alpn_length: u8,
    /// Length of method in bytes; 0 = none.
    pub method_length: u8,
    /// True if the client offers an encrypted ClientHello (extension 0xfe0d), even if its content is random (GREASE).
    pub ech: bool,
    /// Highest offered TLS version, as on the wire (0x0304 = TLS 1.3); 0 = none. GREASE values (RFC 8701) don't count.
    pub version: u16,
    /// Type of a DNS question (QTYPE).
    pub dns_type: u16,
    /// Server name of TLS, host of HTTP without its port, or name of a DNS query. ASCII letters are in lower case, and
    /// a final dot is removed; the other bytes are as sent.
    pub host: [u8; HOST_BYTES],
    /// Offered ALPN protocols as on the wire: each protocol name follows its length byte.
    pub alpn: [u8; ALPN_BYTES],
    /// HTTP method as sent; a longer method is cut.
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
