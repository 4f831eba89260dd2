// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs four firewalls one after the other. The first ends by an upgrade to the other twin, the second by an upgrade
//! back, the third by SIGKILL, the fourth by SIGTERM.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::firewall::{Ended, Firewall};
use testbed::ledger::Stats;
use testbed::proc;
use testbed::twin::Twin;
use testbed::wait::pause_for;

use crate::figures::{Figures, Memory};
use crate::place::{Place, DEADLINE_MS};
use crate::traffic::Traffic;

const LIVES: u32 = 4;
/// Maximum warm-up before memory is sampled; by then every buffer has been full once.
const WARM_UP: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

fn other(twin: Twin) -> Twin {
    match twin {
        Twin::Rust => Twin::C,
        Twin::C => Twin::Rust,
    }
}

/// Starts a firewall; with `take_over` it replaces the running one.
fn start(place: &Place, twin: Twin, take_over: bool) -> anyhow::Result<Firewall> {
    let mut arguments = place.arguments();
    if take_over {
        arguments.extend(["--take-over".to_owned(), place.file("control")]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Firewall::start(&place.namespace, twin, &arguments)
}

/// Returns the resident memory of a process in KiB.
fn memory_of(pid: u32) -> anyhow::Result<i64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("no VmRSS")?.parse()?)
}

/// Causes the events of one second: a reload, a scrape, and in some seconds requests, signals and a stall.
/// - number: number of the second, from 0 for each firewall.
fn second(
    place: &Place,
    firewall: &Firewall,
    number: u64,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    place.write_policy(number)?;
    match number % 2 {
        0 => proc::signal(firewall.pid, libc::SIGHUP),
        _ => drop(place.ask(r#"{"command":"reload"}"#)?),
    }
    figures.reloads += 1;
    place.scrape()?;
    figures.scrapes += 1;
    if number % 3 == 0 {
        place.ask(r#"{"command":"status"}"#)?;
        place.ask(r#"{"command":"rules"}"#)?;
    }
    if number % 5 == 0 {
        let ledger = firewall.ledger()?.total;
        ensure!(ledger.reconciled, "not reconciled: {ledger:?}");
    }
    if number % 10 == 0 {
        place.forget_events();
        proc::signal(firewall.pid, libc::SIGUSR2);
    }
    if number % 15 == 14 {
        proc::stop(firewall.pid)?;
        pause_for(Duration::from_millis(2 * DEADLINE_MS));
        proc::signal(firewall.pid, libc::SIGCONT);
        figures.stalls += 1;
    }
    Ok(())
}

/// Runs a firewall for a duration and returns it. If the firewall ends before, the error contains its exit code and
/// stderr.
fn live(
    place: &Place,
    twin: Twin,
    mut firewall: Firewall,
    time: Duration,
    figures: &mut Figures,
) -> anyhow::Result<Firewall> {
    let Err(error) = live_on(place, twin, &mut firewall, time, figures) else {
        return Ok(firewall);
    };
    pause_for(SECOND);
    if firewall.is_running()? {
        return Err(error);
    }
    let ended = firewall.wait()?;
    let (code, signal) = (ended.code, ended.signal);
    Err(error.context(format!(
        "it ended, exit code {code:?}, signal {signal:?}: {}",
        ended.stderr
    )))
}

fn live_on(
    place: &Place,
    twin: Twin,
    firewall: &mut Firewall,
    time: Duration,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    let warm_up = WARM_UP.min(time / 2);
    let mut samples = Vec::new();
    for number in 0.. {
        let due = begin + SECOND * number;
        pause_for(due.saturating_duration_since(Instant::now()));
        if begin.elapsed() >= time {
            break;
        }
        ensure!(firewall.is_running()?, "the firewall ended");
        second(place, firewall, number.into(), figures)
            .with_context(|| format!("{} in its second {number}", twin.program()))?;
        if begin.elapsed() > warm_up {
            samples.push(memory_of(firewall.pid)?);
        }
    }
    figures.memory.extend(Memory::of(twin.program(), &samples));
    Ok(())
}

/// Fails if stderr contains anything but messages about a stall.
fn check_stderr(ended: &Ended) -> anyhow::Result<()> {
    for line in ended.stderr.lines() {
        ensure!(line.contains(": no packet got its verdict for "), "{line}");
    }
    Ok(())
}

fn upgrade(
    place: &Place,
    old: Firewall,
    twin: Twin,
    figures: &mut Figures,
) -> anyhow::Result<Firewall> {
    let new = start(place, twin, true)?;
    let ended = old.wait()?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    check_stderr(&ended)?;
    figures.upgrades += 1;
    Ok(new)
}

/// Runs four firewalls one after another: this twin, the other twin and this twin again by upgrades, and this twin
/// after a kill. Returns their counts.
pub fn soak(twin: Twin, time: Duration) -> anyhow::Result<Figures> {
    let begin = Instant::now();
    let mut figures = Figures {
        twin: twin.program(),
        ..Figures::default()
    };
    let place = Place::new()?;
    let firewall = start(&place, twin, false)?;
    let traffic = Traffic::start(&place.namespace)?;
    let share = time / LIVES;
    let firewall = live(&place, twin, firewall, share, &mut figures)?;
    let firewall = upgrade(&place, firewall, other(twin), &mut figures)?;
    let firewall = live(&place, other(twin), firewall, share, &mut figures)?;
    let firewall = upgrade(&place, firewall, twin, &mut figures)?;
    let firewall = live(&place, twin, firewall, share, &mut figures)?;
    figures.add(&firewall.ledger()?.total);
    firewall.kill()?;
    figures.kills += 1;
    let firewall = start(&place, twin, false)?;
    let firewall = live(&place, twin, firewall, share, &mut figures)?;
    figures.connections = traffic.stop();
    firewall.settled_ledger()?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    check_stderr(&ended)?;
    let last = ended.lines.last().context("no ledger at exit")?;
    figures.add(&Stats::parse(last)?.total);
    figures.seconds = begin.elapsed().as_secs();
    Ok(figures)
}
