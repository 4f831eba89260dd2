// SPDX-License-Identifier: GPL-2.0-or-later
//! `make bench-scanner`: compares the scanner's two engines and its SYN mode with the scanners on PATH, interleaved, in
//! namespaces. Writes a result folder as an experiment does, with a separate report.

mod place;
mod report;
mod result;
mod subject;

use std::path::PathBuf;

use clap::Parser;

use place::{Place, BEHIND};
use result::Recorder;
use subject::{Part, Run, Subject};

/// Measures the scanner beside others.
#[derive(Parser)]
struct Arguments {
    /// The scanner's program
    #[arg(long)]
    scanner: String,
    /// Folder of the results
    #[arg(long)]
    out: PathBuf,
    /// Runs of each subject and workload
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Another scanner, `NAME=COMMAND {targets} {port}`; a line with "open" counts as an open port
    #[arg(long)]
    peer: Vec<String>,
    /// Only workloads whose names have this in them
    #[arg(long, default_value = "")]
    only: String,
    /// Cargo says so to benchmarks
    #[arg(long, hide = true)]
    bench: bool,
}

/// Workload of the benchmark: targets, their port, and the kind of network.
struct Workload {
    name: &'static str,
    targets: &'static str,
    port: u16,
    /// Number of targets at which the port is open.
    truth: u64,
    kind: Kind,
}

/// Network of a workload, and the state of its targets.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Closed or open ports over loopback.
    Loopback,
    /// Silent hosts over veth: all TCP packets are dropped.
    Silent,
    /// Closed or open ports over veth; masscan runs, too.
    Veth,
    /// SSH servers over loopback: the scanners read version lines, on one CPU.
    Ssh,
}

const ALL: u64 = 65536;
/// Part of the silent targets (network and number of addresses), for scanners that wait for only a few hundred hosts at
/// a time.
const FEW: Part<'static> = ("10.64.0.0/20", 4096);
const WORKLOADS: [Workload; 6] = [
    workload("closed, 127.0.0.0/16", "127.0.0.0/16", 9, 0, Kind::Loopback),
    workload(
        "open, 127.0.0.0/16",
        "127.0.0.0/16",
        22,
        ALL,
        Kind::Loopback,
    ),
    workload("silent, /16 over veth, 1 s", BEHIND, 9, 0, Kind::Silent),
    workload("closed, /16 over veth", BEHIND, 9, 0, Kind::Veth),
    workload("open, /16 over veth", BEHIND, 22, ALL, Kind::Veth),
    workload("ssh, 127.0.0.0/16", "127.0.0.0/16", 22, ALL, Kind::Ssh),
];

const fn workload(
    name: &'static str,
    targets: &'static str,
    port: u16,
    truth: u64,
    kind: Kind,
) -> Workload {
    Workload {
        name,
        targets,
        port,
        truth,
        kind,
    }
}

impl Workload {
    /// Returns the workload's name and route in the result files.
    fn slug(&self) -> (&'static str, &'static str) {
        let name = self.name.split([',', ' ']).next().unwrap_or(self.name);
        match self.kind {
            Kind::Loopback | Kind::Ssh => (name, "loopback"),
            Kind::Silent | Kind::Veth => (name, "veth"),
        }
    }

    fn place(&self) -> anyhow::Result<Place> {
        let mut place = match self.kind {
            Kind::Loopback | Kind::Ssh => Place::loopback()?,
            Kind::Silent => Place::veth(true)?,
            Kind::Veth => Place::veth(false)?,
        };
        match self.kind {
            Kind::Ssh => place.answer(22, b"SSH-2.0-OpenSSH_9.2\r\n")?,
            _ => place.answer(22, b"")?,
        }
        Ok(place)
    }

    fn subjects(&self, arguments: &Arguments) -> Vec<Subject> {
        let base = format!(
            "{} {{targets}} -p {{port}} -o json -q --timeout 1000",
            arguments.scanner
        );
        let ours = |name: &str, words: &str| {
            Subject::new(name, &format!("{base} {words}"), "\"state\":\"open\"")
        };
        let mut subjects = match self.kind {
            Kind::Ssh => {
                let asks = "--rings 1 --ssh OpenSSH --read-timeout 2000";
                vec![
                    ours("io_uring, 1 ring", asks),
                    ours("epoll, 1 thread", &format!("{asks} --engine epoll")),
                ]
            }
            Kind::Silent => vec![
                ours("io_uring", "--retries 0 --max-inflight 65536 --rings 4"),
                ours("epoll", "--retries 0 --max-inflight 65536 --engine epoll"),
                ours("syn", "--retries 0 --syn"),
            ],
            _ => vec![
                ours("io_uring", ""),
                ours("io_uring, 1 ring", "--rings 1"),
                ours("epoll", "--engine epoll"),
                ours("syn", "--syn"),
            ],
        };
        subjects.extend(self.peers());
        for peer in &arguments.peer {
            if let Some((name, line)) = peer.split_once('=') {
                subjects.push(Subject::new(name, line, "open"));
            }
        }
        subjects.retain(Subject::is_there);
        if self.kind == Kind::Ssh {
            let bound = ["taskset", "-c", "0"].map(str::to_string);
            for subject in &mut subjects {
                subject.words.splice(0..0, bound.clone());
            }
        }
        subjects
    }

    /// Returns the other scanners for the workload, also if they are not on PATH. Their options are the defaults, apart
    /// from time-outs, retries, rates and batch sizes.
    fn peers(&self) -> Vec<Subject> {
        let nmap = |kind: &str| {
            let line = format!("nmap {kind} -n -Pn -p {{port}} -oG - --max-retries 0 --min-rate 100000 {{targets}}");
            Subject::new(&format!("nmap {kind}"), &line, "/open/")
        };
        // io_uring_scanner prints address and port of each open target, or its SSH version.
        let published = |ring: u32, mode: &str, open| {
            let line = format!("io_uring_scanner --ring-size {ring} --connect-timeout-sec 1 {{port}} {{targets}} {mode}");
            Subject::new(&format!("io_uring_scanner, ring of {ring}"), &line, open)
        };
        let rustscan = "rustscan -a {targets} -p {port} -g --no-banner -b 4096 -t 1000 --tries 1";
        let rustscan = Subject::new("rustscan", rustscan, "->");
        let masscan =
            "masscan {targets} -p {port} --rate 100000 --wait 2 -oG - --interface veth --router-mac {mac}";
        let masscan = Subject::new("masscan", masscan, "/open/");
        match self.kind {
            Kind::Loopback => vec![
                published(1024, "tcp-connect", ":"),
                rustscan,
                nmap("-sT"),
                nmap("-sS"),
            ],
            Kind::Veth => vec![
                published(1024, "tcp-connect", ":"),
                rustscan,
                nmap("-sT"),
                nmap("-sS"),
                masscan,
            ],
            Kind::Silent => vec![
                published(1024, "tcp-connect", ":").of(FEW),
                // The scanner's buffers limit the size of its ring.
                published(16384, "tcp-connect", ":"),
                rustscan.of(FEW),
                nmap("-sT").of(FEW),
                nmap("-sS").of(FEW),
            ],
            Kind::Ssh => vec![published(1024, "ssh-version OpenSSH", "SSH-2.0")],
        }
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut recorder = Recorder::new(&arguments.out, arguments.rounds)?;
    let mut report = report::head(arguments.rounds);
    for workload in WORKLOADS
        .iter()
        .filter(|one| one.name.contains(&arguments.only))
    {
        eprintln!("{}", workload.name);
        measure(workload, &arguments, &mut recorder, &mut report)?;
        // The report so far remains if the rest is interrupted.
        std::fs::write(arguments.out.join("report.md"), &report)?;
    }
    if arguments.only.is_empty() {
        curves(&arguments, &mut recorder)?;
        report += "\n![wall time](wall.svg)\n![CPU time](cpu.svg)\n";
    }
    recorder.finish()?;
    std::fs::write(arguments.out.join("report.md"), &report)?;
    print!("{report}");
    Ok(())
}

/// Runs all subjects in turn, in an order that rotates with the rounds. Returns the successful runs of each subject. A
/// subject that fails in the first round is not run again.
/// - count: number of rounds.
fn rounds(
    workload: &Workload,
    subjects: &[Subject],
    targets: Part,
    count: usize,
) -> anyhow::Result<Vec<Vec<Run>>> {
    let place = workload.place()?;
    let mut runs = vec![Vec::new(); subjects.len()];
    for round in 0..count {
        for turn in 0..subjects.len() {
            let at = (turn + round) % subjects.len();
            // A subject that failed in the first round does not run again.
            if round > 0 && runs[at].is_empty() {
                continue;
            }
            match subjects[at].run(&place, targets, workload.port)? {
                Some(run) => runs[at].push(run),
                None => eprintln!("  {} failed or took more than 40 s", subjects[at].name),
            }
        }
    }
    Ok(runs)
}

fn measure(
    workload: &Workload,
    arguments: &Arguments,
    recorder: &mut Recorder,
    report: &mut String,
) -> anyhow::Result<()> {
    let subjects = workload.subjects(arguments);
    let all = (workload.targets, ALL);
    let runs = rounds(workload, &subjects, all, arguments.rounds)?;
    for (subject, runs) in subjects
        .iter()
        .zip(&runs)
        .filter(|(_, runs)| !runs.is_empty())
    {
        recorder.add(workload, &subject.name, runs)?;
        *report += &report::row(workload, &subject.name, runs, arguments.rounds);
    }
    Ok(())
}

/// Measures wall and CPU time of scans of 2^8 to 2^14 targets, with one closed port over loopback.
fn curves(arguments: &Arguments, recorder: &mut Recorder) -> anyhow::Result<()> {
    let workload = &WORKLOADS[0];
    let subjects = workload.subjects(arguments);
    // `measure` has measured the full range already.
    for bits in (8..16).step_by(2) {
        let targets = format!("127.0.0.0/{}", 32 - bits);
        let runs = rounds(workload, &subjects, (&targets, 1 << bits), arguments.rounds)?;
        for (subject, runs) in subjects.iter().zip(&runs) {
            recorder.add(workload, &subject.name, runs)?;
        }
    }
    Ok(())
}
