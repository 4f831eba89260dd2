// SPDX-License-Identifier: GPL-2.0-or-later
//! Client of the control socket: docs/CONTROL.md.

use std::io::{self, BufRead, BufReader, ErrorKind, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{
    getsockopt, recvmsg, setsockopt, socket, sockopt, AddressFamily, ControlMessageOwned, MsgFlags,
    SockFlag, SockType, UnixAddr, UnixCredentials,
};
use nix::sys::time::{TimeVal, TimeValLike};
use serde::de::DeserializeOwned;
use serde_json::{json, Value};

use crate::answer::Status;
use crate::failure::{words, Exit, Failure};

/// Time limit for connecting to a firewall that does not accept connections.
const CONNECT_SECONDS: i64 = if cfg!(test) { 1 } else { 10 };
/// Time limit for each read and each write. It is long: before its reply, a reload compiles a policy.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum size of a firewall's line in bytes: 1 KiB for each of the 2^20 rules of the largest policy. A short rule has
/// 200 bytes.
const LINE_MAX: u64 = if cfg!(test) { 1 << 16 } else { 1 << 30 };

/// Connection to a firewall's control socket, for requests and replies.
pub struct Client {
    path: PathBuf,
    stream: BufReader<Known>,
}

/// A connection for which the kernel reports the sender of the data (SCM_CREDENTIALS): process and user at the time of
/// writing. All data must come from one process.
struct Known {
    stream: UnixStream,
    writer: Option<UnixCredentials>,
}

impl Read for Known {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut control = cmsg_space!(UnixCredentials);
        let mut vectors = [IoSliceMut::new(bytes)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let socket = self.stream.as_raw_fd();
        let message = recvmsg::<()>(socket, &mut vectors, Some(&mut control), flags)?;
        let writer = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmCredentials(writer) => Some(writer),
            _ => None,
        });
        if message.bytes > 0 && self.writer.is_some() && writer != self.writer {
            return Err(io::Error::other("several processes answer"));
        }
        self.writer = self.writer.or(writer);
        Ok(message.bytes)
    }
}

/// Reply of the firewall: its line, for --json, and the parsed JSON value.
pub struct Answer {
    pub line: String,
    value: Value,
}

impl Answer {
    /// Deserializes the reply.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        T::deserialize(&self.value).map_err(|error| not_understood(&error, &self.line))
    }
}

fn not_understood(why: impl std::fmt::Display, line: &str) -> Failure {
    let mut begin: String = line.chars().take(80).collect();
    if begin.len() < line.len() {
        begin.push('…');
    }
    Failure::new(
        Exit::Refused,
        format_args!(
            "unsupported reply ({why}): use fwctl and firewall of the same version. \
             It begins: {begin}"
        ),
    )
}

/// Returns "user NAME" for the current user, or "user UID" if the user has no name, for messages.
fn me() -> String {
    let uid = nix::unistd::getuid();
    match nix::unistd::User::from_uid(uid) {
        Ok(Some(user)) => format!("user {}", user.name),
        _ => format!("user {uid}"),
    }
}

/// Returns the reason why connecting to a socket failed, with advice.
fn fail_connect(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    let kind = std::fs::metadata(path).map(|data| data.file_type());
    let text = match error.kind() {
        ErrorKind::NotFound => format!(
            "{shown}: no firewall has this control socket: start one with --control {shown}, or \
             name its socket with --socket"
        ),
        ErrorKind::PermissionDenied => format!(
            "{shown}: {} may not open it: use sudo, or start the firewall with --control-owner \
             and --control-mode 0660",
            me()
        ),
        _ if kind.is_ok_and(|kind| !kind.is_socket()) => {
            format!("{shown} is no socket: name the firewall's control socket with --socket")
        }
        ErrorKind::ConnectionRefused => format!(
            "{shown}: the firewall that made it has ended: start one with --control {shown}"
        ),
        ErrorKind::WouldBlock => {
            format!("{shown}: the firewall takes no connection: is it stopped or overloaded?")
        }
        _ => format!(
            "{shown}: {}: name the firewall's control socket with --socket",
            words(error)
        ),
    };
    Failure::new(Exit::Unreachable, text)
}

/// Connects to a Unix socket. Waits for a place in the listener's queue; fails with EAGAIN after CONNECT_SECONDS.
pub fn connect_in_time(path: &Path) -> io::Result<UnixStream> {
    let address = UnixAddr::new(path)?;
    let stream = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    setsockopt(
        &stream,
        sockopt::SendTimeout,
        &TimeVal::seconds(CONNECT_SECONDS),
    )?;
    nix::sys::socket::connect(stream.as_raw_fd(), &address)?;
    Ok(stream.into())
}

/// Connects to the firewall at this control socket.
pub fn connect(path: &Path) -> Result<Client, Failure> {
    let stream = connect_in_time(path).map_err(|error| fail_connect(path, &error))?;
    let writer = None;
    let mut client = Client {
        path: path.to_owned(),
        stream: BufReader::new(Known { stream, writer }),
    };
    setsockopt(client.socket(), sockopt::PassCred, &true)
        .map_err(|error| client.broken(&error.into()))?;
    client.wait_at_most(Some(PATIENCE))?;
    Ok(client)
}

impl Client {
    fn socket(&self) -> &UnixStream {
        &self.stream.get_ref().stream
    }

    /// Returns the credentials of the sender of the replies so far; None before the first reply.
    pub fn writer(&self) -> Option<UnixCredentials> {
        self.stream.get_ref().writer
    }

    /// Returns the credentials of the process that called listen(2) for the socket last, as they were then.
    pub fn listener(&self) -> Option<UnixCredentials> {
        getsockopt(self.socket(), sockopt::PeerCredentials).ok()
    }

    /// Sets the time limit for each of the following reads; None means no limit. A write always has the limit PATIENCE.
    pub fn wait_at_most(&mut self, limit: Option<Duration>) -> Result<(), Failure> {
        let stream = self.socket();
        let set = stream
            .set_read_timeout(limit)
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        set.map_err(|error| self.broken(&error))
    }

    fn broken(&self, error: &io::Error) -> Failure {
        let why = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "it does not answer".to_owned(),
            _ => words(error),
        };
        Failure::new(
            Exit::Unreachable,
            format_args!(
                "{}: {why}: check that the firewall still runs; its stderr may show the reason",
                self.path.display()
            ),
        )
    }

    /// Returns the next line, without its end; None if the firewall closed the connection. Fails if the
    /// line is cut off.
    pub fn line(&mut self) -> Result<Option<String>, Failure> {
        let mut line = Vec::new();
        let mut limited = (&mut self.stream).take(LINE_MAX);
        let read = limited.read_until(b'\n', &mut line);
        match read {
            // The firewall closed the connection while a request was unread.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            read => drop(read.map_err(|error| self.broken(&error))?),
        }
        if line.is_empty() {
            return Ok(None);
        }
        if line.pop() != Some(b'\n') {
            // The connection ended, or the line exceeds the limit.
            let begin = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
            return Err(not_understood("it is cut off", &begin));
        }
        let text = String::from_utf8(line);
        text.map(Some).map_err(|error| {
            not_understood(
                "it is not UTF-8",
                &String::from_utf8_lossy(error.as_bytes()),
            )
        })
    }

    /// Waits until data or the end of the connection is readable, at most until `end`. Returns false if the time is
    /// over.
    pub fn wait_until(&mut self, end: Instant) -> Result<bool, Failure> {
        if !self.stream.buffer().is_empty() {
            return Ok(true);
        }
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut polled = [PollFd::new(self.socket().as_fd(), PollFlags::POLLIN)];
            match poll(&mut polled, left) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::EINTR) if Instant::now() < end => {}
                Err(Errno::EINTR) => return Ok(false),
                Err(error) => return Err(self.broken(&error.into())),
            }
        }
    }

    /// Sends a request and waits for its reply. Fails with the firewall's error message if it refuses.
    pub fn ask(&mut self, request: &Value) -> Result<Answer, Failure> {
        // A refused client receives an error at once and is disconnected: the message is readable even if writing
        // fails.
        let sent = self.socket().write_all(format!("{request}\n").as_bytes());
        let line = match (self.line(), sent) {
            (Ok(Some(line)), _) => line,
            (Err(failure), Ok(())) => return Err(failure),
            (_, Err(error)) => return Err(self.broken(&error)),
            (Ok(None), Ok(())) => {
                let closed = io::Error::other("the connection was closed without an answer");
                return Err(self.broken(&closed));
            }
        };
        let value: Value =
            serde_json::from_str(&line).map_err(|error| not_understood(&error, &line))?;
        match (&value["ok"], &value["error"]) {
            (Value::Bool(true), _) => Ok(Answer { line, value }),
            (Value::Bool(false), Value::String(error)) => Err(Failure::new(Exit::Refused, error)),
            _ => Err(not_understood("it has no \"ok\"", &line)),
        }
    }

    /// Requests the firewall's status.
    pub fn status(&mut self) -> Result<Status, Failure> {
        self.ask(&json!({"command": "status"}))?.read()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::thread;

    use nix::sys::socket::Backlog;

    use super::*;
    use crate::answer::Level;

    /// A path in a separate folder, deleted on drop.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let folder = format!("fwctl-client-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            Place(folder)
        }

        fn path(&self) -> PathBuf {
            self.0.join("control")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Sends a request to a test server and returns the result. The server reads the request, sends `said` and closes
    /// the connection.
    fn asked(name: &str, said: &[u8]) -> Result<Answer, Failure> {
        let place = Place::new(name);
        let listener = UnixListener::bind(place.path()).unwrap();
        let said = said.to_owned();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            BufReader::new(&stream)
                .read_line(&mut String::new())
                .unwrap();
            // The client may leave after reading a part.
            let _ = stream.write_all(&said);
        });
        let answer = connect(&place.path())?.ask(&json!({"command": "log"}));
        server.join().unwrap();
        answer
    }

    fn failure(name: &str, said: &[u8]) -> Failure {
        match asked(name, said) {
            Ok(answer) => panic!("it was taken: {}", answer.line),
            Err(failure) => failure,
        }
    }

    #[test]
    fn a_good_answer_is_kept_as_it_came() {
        let line = r#"{"ok":true,  "was":"info","level":"debug","new":1}"#;
        let answer = asked("good", format!("{line}\n").as_bytes()).unwrap();
        assert_eq!(answer.line, line);
        assert_eq!(answer.read::<Level>().unwrap().level, "debug");
    }

    #[test]
    fn a_refusal_has_the_words_of_the_firewall() {
        let said =
            "{\"ok\":false,\"error\":\"user 1000 may not use the control socket: use sudo\"}\n";
        let failure = failure("refusal", said.as_bytes());
        assert_eq!(failure.exit, Exit::Refused);
        assert_eq!(
            failure.text,
            "user 1000 may not use the control socket: use sudo"
        );
    }

    #[test]
    fn bad_answers_are_told_in_a_line() {
        let huge = vec![b'x'; LINE_MAX as usize + 2];
        for (name, said, words) in [
            ("cut", &b"{\"ok\":true,\"lev"[..], "it is cut off"),
            ("no-json", b"hello\n", "expected value"),
            ("no-ok", b"{\"level\":1}\n", "it has no \"ok\""),
            ("no-text", b"\xff\xfe\n", "not UTF-8"),
            ("huge", &huge, "it is cut off"),
        ] {
            let failure = failure(name, said);
            assert_eq!(failure.exit, Exit::Refused, "{name}");
            assert!(failure.text.contains(words), "{name}: {}", failure.text);
            assert!(
                failure.text.len() < 500 && !failure.text.contains('\n'),
                "{name}"
            );
        }
    }

    #[test]
    fn an_answer_of_another_shape_is_not_understood() {
        let answer = asked("shape", b"{\"ok\":true,\"level\":7}\n").unwrap();
        let failure = answer.read::<Level>().err().unwrap();
        assert!(
            failure.text.contains("invalid type: integer"),
            "{}",
            failure.text
        );
    }

    #[test]
    fn a_connection_that_ends_is_no_answer() {
        let failure = failure("closed", b"");
        assert_eq!(failure.exit, Exit::Unreachable);
        assert!(
            failure.text.contains("closed without an answer"),
            "{}",
            failure.text
        );
    }

    #[test]
    fn a_firewall_that_accepts_no_connection_is_reported_in_time() {
        let place = Place::new("full");
        let listener = UnixListener::bind(place.path()).unwrap();
        nix::sys::socket::listen(&listener, Backlog::new(0).unwrap()).unwrap();
        let mut waiting = Vec::new();
        let failure = loop {
            match connect(&place.path()) {
                Ok(client) => waiting.push(client),
                Err(failure) => break failure,
            }
        };
        assert!(
            failure.text.contains("takes no connection"),
            "{}",
            failure.text
        );
    }

    #[test]
    fn who_is_not_there_is_told_with_the_cure() {
        let place = Place::new("connect");
        let words = |path: &Path| match connect(path) {
            Ok(_) => panic!("{} was connected to", path.display()),
            Err(failure) => failure.text,
        };
        assert!(words(&place.path()).contains("start one with --control"));
        drop(UnixListener::bind(place.path()).unwrap());
        assert!(words(&place.path()).contains("has ended"));
        std::fs::write(place.0.join("file"), "").unwrap();
        assert!(words(&place.0.join("file")).contains("is no socket"));
        assert!(words(&place.0).contains("is no socket"));
        let long = Path::new("/run").join("x".repeat(200));
        assert!(words(&long).contains("name the firewall's control socket"));
    }
}
