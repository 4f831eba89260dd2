// SPDX-License-Identifier: GPL-2.0-or-later
//! A started new firewall: whether it runs, and the reason of a failure.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{pidfd_getfd, pidfd_send_signal, PidfdGetfdFlags, Signal};

use super::orders::{self, Orders};
use super::peer::{self, Peer};
use super::program::Program;
use super::SELF;
use crate::failure::{tell, words, Exit, Failure};

/// Time limit for the new firewall to load its policy and to take over.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(20);
/// Maximum number of bytes of the old firewall's stderr file that are searched for the new firewall's error.
const ERROR_BYTES_MAX: u64 = 1 << 20;

/// Destination of the new firewall's output.
pub enum Output {
    /// A pipe, from which this process reads stderr; stdout is discarded.
    Here,
    /// Stdout and stderr of this process.
    Own,
    /// Stdout and stderr of the old firewall.
    Old(OldOutput),
}

/// Output descriptors of the old firewall.
pub struct OldOutput {
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    /// Size of stderr before the new firewall starts, if stderr is a file: later bytes may be the new firewall's.
    bytes: u64,
}

fn warn_of(name: &str, taken: rustix::io::Result<OwnedFd>) -> Option<OwnedFd> {
    let warn = |error: &rustix::io::Errno| {
        let words = words(&io::Error::from(*error));
        let text = format!(
            "the old firewall's {name} can't be taken over ({words}): the new one's goes here"
        );
        tell("warning", text);
    };
    taken.inspect_err(warn).ok()
}

impl OldOutput {
    pub fn of(peer: &Peer) -> OldOutput {
        let take = |number| pidfd_getfd(peer.process(), number, PidfdGetfdFlags::empty());
        let stdout = warn_of("stdout", take(1));
        let stderr = warn_of("stderr", take(2)).map(File::from);
        let bytes = stderr.as_ref().and_then(|file| file.metadata().ok());
        OldOutput {
            stdout,
            bytes: bytes.map_or(0, |data| data.len()),
            stderr: stderr.map(OwnedFd::from),
        }
    }

    /// Returns the last error line that was added to stderr since the new firewall's start; None if there is none, or
    /// if stderr is not a file. The file is reopened through its descriptor.
    fn error(&self) -> Option<String> {
        let number = self.stderr.as_ref()?.as_raw_fd();
        let path = format!("/proc/self/fd/{number}");
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut file = File::open(path).ok()?;
        file.seek(SeekFrom::Start(self.bytes)).ok()?;
        let mut added = Vec::new();
        file.take(ERROR_BYTES_MAX).read_to_end(&mut added).ok()?;
        last_error(&String::from_utf8_lossy(&added)).map(str::to_owned)
    }
}

/// Returns the text after `error: ` in the last line that begins with `error: `; None if no line does.
pub fn last_error(text: &str) -> Option<&str> {
    let mut lines = text.lines().rev();
    lines.find_map(|line| line.strip_prefix("error: "))
}

/// Process of the new firewall, which has executed the firewall's program. It may have ended meanwhile.
pub struct Started {
    pub pid: i32,
    process: OwnedFd,
    /// Child process; None if init has adopted it.
    pub child: Option<Child>,
    output: Option<OldOutput>,
}

fn refused(text: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Refused, text)
}

fn fail(error: io::Error) -> Failure {
    refused(format_args!(
        "the new firewall can't be started: {}",
        words(&error)
    ))
}

/// Returns the command `fwctl launch`, whose process becomes the new firewall.
/// - ordered: stdin of the process, the socket over which it receives orders.
fn command(ordered: UnixStream, output: &mut Output) -> io::Result<Command> {
    let mut command = Command::new(SELF);
    command.arg("launch").stdin(OwnedFd::from(ordered));
    match output {
        Output::Own => {}
        Output::Here => {
            command.stdout(Stdio::null()).stderr(Stdio::piped());
        }
        Output::Old(old) => {
            for (fd, is_stdout) in [(&old.stdout, true), (&old.stderr, false)] {
                if let Some(fd) = fd.as_ref().map(OwnedFd::try_clone).transpose()? {
                    match is_stdout {
                        true => command.stdout(fd),
                        false => command.stderr(fd),
                    };
                }
            }
        }
    }
    Ok(command)
}

impl Started {
    /// Starts a process that executes the program by the orders: the new firewall. Fails if the process can't execute
    /// it.
    /// - figures: file with the kernel's counters of queues (/proc/net/netfilter/nfnetlink_queue); None: it is not
    ///   passed on.
    /// - is_orphan: true if init adopts the process before it receives the orders; it is then not a child of this
    ///   process.
    pub fn start(
        program: &Program,
        orders: &Orders,
        figures: Option<BorrowedFd>,
        mut output: Output,
        is_orphan: bool,
    ) -> Result<Started, Failure> {
        let (stream, ordered) = UnixStream::pair().map_err(fail)?;
        let mut command = command(ordered, &mut output).map_err(fail)?;
        if is_orphan {
            command.arg("--detach");
        }
        let mut child = command.spawn().map_err(fail)?;
        drop(command); // this closes the copy of the child's socket as well
        if is_orphan {
            child.wait().map_err(fail)?;
        }
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).map_err(fail)?;
        let pid = line.trim_end().parse().unwrap_or(0);
        let process = peer::open_process(pid)?;
        orders::send(stream.get_ref(), orders, program.file.as_fd(), figures).map_err(fail)?;
        let mut said = String::new();
        stream.read_to_string(&mut said).map_err(fail)?;
        if !said.is_empty() {
            return Err(refused(said));
        }
        Ok(Started {
            pid,
            process,
            child: (!is_orphan).then_some(child),
            output: match output {
                Output::Old(old) => Some(old),
                Output::Own | Output::Here => None,
            },
        })
    }

    /// Describes the end of the process: "ended with exit code 2", "was ended by signal 9", or "ended" if it was not a
    /// child. None: it still runs.
    pub fn ended(&mut self) -> Option<String> {
        if !peer::has_ended(self.process.as_fd()) {
            return None;
        }
        let status = self.child.as_mut().and_then(|child| child.wait().ok());
        let code = status.and_then(|status| status.code());
        Some(
            match (code, status.and_then(|status: ExitStatus| status.signal())) {
                (Some(code), _) => format!("ended with exit code {code}"),
                (_, Some(signal)) => format!("was ended by signal {signal}"),
                _ => "ended".to_owned(),
            },
        )
    }

    pub fn kill(&mut self) {
        let _ = pidfd_send_signal(&self.process, Signal::KILL); // it may have ended
    }

    /// Returns the reason of the firewall's failure, or the place where it is logged.
    fn words(&self) -> String {
        let error = self.output.as_ref().and_then(OldOutput::error);
        error.unwrap_or_else(|| {
            let pid = self.pid;
            format!("its stderr, the old one's, has the reason (journalctl _PID={pid})")
        })
    }

    /// Waits until the new firewall replies at the control socket, and returns it. Fails if it ends before that. After
    /// PATIENCE, fails, and kills it if the old firewall still runs.
    pub fn wait_for(&mut self, socket: &Path, old: &Peer) -> Result<Peer, Failure> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(ended) = self.ended() {
                return Err(refused(format_args!(
                    "the new firewall {ended}, the old one (pid {}) stays: {}",
                    old.pid,
                    self.words()
                )));
            }
            match Peer::find(socket) {
                Ok(peer) if peer.pid == self.pid => return Ok(peer),
                _ => thread::sleep(STEP),
            }
        }
        if peer::has_ended(old.process()) {
            return Err(refused(format_args!(
                "the new firewall (pid {}) has taken over, but does not answer at {}: {}",
                self.pid,
                socket.display(),
                self.words()
            )));
        }
        self.kill();
        Err(refused(format_args!(
            "the new firewall did not take over within {} seconds and was ended: {}",
            PATIENCE.as_secs(),
            self.words()
        )))
    }
}
