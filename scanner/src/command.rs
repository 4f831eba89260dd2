// SPDX-License-Identifier: GPL-2.0-or-later
//! From the command line to a scan and back to an exit code.

use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::arguments::{Arguments, Show};
use crate::counts::Sum;
use crate::failure::{Failure, Result, EXIT_DONE, EXIT_INTERRUPTED};
use crate::flight::Settings;
use crate::hints;
use crate::matcher::Matcher;
use crate::output::{self, End, Head, Line, Output};
use crate::plan::Plan;
use crate::ports::Ports;
use crate::probe::http::Http;
use crate::progress::Progress;
use crate::record::Batch;
use crate::resume::Resume;
use crate::run::{self, Job, ProbeKind};
use crate::syn;
use crate::targets::read::{self, Targets, Wanted};
use crate::verify;

/// Runs the command. Gives the exit code.
pub fn run(arguments: &Arguments) -> Result<u8> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| Failure::system("sigaction", &error))?;
    }
    if let Some(name) = &arguments.from {
        hints::enter_namespace(name).map_err(|error| namespace_refused(name, &error))?;
    }
    match &arguments.verify {
        Some(policy) => verify::run(arguments, policy, &stop),
        None => scan(arguments, &stop),
    }
}

fn namespace_refused(name: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Failure::privilege(format!(
            "--from {name}: a namespace is entered with CAP_SYS_ADMIN: run as root"
        )),
        _ => Failure::usage(format!(
            "--from {name}: no such network namespace: {error}: ip netns"
        )),
    }
}

fn probe(arguments: &Arguments) -> Result<(ProbeKind, Option<&'static str>)> {
    let http = || Http::new(&arguments.path, &arguments.header, arguments.tls);
    Ok(match () {
        _ if arguments.ssh.is_some() => (ProbeKind::Ssh, Some("ssh")),
        _ if arguments.banner => (ProbeKind::Banner, None),
        _ if arguments.http && arguments.tls => (ProbeKind::Https(http()?), Some("https")),
        _ if arguments.http => (ProbeKind::Http(http()?), Some("http")),
        _ => (ProbeKind::Connect, None),
    })
}

fn matcher(arguments: &Arguments) -> Result<Matcher> {
    let ssh = arguments.ssh.iter().map(|text| ("--ssh", text.as_str()));
    let others = arguments
        .matches
        .iter()
        .map(|text| ("--match", text.as_str()));
    let all: Vec<(&str, &str)> = ssh.chain(others).collect();
    let talks = arguments.ssh.is_some() || arguments.http || arguments.banner;
    if !all.is_empty() && !talks {
        return Err(Failure::usage(
            "--match: there is no answer to match: say --ssh, --http or --banner, too",
        ));
    }
    Matcher::new(&all)
}

/// Which states are told, and whether of answers only those that match.
fn shown(show: &[Show]) -> ([bool; 4], bool) {
    let has = |one| show.contains(&one) || show.contains(&Show::All);
    let matched = show.contains(&Show::Matched) && !show.contains(&Show::All);
    let open = has(Show::Open) || show.contains(&Show::Matched);
    let told = [
        open,
        has(Show::Closed),
        has(Show::Filtered),
        has(Show::Error),
    ];
    (told, matched && !show.contains(&Show::Open))
}

/// The targets of the command line, in an order, from where an interrupted scan stopped.
fn plan(arguments: &Arguments, targets: &mut Targets, rings: usize) -> Result<(Plan, Option<u64>)> {
    let ports = arguments.ports.as_deref().ok_or_else(|| {
        Failure::usage("no port: say which by --ports 22,80,8000-8100 (- is all of them)")
    })?;
    let ports = Ports::parse(ports).map_err(|why| Failure::usage(format!("--ports: {why}")))?;
    let resume = match &arguments.resume {
        Some(file) => Resume::read(file)?.map(|resume| (file, resume)),
        None => None,
    };
    let fresh = || {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(SystemTime::now())
    };
    let seed = match &resume {
        Some((_, resume)) => resume.seed,
        None if arguments.sequential => None,
        None => Some(arguments.seed.unwrap_or_else(fresh)),
    };
    let mut plan = Plan::new(std::mem::take(&mut targets.set), ports, seed, rings);
    if let Some((file, resume)) = resume {
        resume.apply(&mut plan, file)?;
    }
    Ok((plan, seed))
}

fn scan(arguments: &Arguments, stop: &AtomicBool) -> Result<u8> {
    let (probe, service) = probe(arguments)?;
    let matcher = matcher(arguments)?;
    let mut targets = read::read(&Wanted {
        words: &arguments.targets,
        file: arguments.target_file.as_deref(),
        exclude: &arguments.exclude,
        exclude_file: arguments.exclude_file.as_deref(),
        block_file: arguments.block_file.as_deref(),
        authorised: arguments.i_am_authorised,
    })?;
    let (chosen, mut notes) = run::choose(arguments.engine)?;
    let (plan, seed) = plan(arguments, &mut targets, 4)?;
    let (layout, told) = run::layout(chosen, arguments.max_inflight, arguments.rings, plan.left());
    notes.extend(told);
    notes.extend(hints::hints(
        plan.left(),
        (layout.rings * layout.slots) as u64,
    ));
    if targets.blocked > 0 {
        notes.push(format!(
            "{} addresses are on the block list and are not asked",
            targets.blocked
        ));
    }
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    let (told, only_matched) = shown(&arguments.show);
    let settings = Settings {
        slots: layout.slots,
        connect_timeout_ns: arguments.timeout * 1_000_000,
        talk_timeout_ns: arguments.read_timeout * 1_000_000,
        retries: arguments.retries,
        rate: arguments.rate as f64,
        told,
    };
    let job = Job {
        plan: &plan,
        probe,
        chosen,
        layout,
        settings,
        stop,
    };
    let head = Head {
        command: std::env::args().collect::<Vec<_>>().join(" "),
        started: SystemTime::now(),
        ports: plan.ports.text(),
        port_count: plan.ports.len(),
        hosts: plan.targets.len(),
        service,
        syn: arguments.syn,
    };
    let mut writer = Writer {
        plan: &plan,
        targets: &targets,
        matcher: &matcher,
        only_matched,
        matched: 0,
        output: output::output(arguments.output),
        to: BufWriter::with_capacity(1 << 16, io::stdout()),
    };
    writer
        .output
        .begin(&head, &mut writer.to)
        .map_err(unwritable)?;
    let progress = Progress::new(plan.left(), arguments.quiet);
    let (start, cpu) = (Instant::now(), hints::cpu_time());
    let take = |batch: &Batch| writer.take(batch);
    let watch = |sum: &Sum| progress.show(sum);
    let (sum, left) = match arguments.syn {
        true => (
            syn::run(&syn_job(&job, arguments), take, watch)?,
            Vec::new(),
        ),
        false => run::run(&job, take, watch)?,
    };
    progress.end();
    let interrupted = stop.load(Ordering::Relaxed);
    let end = End {
        targets: plan.left(),
        sum,
        elapsed: start.elapsed(),
        cpu: hints::cpu_time().saturating_sub(cpu),
        engine: if arguments.syn {
            "sendmmsg and TPACKET_V3"
        } else {
            chosen.name()
        },
        rings: if arguments.syn { 1 } else { layout.rings },
        matched: writer.matched,
        interrupted,
    };
    writer.end(&end)?;
    if !arguments.quiet {
        eprint!("{}", output::summary(&end));
    }
    if let Some(file) = &arguments.resume {
        keep(file, &plan, seed, left, interrupted)?;
    }
    Ok(if interrupted {
        EXIT_INTERRUPTED
    } else {
        EXIT_DONE
    })
}

fn syn_job<'a>(job: &Job<'a>, arguments: &Arguments) -> syn::Job<'a> {
    syn::Job {
        plan: job.plan,
        timeout: Duration::from_millis(arguments.timeout),
        retries: job.settings.retries,
        rate: job.settings.rate,
        told: job.settings.told,
        stop: job.stop,
    }
}

/// Writes what is left of an interrupted scan; of one that is done, nothing stays.
fn keep(
    file: &str,
    plan: &Plan,
    seed: Option<u64>,
    left: Vec<u64>,
    interrupted: bool,
) -> Result<()> {
    if interrupted {
        let (start, mut begun) = plan.stopped();
        begun.extend(left);
        return Resume::new(plan, seed, start, begun).write(file);
    }
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::system(
            &format!("{file}: cannot be removed"),
            &error,
        )),
        _ => Ok(()),
    }
}

fn unwritable(error: io::Error) -> Failure {
    Failure::system("the results cannot be written", &error)
}

struct Writer<'a> {
    plan: &'a Plan,
    targets: &'a Targets,
    matcher: &'a Matcher,
    only_matched: bool,
    matched: u64,
    output: Box<dyn Output>,
    to: BufWriter<io::Stdout>,
}

impl Writer<'_> {
    fn take(&mut self, batch: &Batch) -> io::Result<()> {
        for (record, answer) in batch.iter() {
            let is_answer = record.finding == crate::state::Finding::Answer;
            let matched = match is_answer {
                true => self.matcher.matches(answer),
                false => None,
            };
            self.matched += u64::from(matched == Some(true));
            if self.only_matched && matched != Some(true) {
                continue;
            }
            let (address, port) = self.plan.target(record.index);
            let line = Line {
                address,
                name: self.targets.names.get(&address).map(|name| name.as_str()),
                port,
                state: record.state,
                reason: record.reason,
                errno: record.errno,
                attempts: record.attempts,
                rtt_us: record.rtt_us,
                finding: record.finding,
                answer,
                matched,
            };
            self.output.result(&line, &mut self.to)?;
        }
        self.to.flush()
    }

    /// An output that is gone does not hear of the end.
    fn end(&mut self, end: &End) -> Result<()> {
        let written = self
            .output
            .end(end, &mut self.to)
            .and_then(|()| self.to.flush());
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unwritable(error)),
            _ => Ok(()),
        }
    }
}
