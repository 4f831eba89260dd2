// SPDX-License-Identifier: GPL-2.0-or-later
//! The verifier: compares a policy's decisions on each port of a host with the states found there.

mod expect;
mod explain;
mod pcap;

use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;

use crate::arguments::{Arguments, Format};
use crate::failure::{Failure, Result, EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED};
use crate::output::endpoint;
use crate::plan::Plan;
use crate::ports::Ports;
use crate::progress::Progress;
use crate::run::{self, Job, ProbeKind};
use crate::signals;
use crate::state::{Reason, State};
use crate::targets::read::{self, Wanted};
use crate::targets::Address;
use expect::Expected;
use explain::{Firewall, Verdict};

/// Time between two questions in the written capture if --rate is not given; about that of a real scan.
const USUAL_DISTANCE: Duration = Duration::from_micros(10);

/// A port whose state differs from the policy.
#[derive(Debug, Serialize)]
struct Difference {
    port: u16,
    policy: String,
    by: String,
    state: &'static str,
    reason: &'static str,
}

#[derive(Debug, Serialize)]
struct Report {
    policy: String,
    from: String,
    to: String,
    ports: u64,
    accepted: u64,
    dropped: u64,
    rejected: u64,
    /// Number of ports for which the policy drops or rejects an answer (SYN-ACK, RST or both).
    unanswered: u64,
    open: String,
    closed: u64,
    filtered: u64,
    error: u64,
    differences: Vec<Difference>,
}

fn source(to: Address) -> Result<IpAddr> {
    let (any, at): (SocketAddr, SocketAddr) = match to.ip {
        IpAddr::V4(ip) => (([0, 0, 0, 0], 0).into(), (ip, 9).into()),
        IpAddr::V6(ip) => (
            ([0; 16], 0).into(),
            SocketAddrV6::new(ip, 9, 0, to.scope).into(),
        ),
    };
    let local = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(at)?;
        socket.local_addr()
    });
    local
        .map(|local| local.ip())
        .map_err(|error| Failure::failed(format!("--to {to}: no route leads there: {error}")))
}

/// Scans, compares and reports; returns the exit code.
pub fn run(arguments: &Arguments, policy: &str) -> Result<u8> {
    let to = [arguments.expected.to.clone().unwrap_or_default()];
    let targets = read::read(&Wanted {
        words: &to,
        block_file: arguments.which.block_file.as_deref(),
        authorised: arguments.which.i_am_authorised,
        ..Wanted::default()
    })?;
    if targets.set.len() != 1 {
        return Err(Failure::usage(format!(
            "--to: \"{}\": one address is expected",
            to[0]
        )));
    }
    let host = targets.set.get(0);
    let ports = Ports::parse(arguments.ports.as_deref().unwrap_or("-"))
        .map_err(|why| Failure::usage(format!("--ports: {why}")))?;
    let from = source(host)?;
    let apart = match arguments.speed.rate {
        0 => USUAL_DISTANCE,
        rate => Duration::from_nanos(1_000_000_000 / rate),
    };
    let firewall = Firewall {
        program: arguments.expected.firewall.as_deref(),
        policy,
        from,
        to: host.ip,
        apart,
    };
    let hook = arguments.expected.hook.as_deref().unwrap_or("input");
    let iif = arguments.expected.iif.as_deref();
    let expected = expect::expected(&firewall, hook, iif, &ports)?;
    let seed = (!arguments.which.sequential).then(|| arguments.which.seed.unwrap_or(1));
    let plan = Plan::new(targets.set, ports, seed, 4);
    let Some(met) = ask(arguments, &plan, &*signals::stop()?)? else {
        eprintln!("interrupted: nothing is compared");
        return Ok(EXIT_INTERRUPTED);
    };
    let report = compare(policy, from, host, &plan, &expected, &met);
    show(&report, host, arguments.told.output);
    Ok(match report.differences.is_empty() {
        true => EXIT_DONE,
        false => EXIT_FAILED,
    })
}

/// Scans the ports; returns state and reason of each port, in order. Returns None if the scan was interrupted.
fn ask(
    arguments: &Arguments,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<Option<Vec<(State, Reason)>>> {
    let (chosen, notes) = run::choose(arguments.speed.engine)?;
    notes.iter().for_each(|note| eprintln!("note: {note}"));
    let (layout, _) = run::layout(
        chosen,
        arguments.speed.max_inflight,
        arguments.speed.rings,
        plan.left(),
    );
    let job = Job {
        plan,
        probe: ProbeKind::Connect,
        chosen,
        layout,
        settings: arguments.speed.settings(layout.slots, [true; 4]),
        stop,
    };
    let mut met = vec![(State::Error, Reason::Other); plan.ports.len() as usize];
    let progress = Progress::new(plan.len(), arguments.told.quiet);
    let take = |batch: &crate::record::Batch| {
        for (record, _) in batch.iter() {
            let (_, port) = plan.target(record.index);
            if let Some(at) = plan.ports.position(port) {
                met[at as usize] = (record.state, record.reason);
            }
        }
        Ok(())
    };
    run::run(&job, take, |sum| progress.show(sum))?;
    progress.end();
    Ok((!stop.load(Ordering::Relaxed)).then_some(met))
}

fn compare(
    policy: &str,
    from: IpAddr,
    host: Address,
    plan: &Plan,
    expected: &[Expected],
    met: &[(State, Reason)],
) -> Report {
    let count = |is: &dyn Fn(&Verdict) -> bool| {
        expected
            .iter()
            .filter(|one| is(&one.question.verdict))
            .count() as u64
    };
    let states = |state| met.iter().filter(|(met, _)| *met == state).count() as u64;
    let each = || plan.ports.iter().zip(expected).zip(met);
    let open = each().filter(|(_, met)| met.0 == State::Open);
    let open: Vec<String> = open.map(|((port, _), _)| port.to_string()).collect();
    let differences = each()
        .filter(|((_, expected), met)| !expected.meets(met.0))
        .map(|((port, expected), (state, reason))| Difference {
            port,
            policy: expected.said(),
            by: expected.question.by.clone(),
            state: state.name(),
            reason: reason.name(),
        });
    Report {
        policy: policy.into(),
        from: from.to_string(),
        to: host.to_string(),
        ports: plan.ports.len(),
        accepted: count(&|verdict| *verdict == Verdict::Accept),
        dropped: count(&|verdict| *verdict == Verdict::Drop),
        rejected: count(&|verdict| matches!(verdict, Verdict::Reject(_))),
        unanswered: expected.iter().filter(|one| one.is_kept()).count() as u64,
        open: Ports::parse(&open.join(",")).map_or(String::new(), |ports| ports.text()),
        closed: states(State::Closed),
        filtered: states(State::Filtered),
        error: states(State::Error),
        differences: differences.collect(),
    }
}

fn show(report: &Report, host: Address, format: Format) {
    if format == Format::Json {
        println!("{}", serde_json::json!({ "verify": report }));
        return;
    }
    println!(
        "{}: {} {} of {} from {}",
        report.policy,
        report.ports,
        if report.ports == 1 { "port" } else { "ports" },
        report.to,
        report.from
    );
    println!(
        "  by the policy: accept {}, drop {}, reject {}; answers kept back {}",
        report.accepted, report.dropped, report.rejected, report.unanswered
    );
    let open = match report.open.as_str() {
        "" => "none",
        ports => ports,
    };
    println!(
        "  met: open {open}; closed {}, filtered {}, error {}",
        report.closed, report.filtered, report.error
    );
    for difference in &report.differences {
        let Difference {
            port,
            policy,
            by,
            state,
            reason,
        } = difference;
        println!(
            "{}: by {by} {policy}, but {state} ({reason})",
            endpoint(host, *port)
        );
    }
    match report.differences.len() {
        0 => println!("no difference"),
        1 => println!("1 difference"),
        count => println!("{count} differences"),
    }
}
