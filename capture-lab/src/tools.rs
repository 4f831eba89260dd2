// SPDX-License-Identifier: GPL-2.0-or-later
//! The subcommands.

use clap::Parser;

use capture::arguments::Arguments;
use capture::backend::{Backend, Kind};
use capture::command;
use capture::failure::{Failure, Result};
use capture::pages::{Area, Pages};
use capture::privilege;
use capture::reader::Opening;
use capture::sandbox::{self, Needs};
use capture::source::Source;

use crate::arguments::{BenchArguments, CostArguments, PagesArguments, RingArguments, Tool};
use crate::bench;
use crate::census::{self, Sides};
use crate::cost::{self, Measured, Sender};
use crate::misses::Misses;

pub fn run(tool: &Tool) -> Result<()> {
    match tool {
        Tool::Pages(given) => pages(given),
        Tool::Bench(given) => bench(given),
        Tool::Cost(given) => cost(given),
    }
}

/// Builds the parameters for opening a ring, as for recording.
fn opening(interface: &str, ring: &RingArguments) -> Result<Opening> {
    let mut all = Arguments::parse_from(["capture", "-i", interface, "-w", "-"]);
    (all.backend, all.take, all.pages) = (ring.backend, ring.take, ring.pages);
    (all.ring, all.snaplen) = (ring.ring, ring.snaplen);
    if ring.policy.is_some() && ring.backend != Kind::Twinring {
        return Err(Failure::usage("--policy: only the rings of twinring have one: say --backend twinring, too, or leave --policy out"));
    }
    if ring.policy.is_some_and(|policy| policy.is_lent()) {
        all.pages = Pages::Hugetlb;
    }
    all.check()?;
    let opening = command::openings(&all)?.pop();
    let mut opening =
        opening.ok_or_else(|| Failure::usage("there is no interface: name one by -i"))?;
    opening.policy = ring.policy;
    Ok(opening)
}

fn open(opening: &Opening) -> Result<Backend> {
    let ring = opening.open(opening.interface.index);
    ring.map_err(|error| command::refused(opening, &error))
}

/// Opens a ring and counts the page-table entries of both sides.
fn looked_at(opening: &Opening) -> Result<(Backend, Area, Sides)> {
    let kind = opening.backend;
    let before = census::vmalloc(kind);
    let ring = open(opening)?;
    let memory = ring
        .memory()
        .ok_or_else(|| Failure::usage(format!("--backend {} has no ring", kind.name())))?;
    // SAFETY: the ring still exists.
    unsafe { memory.touch() };
    let sides = census::sides(&ring, memory, kind, before)
        .map_err(|error| Failure::system("the census", &error))?;
    Ok((ring, memory, sides))
}

/// Drops the privileges that a tool doesn't need once its ring is open.
fn give_up(opening: &Opening) -> Result<()> {
    let who = privilege::choose(None)?;
    privilege::drop(who.as_ref(), false)?;
    privilege::confine(None)?;
    sandbox::enter(Needs {
        backend: opening.backend,
        follow: false,
        rotate: false,
    })
}

fn pages(given: &PagesArguments) -> Result<()> {
    let opening = opening(&given.interface, &given.ring)?;
    let (_ring, memory, sides) = looked_at(&opening)?;
    println!("{}: {} MiB", opening.backend.name(), memory.bytes >> 20);
    println!("  program's side: {}", sides.program);
    println!("  kernel's side:  {}", sides.kernel);
    Ok(())
}

fn bench(given: &BenchArguments) -> Result<()> {
    let opening = opening(&given.interface, &given.ring)?;
    let ring = open(&opening)?;
    let misses = match given.tlb.then(Misses::start) {
        Some(Ok(misses)) => Some(misses),
        Some(Err(why)) => {
            eprintln!("note: misses of the TLB are not counted, a model follows: {why}");
            None
        }
        None => None,
    };
    let job = bench::Job::new(given, &opening, &ring, misses.is_some())?;
    give_up(&opening)?;
    bench::run(&job, ring, misses)
}

fn cost(given: &CostArguments) -> Result<()> {
    let opening = opening(&given.interface, &given.ring)?;
    let sender = Sender::new(given)?;
    let (ring, memory, sides) = looked_at(&opening)?;
    let mut measured = Measured {
        ring,
        kind: opening.backend,
        memory,
        ring_bytes: opening.ring_bytes,
        sides,
    };
    give_up(&opening)?;
    cost::run(given, &sender, &mut measured)
}
