// SPDX-License-Identifier: GPL-2.0-or-later
//! HTTP probe: sends a request and reads the head of the response, status line and header fields (RFC 9112), not the
//! body.

use std::io::Write;

use super::{Scan, Step, Talk};
use crate::failure::{Failure, Result};
use crate::state::Finding;

/// Maximum bytes of a response's head; honest servers send less.
pub const LONGEST_HEAD: usize = 8192;
const MOST_FIELDS: usize = 100;
/// Room after the fixed part of a request: `Host: ` with the longest address and port.
const HOST_ROOM: usize = 80;

#[derive(Clone)]
pub struct Http {
    /// Start of a request: first line, e.g. `GET / HTTP/1.1`, and the fields except Host, without the empty line.
    request: Vec<u8>,
    /// Default port, which the Host field omits.
    usual_port: u16,
}

/// Result of parsing the bytes of a response received so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Head {
    /// Length of the complete head.
    Whole(usize),
    More,
    Invalid,
}

/// Finds the end of a response's head. Accepts arbitrary bytes.
pub fn head(bytes: &[u8]) -> Head {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    match httparse::Response::new(&mut fields).parse(bytes) {
        Ok(httparse::Status::Complete(len)) => Head::Whole(len),
        Ok(httparse::Status::Partial) => Head::More,
        Err(_) => Head::Invalid,
    }
}

impl Http {
    /// Builds the request. `fields` are whole header fields, `Name: value`.
    pub fn new(path: &str, fields: &[String], tls: bool) -> Result<Http> {
        let visible = |text: &str| text.bytes().all(|byte| (0x21..0x7f).contains(&byte));
        if !path.starts_with('/') || !visible(path) {
            return Err(Failure::usage(format!(
                "--path: \"{path}\": a path that begins with / and has no blanks is expected"
            )));
        }
        let mut request = format!("GET {path} HTTP/1.1\r\n").into_bytes();
        let has = |name: &str| {
            let same = |field: &String| {
                field
                    .split_once(':')
                    .is_some_and(|(other, _)| other.eq_ignore_ascii_case(name))
            };
            fields.iter().any(same)
        };
        for (name, value) in [
            ("User-Agent", "twinwall-scanner"),
            ("Accept", "*/*"),
            ("Connection", "close"),
        ] {
            if !has(name) {
                request.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
        }
        for field in fields {
            request.extend_from_slice(checked_field(field)?.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        Ok(Http {
            request,
            usual_port: if tls { 443 } else { 80 },
        })
    }

    pub fn request_room(&self) -> usize {
        self.request.len() + HOST_ROOM
    }

    /// Writes the request for a target to `output`, which has at least `request_room` bytes; returns its length.
    pub fn write(&self, talk: &Talk, mut output: &mut [u8]) -> usize {
        let room = output.len();
        let host = talk.to.ip;
        let written = (|| {
            output.write_all(&self.request)?;
            match host {
                std::net::IpAddr::V4(ip) => write!(output, "Host: {ip}")?,
                std::net::IpAddr::V6(ip) => write!(output, "Host: [{ip}]")?,
            }
            if talk.port != self.usual_port {
                write!(output, ":{}", talk.port)?;
            }
            output.write_all(b"\r\n\r\n")
        })();
        debug_assert!(written.is_ok(), "the room is that of the longest request");
        room - output.len()
    }
}

/// Returns the field if a server parses it as one header field, other than Host.
fn checked_field(field: &str) -> Result<&str> {
    let wrong =
        |why: &str| Failure::usage(format!("--header: \"{}\": {why}", field.escape_debug()));
    let (name, value) = field
        .split_once(':')
        .ok_or_else(|| wrong("NAME: VALUE is expected"))?;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(wrong("the name has a character that no header field has"));
    }
    if name.eq_ignore_ascii_case("host") {
        return Err(wrong("Host is that of the target"));
    }
    if value
        .bytes()
        .any(|byte| byte < 0x20 && byte != b'\t' || byte == 0x7f)
    {
        return Err(wrong("the value has a control character"));
    }
    Ok(field)
}

impl Scan for Http {
    fn room(&self) -> (usize, usize) {
        (LONGEST_HEAD, self.request_room())
    }

    fn opened(&mut self, talk: &mut Talk) -> Step {
        let output = std::mem::take(&mut talk.output);
        let len = self.write(talk, output);
        Step::Send(len)
    }

    fn received(&mut self, talk: &mut Talk) -> Step {
        match head(talk.heard()) {
            Head::Whole(_) => Step::Done(Finding::Answer),
            Head::Invalid => Step::Done(Finding::Invalid),
            Head::More if *talk.filled == talk.input.len() => Step::Done(Finding::TooLong),
            Head::More => Step::Receive,
        }
    }

    fn ended(&mut self, _talk: &mut Talk, why: Finding) -> Finding {
        why
    }

    fn answer<'a>(&'a mut self, talk: &'a Talk) -> &'a [u8] {
        match head(talk.heard()) {
            Head::Whole(len) => &talk.heard()[..len],
            _ => &talk.heard()[..talk.heard().len().min(256)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let whole = b"HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\n";
        assert_eq!(head(whole), Head::Whole(whole.len()));
        assert_eq!(
            head(&[&whole[..], b"body"].concat()),
            Head::Whole(whole.len())
        );
        for len in 0..whole.len() {
            assert_eq!(head(&whole[..len]), Head::More, "{len}");
        }
        for bad in [
            "SSH-2.0-x\r\n",
            "HTTP/1.1 2x0\r\n",
            "HTTP/1.1 200 OK\r\n\x01: y\r\n\r\n",
        ] {
            assert_eq!(head(bad.as_bytes()), Head::Invalid, "{bad:?}");
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(101));
        assert_eq!(head(many.as_bytes()), Head::Invalid);
    }

    #[test]
    fn the_request_ends_where_it_should() {
        let http = Http::new("/x", &["X-Test: 1".into(), "user-agent: me".into()], false).unwrap();
        let (mut input, mut filled) = ([], 0);
        for (ip, port, host) in [
            ("10.0.0.1", 80, "Host: 10.0.0.1\r\n\r\n"),
            (
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                65535,
                "ff]:65535\r\n\r\n",
            ),
        ] {
            let mut room = vec![b'?'; http.request_room()];
            let talk = Talk {
                slot: 0,
                to: crate::targets::Address {
                    ip: ip.parse().unwrap(),
                    scope: 0,
                },
                port,
                input: &mut input,
                filled: &mut filled,
                output: &mut [],
            };
            let len = http.write(&talk, &mut room);
            let text = String::from_utf8(room[..len].to_vec()).unwrap();
            assert!(
                text.starts_with("GET /x HTTP/1.1\r\n") && text.ends_with(host),
                "{text}"
            );
            assert_eq!(
                text.matches("ser-agent").count() + text.matches("ser-Agent").count(),
                1
            );
            assert!(text.contains("\r\nX-Test: 1\r\n"));
        }
    }

    #[test]
    fn bad_fields_are_refused() {
        for (field, why) in [
            ("no colon", "NAME: VALUE"),
            (": x", "the name"),
            ("a b: x", "the name"),
            ("a: x\r\nb: y", "control"),
            ("Host: x", "that of the target"),
        ] {
            let failure = Http::new("/", &[field.into()], false).err().unwrap();
            assert!(
                failure.text.contains(why) && !failure.text.contains('\n'),
                "{failure}"
            );
        }
        assert!(Http::new("x", &[], false).is_err());
        assert!(Http::new("/ x", &[], false).is_err());
    }
}
