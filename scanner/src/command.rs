// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs a scan from the parsed command line to the exit code.

use std::io;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use crate::arguments::{Arguments, Show};
use crate::counts::Sum;
use crate::failure::{Failure, Result, EXIT_DONE, EXIT_INTERRUPTED};
use crate::hints;
use crate::matcher::Matcher;
use crate::output::{self, End, Head};
use crate::plan::Plan;
use crate::ports::Ports;
use crate::probe::http::Http;
use crate::progress::Progress;
use crate::record::Batch;
use crate::resume::{self, Left, Question, Resume};
use crate::run::{self, Chosen, Job, Layout, ProbeKind};
use crate::signals;
use crate::syn::{self, runs::Runs};
use crate::targets::read::{self, Targets, Wanted};
use crate::verify;
use crate::writer::Writer;

/// Number of rings that the plan assumes when it splits the last targets; a few more rings do no harm.
const PLANNED_RINGS: usize = 4;

/// Runs the command; returns the exit code.
pub fn run(arguments: &Arguments) -> Result<u8> {
    arguments.check()?;
    if let Some(name) = &arguments.from {
        hints::enter_namespace(name).map_err(|error| namespace_refused(name, &error))?;
    }
    match &arguments.expected.verify {
        Some(policy) => verify::run(arguments, policy),
        None => scan(arguments),
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

/// Returns the probe, the name of the service that it implies, if any, and the question, which --resume compares with
/// that of the interrupted scan.
fn asked(arguments: &Arguments) -> Result<(ProbeKind, Option<&'static str>, Question<'_>)> {
    let given = &arguments.probe;
    let path = given.path.as_deref().unwrap_or("/");
    let http = || Http::new(path, &given.header, given.tls);
    let (by, probe, service) = match () {
        // A SYN scan has no conversation.
        _ if given.syn => ("--syn", ProbeKind::Connect, None),
        _ if given.ssh.is_some() => ("--ssh", ProbeKind::Ssh, Some("ssh")),
        _ if given.banner => ("--banner", ProbeKind::Banner, None),
        _ if given.http && given.tls => ("--http --tls", ProbeKind::Https(http()?), Some("https")),
        _ if given.http => ("--http", ProbeKind::Http(http()?), Some("http")),
        _ => ("connections", ProbeKind::Connect, None),
    };
    let mut words = expressions(arguments);
    words.push(("--path", path));
    words.extend(given.header.iter().map(|text| ("--header", text.as_str())));
    Ok((probe, service, Question { by, words }))
}

/// Returns the expressions that answers must match, each with its option (--ssh or --match).
fn expressions(arguments: &Arguments) -> Vec<(&'static str, &str)> {
    let given = &arguments.probe;
    let ssh = given.ssh.iter().map(|text| ("--ssh", text.as_str()));
    let others = given.matches.iter().map(|text| ("--match", text.as_str()));
    ssh.chain(others).collect()
}

fn matcher(arguments: &Arguments) -> Result<Matcher> {
    let all = expressions(arguments);
    let talks = arguments.probe.ssh.is_some() || arguments.probe.http || arguments.probe.banner;
    if !all.is_empty() && !talks {
        return Err(Failure::usage(
            "--match: there is no answer to match: say --ssh, --http or --banner, too",
        ));
    }
    Matcher::new(&all)
}

/// Returns true for each reported state, in the order of [`crate::state::STATES`], and true if only those open targets
/// are reported whose answers match.
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

/// The plan of a scan: targets, order, and starting point.
struct Planned {
    plan: Plan,
    seed: Option<u64>,
    /// Targets that the interrupted --syn scan left unanswered; None if no scan is resumed, or for a scan by
    /// connections.
    unanswered: Option<Runs>,
    left: u64,
}

/// Creates the plan for the targets of the command line, and empties `targets.set`. If --resume names an existing file,
/// the plan continues where that scan stopped.
fn plan(arguments: &Arguments, question: &Question, targets: &mut Targets) -> Result<Planned> {
    let ports = arguments.ports.as_deref().ok_or_else(|| {
        Failure::usage("no port: say which by --ports 22,80,8000-8100 (- is all of them)")
    })?;
    let ports = Ports::parse(ports).map_err(|why| Failure::usage(format!("--ports: {why}")))?;
    if arguments.probe.syn {
        syn::check(&targets.set, ports.len())?;
    }
    let resume = match &arguments.resume {
        Some(file) => {
            let read = Resume::read(file)?;
            resume::check_writable(file)?;
            read.map(|resume| (file, resume))
        }
        None => None,
    };
    let fresh = || {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(SystemTime::now())
    };
    let (sequential, wanted) = (arguments.which.sequential, arguments.which.seed);
    let seed = match &resume {
        Some((file, resume)) => resume.order(sequential, wanted, file)?,
        None if sequential => None,
        None => Some(wanted.unwrap_or_else(fresh)),
    };
    let mut plan = Plan::new(std::mem::take(&mut targets.set), ports, seed, PLANNED_RINGS);
    let unanswered = match resume {
        Some((file, resume)) => resume.apply(&mut plan, question, file)?,
        None => None,
    };
    let left = match &unanswered {
        Some(runs) => runs.count(plan.len()).unwrap_or(0),
        None => plan.left(),
    };
    Ok(Planned {
        plan,
        seed,
        unanswered,
        left,
    })
}

/// Chooses the engine and the numbers of rings and slots; appends its notes to `notes`.
/// - left: number of targets still to ask.
fn carrier(arguments: &Arguments, left: u64, notes: &mut Vec<String>) -> Result<(Chosen, Layout)> {
    let (chosen, told) = run::choose(arguments.speed.engine)?;
    notes.extend(told);
    let (layout, told) = run::layout(
        chosen,
        arguments.speed.max_inflight,
        arguments.speed.rings,
        left,
    );
    notes.extend(told);
    Ok((chosen, layout))
}

/// Chooses the engine, if the scan needs one, and prints notes on possible obstacles.
/// - left: number of targets still to ask.
/// - blocked: number of addresses that the block list excludes, or that no host has.
fn prepare(arguments: &Arguments, left: u64, blocked: u128) -> Result<Option<(Chosen, Layout)>> {
    let mut notes = Vec::new();
    // A SYN scan needs no engine: a few raw sockets serve all targets.
    let carrier = match arguments.probe.syn {
        true => None,
        false => Some(carrier(arguments, left, &mut notes)?),
    };
    let in_flight = carrier.map_or(0, |(_, layout)| layout.rings * layout.slots);
    notes.extend(hints::hints(left, in_flight as u64));
    if blocked > 0 {
        notes.push(format!(
            "{blocked} addresses are on the block list and are not asked"
        ));
    }
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    Ok(carrier)
}

fn syn_job<'a>(
    arguments: &Arguments,
    planned: &'a Planned,
    told: [bool; 4],
    stop: &'a AtomicBool,
) -> syn::Job<'a> {
    syn::Job {
        plan: &planned.plan,
        unanswered: planned.unanswered.as_ref(),
        timeout: Duration::from_millis(arguments.speed.timeout),
        retries: arguments.speed.retries,
        rate: arguments.speed.rate as f64,
        told,
        stop,
    }
}

fn scan(arguments: &Arguments) -> Result<u8> {
    let (probe, service, question) = asked(arguments)?;
    let matcher = matcher(arguments)?;
    let mut targets = read::read(&Wanted {
        words: &arguments.targets,
        file: arguments.which.target_file.as_deref(),
        exclude: &arguments.which.exclude,
        exclude_file: arguments.which.exclude_file.as_deref(),
        block_file: arguments.which.block_file.as_deref(),
        authorised: arguments.which.i_am_authorised,
    })?;
    let planned = plan(arguments, &question, &mut targets)?;
    let carrier = prepare(arguments, planned.left, targets.blocked)?;
    let stop = &*signals::stop()?;
    let (told, only_matched) = shown(&arguments.told.show);
    let plan = &planned.plan;
    let output = output::output(arguments.told.output);
    let mut writer = Writer::new(plan, &targets, &matcher, only_matched, output);
    writer.begin(&Head {
        command: std::env::args().collect::<Vec<_>>().join(" "),
        started: SystemTime::now(),
        ports: plan.ports.text(),
        port_count: plan.ports.len(),
        hosts: plan.targets.len(),
        service,
        syn: arguments.probe.syn,
    })?;
    let progress = Progress::new(planned.left, arguments.told.quiet);
    let (start, cpu) = (Instant::now(), hints::cpu_time());
    let take = |batch: &Batch| progress.aside(|| writer.take(batch));
    let watch = |sum: &Sum| progress.show(sum);
    let (sum, left) = match carrier {
        None => {
            let job = syn_job(arguments, &planned, told, stop);
            let (sum, left) = syn::run(&job, take, watch)?;
            (sum, left.map(Left::Unanswered))
        }
        Some((chosen, layout)) => {
            let job = Job {
                plan,
                probe,
                chosen,
                layout,
                settings: arguments.speed.settings(layout.slots, told),
                stop,
            };
            let (sum, left) = run::run(&job, take, watch)?;
            (sum, begun(plan, left).map(Left::Begun))
        }
    };
    progress.end();
    let end = End {
        targets: planned.left,
        sum,
        elapsed: start.elapsed(),
        cpu: hints::cpu_time().saturating_sub(cpu),
        engine: carrier.map_or("sendmmsg and TPACKET_V3", |(chosen, _)| chosen.name()),
        rings: carrier.map_or(1, |(_, layout)| layout.rings),
        matched: writer.matched,
        // A signal after the last answer interrupts nothing.
        interrupted: left.is_some(),
    };
    writer.end(&end)?;
    if !arguments.told.quiet {
        eprint!("{}", output::summary(&end));
    }
    if let Some(file) = &arguments.resume {
        match writer.is_gone {
            true => eprintln!("note: {file} is left as it was: not all results could be written"),
            false => keep(file, &planned, &question, left)?,
        }
    }
    Ok(if end.interrupted {
        EXIT_INTERRUPTED
    } else {
        EXIT_DONE
    })
}

/// Returns the indices for a resume file of a scan by connections: `left` (taken by rings, unfinished), and those of an
/// earlier resume file that no ring took. Returns None if all targets are finished.
fn begun(plan: &Plan, left: Vec<u64>) -> Option<Vec<u64>> {
    let (start, mut begun) = plan.stopped();
    begun.extend(left);
    (start < plan.len() || !begun.is_empty()).then_some(begun)
}

/// Writes the state of an interrupted scan, or removes the file of a finished scan.
/// - left: unfinished targets; None if the scan is finished.
fn keep(file: &str, planned: &Planned, question: &Question, left: Option<Left>) -> Result<()> {
    if let Some(left) = left {
        let (start, _) = planned.plan.stopped();
        return Resume::new(&planned.plan, question, planned.seed, start, left).write(file);
    }
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::system(
            &format!("{file}: cannot be removed"),
            &error,
        )),
        _ => Ok(()),
    }
}
