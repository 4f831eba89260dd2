// SPDX-License-Identifier: GPL-2.0-or-later
//! A small client of HTTP/1.1 over TCP or TLS. HTTP libraries hide the socket. Here a read that times out loses no
//! data, so that one thread can wait for a watch of etcd until its next task.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::failure::{request, unreachable, Failure, Result};

/// Maximum size of an answer's head in bytes.
const HEAD_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;
/// Maximum size in bytes of a chunk of an answer's body.
const CHUNK_MAX: u64 = 32 << 20;
/// File with the certificates of authorities, installed by Debian's ca-certificates.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Address of a server, and the path that precedes the paths of all requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub is_tls: bool,
    pub host: String,
    pub port: u16,
    /// Path without a slash at its end.
    pub path: String,
}

impl Url {
    /// Parses http://HOST[:PORT][/PATH] or https://…
    pub fn parse(text: &str) -> Result<Url> {
        let refuse = || request(format_args!("{text}: no address: write https://HOST:PORT"));
        let (scheme, rest) = text.split_once("://").ok_or_else(refuse)?;
        let (is_tls, default) = match scheme {
            "https" => (true, 443),
            "http" => (false, 80),
            _ => return Err(refuse()),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = |c: char| c.is_ascii_graphic();
        let end = authority.rfind(':').filter(|_| !authority.ends_with(']'));
        let (host, port) = match end {
            Some(at) => (
                &authority[..at],
                authority[at + 1..].parse().map_err(|_| refuse())?,
            ),
            None => (authority, default),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || !rest.chars().all(is_plain) {
            return Err(refuse());
        }
        let path = path.trim_end_matches('/').to_owned();
        let host = host.to_owned();
        Ok(Url {
            is_tls,
            host,
            port,
            path,
        })
    }

    /// Returns host and port for the header Host.
    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// TLS settings: the certificates of trusted authorities; None: only connections without TLS.
#[derive(Clone)]
pub struct Tls(Option<Arc<ClientConfig>>);

impl Tls {
    /// Returns settings for servers without TLS.
    pub fn without() -> Tls {
        Tls(None)
    }

    /// Reads the certificates of authorities.
    /// - file: in PEM; None: the certificates that Debian installs.
    pub fn read(file: Option<&Path>) -> Result<Tls> {
        let file = file.unwrap_or(Path::new(AUTHORITIES));
        let fail = |error: String| {
            request(format_args!(
                "{}: {error}: name the authorities of the servers with --ca",
                file.display()
            ))
        };
        let mut roots = RootCertStore::empty();
        let read = CertificateDer::pem_file_iter(file).map_err(|error| fail(error.to_string()))?;
        roots.add_parsable_certificates(read.flatten());
        if roots.is_empty() {
            return Err(fail("it has no certificate".to_owned()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let made = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| fail(error.to_string()))?;
        let made = made.with_root_certificates(roots).with_no_client_auth();
        Ok(Tls(Some(Arc::new(made))))
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => &stream.sock,
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(bytes),
            Stream::Tls(stream) => stream.read(bytes),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}

/// State of an answer's body, which determines its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// The body has a known length: number of bytes that are still to come.
    Length(u64),
    Chunked,
    /// The body ends with the connection.
    Close,
    Done,
}

/// Connection to a server, for one request after the other.
pub struct Connection {
    stream: Stream,
    url: Url,
    /// Bytes that were read from the server, but not parsed yet.
    raw: Vec<u8>,
    body: Body,
}

/// HTTP answer with its whole body.
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Returns true if a read or write ended because of its time limit.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

impl Connection {
    /// Opens a connection.
    /// - limit: time limit of each step: connecting to an address, a read, a write.
    pub fn open(url: &Url, tls: &Tls, limit: Duration) -> Result<Connection> {
        let name = format!("{}:{}", url.host, url.port);
        let fail = |error: String| unreachable(format_args!("{name}: {error}: does it run there?"));
        let addresses = (url.host.as_str(), url.port).to_socket_addrs();
        let mut last = "no address".to_owned();
        for address in addresses.map_err(|error| fail(error.to_string()))? {
            let socket = match TcpStream::connect_timeout(&address, limit) {
                Ok(socket) => socket,
                Err(error) => {
                    last = error.to_string();
                    continue;
                }
            };
            let set = socket
                .set_read_timeout(Some(limit))
                .and_then(|()| socket.set_write_timeout(Some(limit)))
                .and_then(|()| socket.set_nodelay(true));
            set.map_err(|error| fail(error.to_string()))?;
            let stream = match (url.is_tls, &tls.0) {
                (false, _) => Stream::Plain(socket),
                (true, Some(settings)) => {
                    let server = ServerName::try_from(url.host.clone())
                        .map_err(|error| fail(error.to_string()))?;
                    let client = ClientConnection::new(settings.clone(), server)
                        .map_err(|error| fail(error.to_string()))?;
                    Stream::Tls(Box::new(StreamOwned::new(client, socket)))
                }
                (true, None) => return Err(fail("no authorities for TLS".to_owned())),
            };
            return Ok(Connection {
                stream,
                url: url.clone(),
                raw: Vec::new(),
                body: Body::Done,
            });
        }
        Err(fail(last))
    }

    /// Sets the time limit of each read and write.
    pub fn set_limit(&self, limit: Duration) -> io::Result<()> {
        let socket = self.stream.socket();
        socket.set_read_timeout(Some(limit))?;
        socket.set_write_timeout(Some(limit))
    }

    fn broken(&self, error: &io::Error) -> Failure {
        let why = match is_timeout(error) {
            true => "it does not answer".to_owned(),
            false => error.to_string(),
        };
        let url = &self.url;
        unreachable(format_args!(
            "{}:{}: {why}: does it run well there?",
            url.host, url.port
        ))
    }

    /// Reads more bytes into `raw`. Returns their number; 0 at the end of the connection.
    fn fill(&mut self) -> io::Result<usize> {
        let mut piece = [0; 16 << 10];
        let count = self.stream.read(&mut piece)?;
        self.raw.extend_from_slice(&piece[..count]);
        Ok(count)
    }

    /// Reads the head of an answer, and sets `body` accordingly. Returns the status code.
    fn head(&mut self) -> io::Result<u16> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut parsed = httparse::Response::new(&mut headers);
            let read = parsed
                .parse(&self.raw)
                .map_err(|_| invalid("it speaks no HTTP"))?;
            let httparse::Status::Complete(end) = read else {
                if self.raw.len() > HEAD_MAX {
                    return Err(invalid("the head of its answer is too long"));
                }
                if self.fill()? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                continue;
            };
            let value = |name: &str| {
                let mut all = parsed.headers.iter();
                let found = all.find(|one| one.name.eq_ignore_ascii_case(name))?;
                std::str::from_utf8(found.value).ok()
            };
            let status = parsed.code.unwrap_or(0);
            self.body = match (value("transfer-encoding"), value("content-length")) {
                (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => Body::Chunked,
                (Some(_), _) => return Err(invalid("an unknown coding")),
                (None, Some(length)) => {
                    Body::Length(length.trim().parse().map_err(|_| invalid("a bad length"))?)
                }
                (None, None) if status == 204 || status == 304 => Body::Done,
                (None, None) => Body::Close,
            };
            self.raw.drain(..end);
            return Ok(status);
        }
    }

    /// Removes the first chunk from `raw` and returns it; None if it is incomplete. An empty chunk ends the body.
    fn take_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let parsed = httparse::parse_chunk_size(&self.raw).map_err(|_| invalid("a bad chunk"))?;
        let httparse::Status::Complete((begin, size)) = parsed else {
            return Ok(None);
        };
        if size > CHUNK_MAX {
            return Err(invalid("a chunk that is too large"));
        }
        let end = begin + size as usize;
        if self.raw.len() < end + 2 {
            return Ok(None);
        }
        let chunk = self.raw[begin..end].to_vec();
        self.raw.drain(..end + 2);
        Ok(Some(chunk))
    }

    /// Returns the next piece of the body; empty at its end. A read that times out loses no data.
    fn piece(&mut self) -> io::Result<Vec<u8>> {
        loop {
            match self.body {
                Body::Done => return Ok(Vec::new()),
                Body::Chunked => {
                    if let Some(chunk) = self.take_chunk()? {
                        if chunk.is_empty() {
                            self.body = Body::Done;
                        }
                        return Ok(chunk);
                    }
                }
                Body::Length(0) => self.body = Body::Done,
                Body::Length(left) if !self.raw.is_empty() => {
                    let count = (self.raw.len() as u64).min(left);
                    self.body = Body::Length(left - count);
                    return Ok(self.raw.drain(..count as usize).collect());
                }
                Body::Close if !self.raw.is_empty() => return Ok(std::mem::take(&mut self.raw)),
                Body::Length(_) | Body::Close => {}
            }
            if self.body != Body::Done && self.fill()? == 0 {
                if self.body != Body::Close {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                self.body = Body::Done;
            }
        }
    }

    /// Sends a request and reads the head of its answer. Returns the status code.
    /// - path: appended to the path of the URL.
    /// - headers: lines, each with its line end.
    pub fn begin(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Result<u16> {
        let length = body.len();
        let (before, host) = (&self.url.path, self.url.authority());
        let mut bytes = format!(
            "{method} {before}{path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{headers}\r\n"
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        let done = self.stream.write_all(&bytes).and_then(|()| self.head());
        done.map_err(|error| self.broken(&error))
    }

    /// Sends a request and reads its whole answer.
    /// - most: maximum size of the answer's body in bytes.
    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
        most: usize,
    ) -> Result<Answer> {
        let status = self.begin(method, path, headers, body)?;
        let mut body = Vec::new();
        loop {
            let piece = self.piece().map_err(|error| self.broken(&error))?;
            if piece.is_empty() {
                return Ok(Answer { status, body });
            }
            body.extend_from_slice(&piece);
            if body.len() > most {
                return Err(self.broken(&invalid("its answer is too long")));
            }
        }
    }

    /// Returns the next piece of a body without end, or None if a read has timed out. Fails when the body has ended.
    /// - limit: time limit of each read, at least 1 ms.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<Vec<u8>>> {
        let limit = limit.max(Duration::from_millis(1));
        let set = self.stream.socket().set_read_timeout(Some(limit));
        match set.and_then(|()| self.piece()) {
            Ok(piece) if piece.is_empty() => Err(self.broken(&ErrorKind::UnexpectedEof.into())),
            Ok(piece) => Ok(Some(piece)),
            Err(error) if is_timeout(&error) => Ok(None),
            Err(error) => Err(self.broken(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    const LIMIT: Duration = Duration::from_secs(120);

    /// Connects to a server that sends these pieces, with a pause after each.
    fn served(pieces: &[&[u8]]) -> Connection {
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut asked = [0; 1000];
            let _ = socket.read(&mut asked);
            for piece in pieces {
                let _ = socket.write_all(&piece);
                thread::sleep(Duration::from_millis(20));
            }
        });
        let url = Url::parse(&format!("http://127.0.0.1:{port}/x/")).unwrap();
        Connection::open(&url, &Tls::without(), LIMIT).unwrap()
    }

    fn body(pieces: &[&[u8]]) -> Result<Vec<u8>> {
        let answer = served(pieces).ask("GET", "/a", "", b"", 100);
        answer.map(|answer| answer.body)
    }

    #[test]
    fn addresses_are_read() {
        let url = Url::parse("https://[::1]:2379").unwrap();
        assert_eq!(
            (url.host.as_str(), url.port, url.is_tls),
            ("::1", 2379, true)
        );
        let url = Url::parse("http://a/b/").unwrap();
        assert_eq!((url.port, url.path.as_str()), (80, "/b"));
        for bad in ["a:1", "ftp://a", "http://", "http://a:x", "http://a/b c"] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bodies_end_in_three_ways_wherever_they_are_cut() {
        let chunked: &[&[u8]] = &[
            b"HTTP/1.1 200 OK\r\nTransfer-Enc",
            b"oding: chunked\r\n\r\n3\r",
            b"\nab",
            b"c\r\n1\r\nd\r\n0\r\n\r\n",
        ];
        assert_eq!(body(chunked).unwrap(), b"abcd");
        let length: &[&[u8]] = &[b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na", b"bcxxx"];
        assert_eq!(body(length).unwrap(), b"abc");
        assert_eq!(body(&[b"HTTP/1.1 200 OK\r\n\r\nab", b"c"]).unwrap(), b"abc");
    }

    #[test]
    fn hostile_answers_are_failures() {
        for said in [
            &[&b"SSH-2.0\r\n\r\n"[..]][..],
            &[b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"],
            &[b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nabc"],
            &[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"],
            &[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"],
            &[b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 200]],
            &[b""],
        ] {
            assert!(body(said).is_err(), "{said:?}");
        }
    }

    #[test]
    fn a_wait_that_times_out_loses_nothing() {
        let mut watch = served(&[
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab",
            b"cd\r\n",
        ]);
        watch.begin("POST", "/watch", "", b"{}").unwrap();
        let mut found = None;
        while found.is_none() {
            found = watch.wait(Duration::from_millis(2)).unwrap();
        }
        assert_eq!(found.unwrap(), b"abcd");
        assert!(watch.wait(LIMIT).is_err());
    }
}
