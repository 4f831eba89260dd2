// SPDX-License-Identifier: GPL-2.0-or-later
//! Results of a target: nmap's states, the reason, and the outcome of the conversation.

/// Port states in nmap's terms. `Error` means that this machine could not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    Open,
    Closed,
    Filtered,
    Error,
}

pub const STATES: [State; 4] = [State::Open, State::Closed, State::Filtered, State::Error];

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Open => "open",
            State::Closed => "closed",
            State::Filtered => "filtered",
            State::Error => "error",
        }
    }
}

/// Reason why a port has its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    SynAck,
    ConnRefused,
    Reset,
    Timeout,
    HostUnreach,
    NetUnreach,
    HostDown,
    PortUnreach,
    ProtoUnreach,
    AdminProhibited,
    /// A rule of this machine forbade sending (EPERM).
    NotPermitted,
    /// The machine had no port, memory or descriptor left at each attempt.
    Shortage,
    /// An errno that says nothing about the target; the record contains it.
    Other,
}

pub const REASONS: [Reason; 13] = [
    Reason::SynAck,
    Reason::ConnRefused,
    Reason::Reset,
    Reason::Timeout,
    Reason::HostUnreach,
    Reason::NetUnreach,
    Reason::HostDown,
    Reason::PortUnreach,
    Reason::ProtoUnreach,
    Reason::AdminProhibited,
    Reason::NotPermitted,
    Reason::Shortage,
    Reason::Other,
];

impl Reason {
    pub fn name(self) -> &'static str {
        match self {
            Reason::SynAck => "syn-ack",
            Reason::ConnRefused => "conn-refused",
            Reason::Reset => "reset",
            Reason::Timeout => "timeout",
            Reason::HostUnreach => "host-unreach",
            Reason::NetUnreach => "net-unreach",
            Reason::HostDown => "host-down",
            Reason::PortUnreach => "port-unreach",
            Reason::ProtoUnreach => "proto-unreach",
            Reason::AdminProhibited => "admin-prohibited",
            Reason::NotPermitted => "not-permitted",
            Reason::Shortage => "shortage",
            Reason::Other => "other",
        }
    }
}

/// Classifies the end of a connection attempt by its errno (0: connected). Returns None for a temporary shortage: the
/// target must be asked again.
pub fn classify(errno: i32) -> Option<(State, Reason)> {
    Some(match errno {
        // A connection reset at once had been established: a refused SYN yields ECONNREFUSED.
        0 | libc::ECONNRESET | libc::EPIPE => (State::Open, Reason::SynAck),
        libc::ECONNREFUSED => (State::Closed, Reason::ConnRefused),
        libc::ECONNABORTED => (State::Closed, Reason::Reset),
        libc::ETIMEDOUT => (State::Filtered, Reason::Timeout),
        // EALREADY on a new socket: an ICMP error of unknown kind.
        libc::EHOSTUNREACH | libc::EALREADY => (State::Filtered, Reason::HostUnreach),
        libc::ENETUNREACH | libc::ENONET => (State::Filtered, Reason::NetUnreach),
        libc::EHOSTDOWN => (State::Filtered, Reason::HostDown),
        libc::ENOPROTOOPT => (State::Filtered, Reason::ProtoUnreach),
        libc::EACCES => (State::Filtered, Reason::AdminProhibited),
        libc::EPERM => (State::Filtered, Reason::NotPermitted),
        errno if is_shortage(errno) => return None,
        _ => (State::Error, Reason::Other),
    })
}

pub fn is_shortage(errno: i32) -> bool {
    matches!(
        errno,
        libc::EADDRNOTAVAIL
            | libc::ENOBUFS
            | libc::ENOMEM
            | libc::EMFILE
            | libc::ENFILE
            | libc::EAGAIN
    )
}

/// Outcome of the conversation on an open port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Finding {
    /// No conversation: the port is not open, or the probe has none.
    None,
    /// A complete answer, or any bytes in the banner probe; the writer matches it against the expressions.
    Answer,
    /// No answer, or an incomplete one, arrived in time.
    Silent,
    /// The peer closed before the answer was complete.
    Ended,
    /// The peer reset, or the connection failed.
    Reset,
    /// The peer sent more bytes than any honest answer has.
    TooLong,
    /// The peer does not speak the protocol.
    Invalid,
    /// The TLS handshake failed, or a later TLS record was invalid.
    NoTls,
}

pub const FINDINGS: [Finding; 8] = [
    Finding::None,
    Finding::Answer,
    Finding::Silent,
    Finding::Ended,
    Finding::Reset,
    Finding::TooLong,
    Finding::Invalid,
    Finding::NoTls,
];

impl Finding {
    pub fn name(self) -> &'static str {
        match self {
            Finding::None => "",
            Finding::Answer => "answer",
            Finding::Silent => "silent",
            Finding::Ended => "ended",
            Finding::Reset => "reset",
            Finding::TooLong => "too-long",
            Finding::Invalid => "invalid",
            Finding::NoTls => "no-tls",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_the_order_of_their_numbers() {
        assert!(STATES
            .iter()
            .enumerate()
            .all(|(at, &state)| state as usize == at));
        assert!(REASONS
            .iter()
            .enumerate()
            .all(|(at, &reason)| reason as usize == at));
        assert!(FINDINGS
            .iter()
            .enumerate()
            .all(|(at, &finding)| finding as usize == at));
    }

    #[test]
    fn every_errno_has_a_class() {
        for errno in 0..200 {
            assert_eq!(classify(errno).is_none(), is_shortage(errno), "{errno}");
        }
        assert_eq!(classify(libc::EINVAL), Some((State::Error, Reason::Other)));
        assert_eq!(
            classify(libc::ECONNREFUSED),
            Some((State::Closed, Reason::ConnRefused))
        );
    }
}
