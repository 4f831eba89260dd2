// SPDX-License-Identifier: GPL-2.0-or-later
//! Test environment: two namespaces with a pair of interfaces, the program as a child, a counting sender, and tools that
//! check the files.

use std::ffi::CString;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use capture::counts::Ledger;
use capture::link::Link;
use capture::look::look_up;
use capture::socket::Socket;
use testbed::netns::Namespace;
use testbed::wait::{until, wait_within};

pub(crate) use crate::program;

/// Time limit of every wait; a longer wait counts as a hang.
pub const LIMIT: Duration = Duration::from_secs(300);
/// EtherType for experiments (IEEE 802): no stack sends it on its own.
pub const PROTOCOL: u16 = 0x88b5;
pub const OURS: &str = "ether proto 0x88b5";
/// Command-line words of the backends that most tests run, in turn; afxdp and nflog have tests of their own.
pub const BACKENDS: [&[&str]; 4] = [
    &["--backend", "tpacket3"],
    &["--backend", "recvmmsg"],
    &["--backend", "recvmmsg", "--pages", "thp"],
    &["--backend", "io-uring", "--pages", "thp"],
];

/// Two namespaces, each with an interface `veth`. The program captures in `here`.
pub struct Place {
    pub here: Namespace,
    pub there: Namespace,
    pub folder: Folder,
}

impl Place {
    /// Creates the namespaces. Fails with a message unless run as root: a skipped test must not pass.
    pub fn new() -> Place {
        let new = || Namespace::new().unwrap_or_else(|error| panic!("{error:#}: make check-root"));
        let (here, there) = (new(), new());
        Namespace::veth_pair(&here, &there).unwrap();
        Place {
            here,
            there,
            folder: Folder::new(),
        }
    }

    pub fn file(&self, name: &str) -> String {
        self.folder.0.join(name).to_str().unwrap().to_owned()
    }

    /// Runs lines of `ip` commands in `here`.
    pub fn ip(&self, line: &str) {
        self.here.feed("ip", &["-batch", "-"], line).unwrap();
    }
}

/// A temporary folder that only root can change; removed on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    fn new() -> Folder {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("capture-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    /// Returns the files, sorted by name.
    pub fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running program; killed on drop.
pub struct Run {
    pub child: Child,
    lines: Receiver<String>,
    /// Lines of the program's stderr that were read so far.
    pub said: String,
}

impl Run {
    /// Starts the program and waits for its start line. From then on the program captures.
    pub fn start(command: &mut Command, words: &[&str]) -> Run {
        let mut run = Run::spawn(command, words);
        run.hears("capture: ");
        run
    }

    /// Starts the program, without waiting for its start line.
    pub fn spawn(command: &mut Command, words: &[&str]) -> Run {
        let child = command
            .args(words)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("it starts");
        let stderr = child.stderr.take().unwrap();
        let (told, lines) = channel();
        thread::spawn(move || {
            let heard = BufReader::new(stderr).lines().map_while(Result::ok);
            heard.for_each(|line| drop(told.send(line)));
        });
        Run {
            child,
            lines,
            said: String::new(),
        }
    }

    /// Starts the program in `here`, on `veth`.
    pub fn on(place: &Place, words: &[&str]) -> Run {
        let all = [&["-i", "veth"], words].concat();
        Run::start(&mut place.here.command(program()), &all)
    }

    /// Waits for a line of stderr that contains `words`, and returns it. Panics if there is none within LIMIT.
    pub fn hears(&mut self, words: &str) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(rest) {
                Ok(line) => {
                    self.said += &format!("{line}\n");
                    if line.contains(words) {
                        return line;
                    }
                }
                Err(_) => panic!("it does not say \"{words}\": {}", self.said),
            }
        }
    }

    /// Returns true if the lines read so far contain `words`; reads no further line.
    pub fn has_said(&self, words: &str) -> bool {
        self.said.contains(words)
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: kill(2) touches no memory; the child was not waited for yet, so its process id is not reused.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Suspends the program by SIGSTOP, and waits until all its threads are stopped: the signal alone takes time to
    /// arrive.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let tasks = format!("/proc/{}/task", self.child.id());
        let stands = |task: std::io::Result<std::fs::DirEntry>| {
            let text = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
            text.rsplit(')').next().unwrap().starts_with(" T")
        };
        let all_stand = || Ok(std::fs::read_dir(&tasks).unwrap().all(stands));
        until("it stops", LIMIT, all_stand).unwrap();
    }

    /// Waits until the kernel has counted `packets` packets and the ledger accounts for all: written, unwritten or
    /// dropped.
    pub fn has_taken(&mut self, packets: u64) {
        let taken = || {
            self.signal(libc::SIGUSR1);
            self.hears("ledger: delivered");
            let now = ledger(&self.said);
            Ok(now.kernel == packets && now.reconciles())
        };
        if let Err(error) = until("all packets are counted", LIMIT, taken) {
            panic!("{error}: {}", self.said);
        }
    }

    /// Waits until the program has ended; returns its exit code, or None if a signal ended it.
    pub fn wait(&mut self) -> Option<i32> {
        let status = wait_within(&mut self.child, LIMIT)
            .unwrap_or_else(|| panic!("it is not done: {}", self.said));
        while let Ok(line) = self.lines.recv_timeout(LIMIT) {
            self.said += &format!("{line}\n");
        }
        status.code()
    }

    /// Ends the program by SIGINT, which must succeed; returns the ledger.
    pub fn end(mut self) -> Ledger {
        self.signal(libc::SIGINT);
        assert_eq!(self.wait(), Some(0), "{}", self.said);
        let ledger = ledger(&self.said);
        assert!(ledger.reconciles(), "{}", self.said);
        ledger
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses the last ledger of the output.
pub fn ledger(said: &str) -> Ledger {
    let line = |start: &str| {
        let mut lines = said.lines().filter(|line| line.starts_with(start));
        let line = lines
            .next_back()
            .unwrap_or_else(|| panic!("no ledger: {said}"));
        let numbers = line.split(' ').filter_map(|word| word.parse().ok());
        numbers.collect::<Vec<u64>>()
    };
    let (kernel, written) = (line("ledger: kernel"), line("ledger: delivered"));
    Ledger {
        kernel: kernel[0],
        delivered: kernel[1],
        drops: kernel[2],
        written: written[1],
        unwritten: written[2],
    }
}

/// Builds a frame of `bytes` bytes: MAC addresses, `head` (EtherType, possibly after a tag), number (32 bits,
/// big-endian), filler.
fn frame(head: &[u8], number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2];
    frame.extend_from_slice(head);
    frame.extend_from_slice(&number.to_be_bytes());
    frame.resize(bytes, number as u8);
    frame
}

/// Sends frames with these numbers by `veth`, each exactly once.
pub fn send(from: &Namespace, numbers: std::ops::Range<u32>, bytes: usize) {
    send_with(from, &PROTOCOL.to_be_bytes(), numbers, bytes);
}

pub fn send_with(from: &Namespace, head: &[u8], numbers: std::ops::Range<u32>, bytes: usize) {
    from.enter(|| {
        let socket = Socket::new(Link::Ethernet).unwrap();
        let seen = look_up(&CString::new("veth").unwrap()).unwrap();
        // SAFETY: sockaddr_ll is plain data for which all zeros is valid.
        let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = seen.index as i32;
        let size = size_of::<libc::sockaddr_ll>() as u32;
        for number in numbers {
            let frame = frame(head, number, bytes);
            // SAFETY: sendto(2) reads the frame and an address, by their lengths.
            let sent = unsafe {
                let (at, to) = (frame.as_ptr().cast(), (&raw const to).cast());
                libc::sendto(socket.as_raw_fd(), at, frame.len(), 0, to, size)
            };
            assert_eq!(
                sent,
                frame.len() as isize,
                "{}",
                std::io::Error::last_os_error()
            );
        }
    });
}

/// Returns a tool's output for a file; the tool must accept the file without complaint.
pub fn judge(tool: &str, words: &[&str], file: &Path) -> String {
    let output = Command::new(tool).args(words).arg(file).output();
    let output = output.unwrap_or_else(|error| panic!("{tool}: {error}: make deps"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    let heard: Vec<&str> = stderr
        .lines()
        .filter(|line| !line.starts_with("Running as"))
        .collect();
    assert!(
        output.status.success() && heard.is_empty(),
        "{tool} {}: {heard:?}",
        file.display()
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the number of packets that capinfos finds.
pub fn count(file: impl AsRef<Path>) -> u64 {
    let said = judge("capinfos", &["-c", "-M", "-T", "-r"], file.as_ref());
    said.split_whitespace().last().unwrap().parse().unwrap()
}

/// Returns a field of each packet, as decoded by tshark.
pub fn fields(file: impl AsRef<Path>, field: &str) -> Vec<String> {
    let said = judge(
        "tshark",
        &["-T", "fields", "-e", field, "-r"],
        file.as_ref(),
    );
    said.lines().map(str::to_owned).collect()
}

/// Returns the number that each of our frames contains after its Ethernet header.
pub fn numbers(file: impl AsRef<Path>) -> Vec<u32> {
    let data = fields(file, "data.data");
    let number = |text: &String| u32::from_str_radix(&text[..8], 16).unwrap();
    data.iter().map(number).collect()
}

/// Returns the number of packets recorded as missing, and the counts (received, dropped) of the last statistics block,
/// if there is one.
pub fn gaps(file: impl AsRef<Path>) -> (u64, Option<(u64, u64)>) {
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let (mut at, mut gaps, mut told) = (0, 0, None);
    while at < bytes.len() {
        let end = at + word(at + 4);
        assert_eq!(word(end - 4), end - at, "a block is whole");
        match word(at) {
            6 => {
                let options = at + 28 + word(at + 20).next_multiple_of(4);
                // epb_dropcount is the first option; a comment may follow it.
                if options + 4 < end && word(options) == 4 | 8 << 16 {
                    gaps += long(options + 4);
                }
            }
            5 => told = Some((long(at + 48), long(at + 60))),
            _ => (),
        }
        at = end;
    }
    (gaps, told)
}

/// Creates a tunnel interface `tun0` in `here` with this link type (ARPHRD_*), and sets it up. Data written to the file
/// arrives by the interface.
pub fn tunnel(place: &Place, hardware: u16) -> std::fs::File {
    let file = place.here.enter(|| {
        let mut file = std::fs::OpenOptions::new();
        let file = file.read(true).write(true).open("/dev/net/tun").unwrap();
        // SAFETY: ifreq is plain data for which all zeros is valid; the first call reads it, the second takes a number.
        unsafe {
            let mut request: libc::ifreq = std::mem::zeroed();
            for (to, from) in request.ifr_name.iter_mut().zip(b"tun0") {
                *to = *from as libc::c_char;
            }
            request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
            assert_eq!(
                libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &request),
                0
            );
            assert_eq!(
                libc::ioctl(file.as_raw_fd(), libc::TUNSETLINK as _, i32::from(hardware)),
                0
            );
        }
        file
    });
    place.ip("link set tun0 up\n");
    file
}
