// SPDX-License-Identifier: GPL-2.0-or-later
//! Subcommands that don't record: `capture pages`, `capture bench`, `capture cost` and `capture completion`.

use std::ffi::OsString;
use std::io::{self, Write};

use clap::{CommandFactory, Parser};

use crate::arguments::Arguments;
use crate::backend::{Backend, Kind};
use crate::bench;
use crate::census::{self, Sides};
use crate::command;
use crate::cost::{self, Measured, Sender};
use crate::failure::{Failure, Result};
use crate::misses::Misses;
use crate::pages::{Area, Pages};
use crate::privilege;
use crate::reader::Opening;
use crate::sandbox::{self, Needs};
use crate::source::Source;
use crate::tool_arguments::{
    BenchArguments, CompletionArguments, CostArguments, PagesArguments, RingArguments,
};

/// Runs the tool that the first word of the command line names, and returns its result. Returns None if the word names
/// no tool.
pub fn run(words: &[OsString]) -> Option<std::result::Result<Result<()>, clap::Error>> {
    let tool = words.get(1)?.to_str()?;
    let rest = || words.iter().take(1).chain(words.iter().skip(2));
    match tool {
        "pages" => Some(PagesArguments::try_parse_from(rest()).map(|given| pages(&given))),
        "bench" => Some(BenchArguments::try_parse_from(rest()).map(|given| bench(&given))),
        "cost" => Some(CostArguments::try_parse_from(rest()).map(|given| cost(&given))),
        "completion" => {
            Some(CompletionArguments::try_parse_from(rest()).map(|given| completion(&given)))
        }
        _ => None,
    }
}

/// Prints a shell's completion script, which the packages contain.
fn completion(given: &CompletionArguments) -> Result<()> {
    let mut text = Vec::new();
    let mut command = Arguments::command();
    clap_complete::generate(given.shell, &mut command, "twinwall-capture", &mut text);
    let written = io::stdout().write_all(&text);
    written.map_err(|error| Failure::system("stdout", &error))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_word_names_a_tool() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(OsString::from).collect() };
        assert!(run(&words("capture")).is_none());
        assert!(run(&words("capture -i bench -w pages")).is_none());
        assert!(matches!(run(&words("capture bench")), Some(Err(_))));
        assert!(matches!(run(&words("capture cost -i lo")), Some(Err(_))));
    }
}
