// SPDX-License-Identifier: GPL-2.0-or-later
//! SSH probe: reads the server's version line (RFC 4253, 4.2), which other lines may precede.

use super::{Scan, Step, Talk};
use crate::state::Finding;

/// Maximum bytes of a version line, including CR and LF (RFC 4253, 4.2).
const LONGEST_LINE: usize = 255;
/// Maximum bytes up to the end of the version line; lines may precede it, but no server sends as much.
const LONGEST_GREETING: usize = 4096;

pub struct Ssh;

/// Result of parsing the bytes of a server received so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Start and end of the version line, without its line end.
    Version(usize, usize),
    More,
    TooLong,
}

/// Finds the version line in the bytes of a server. Accepts arbitrary bytes.
pub fn version_line(bytes: &[u8]) -> Line {
    let mut from = 0;
    loop {
        let rest = &bytes[from..];
        let is_version = rest.starts_with(b"SSH-");
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
            return match is_version && rest.len() >= LONGEST_LINE || bytes.len() >= LONGEST_GREETING
            {
                true => Line::TooLong,
                false => Line::More,
            };
        };
        if is_version {
            if end >= LONGEST_LINE {
                return Line::TooLong;
            }
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            return Line::Version(from, from + line.len());
        }
        from += end + 1;
    }
}

impl Scan for Ssh {
    fn room(&self) -> (usize, usize) {
        (LONGEST_GREETING, 0)
    }

    fn opened(&mut self, _talk: &mut Talk) -> Step {
        Step::Receive
    }

    fn received(&mut self, talk: &mut Talk) -> Step {
        match version_line(talk.heard()) {
            Line::Version(..) => Step::Done(Finding::Answer),
            Line::More => Step::Receive,
            Line::TooLong => Step::Done(Finding::TooLong),
        }
    }

    fn ended(&mut self, talk: &mut Talk, why: Finding) -> Finding {
        // A server that closes after whole lines without a version speaks another protocol.
        match (why, talk.heard().ends_with(b"\n")) {
            (Finding::Ended, true) => Finding::Invalid,
            _ => why,
        }
    }

    fn answer<'a>(&'a mut self, talk: &'a Talk) -> &'a [u8] {
        match version_line(talk.heard()) {
            Line::Version(from, to) => &talk.heard()[from..to],
            _ => &talk.heard()[..talk.heard().len().min(LONGEST_LINE)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        for (bytes, line) in [
            (&b""[..], Line::More),
            (b"SSH-2.0-x", Line::More),
            (b"SSH-2.0-x\r\n", Line::Version(0, 9)),
            (b"SSH-2.0-x\nmore", Line::Version(0, 9)),
            (b"hello\r\nSSH-2.0-x\r\n", Line::Version(7, 16)),
            (b"\n\nSSH-\n", Line::Version(2, 6)),
            (b"XSSH-2.0\r\n", Line::More),
        ] {
            assert_eq!(
                version_line(bytes),
                line,
                "{}",
                String::from_utf8_lossy(bytes)
            );
        }
        let long = |count: usize| [b"SSH-".to_vec(), vec![b'a'; count]].concat();
        assert_eq!(version_line(&long(250)), Line::More);
        assert_eq!(version_line(&long(251)), Line::TooLong);
        assert_eq!(
            version_line(&[long(251), b"\n".to_vec()].concat()),
            Line::TooLong
        );
        assert_eq!(version_line(&vec![b'\n'; 4096]), Line::TooLong);
    }
}
