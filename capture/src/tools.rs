// SPDX-License-Identifier: GPL-2.0-or-later
//! What the program does beside recording: `capture pages` and `capture bench`.

use std::ffi::OsString;

use clap::Parser;

use crate::arguments::Arguments;
use crate::backend::Backend;
use crate::bench;
use crate::census::{self, Kernel};
use crate::command;
use crate::failure::{Failure, Result};
use crate::privilege;
use crate::reader::Opening;
use crate::sandbox::{self, Needs};
use crate::source::Source;
use crate::tool_arguments::{BenchArguments, PagesArguments, RingArguments};

/// The tool that a command line names by its first word, and how it ended.
pub fn run(words: &[OsString]) -> Option<std::result::Result<Result<()>, clap::Error>> {
    let tool = words.get(1)?.to_str()?;
    let rest = || words.iter().take(1).chain(words.iter().skip(2));
    match tool {
        "pages" => Some(PagesArguments::try_parse_from(rest()).map(|given| pages(&given))),
        "bench" => Some(BenchArguments::try_parse_from(rest()).map(|given| bench(&given))),
        _ => None,
    }
}

/// How a ring is opened, as for recording.
fn opening(interface: &str, ring: &RingArguments) -> Result<Opening> {
    let mut all = Arguments::parse_from(["capture", "-i", interface, "-w", "-"]);
    (all.backend, all.take, all.pages) = (ring.backend, ring.take, ring.pages);
    (all.ring, all.snaplen) = (ring.ring, ring.snaplen);
    all.check()?;
    let opening = command::openings(&all)?.pop();
    opening.ok_or_else(|| Failure::usage("there is no interface: name one by -i"))
}

fn open(opening: &Opening) -> Result<Backend> {
    let ring = opening.open(opening.interface.index);
    ring.map_err(|error| command::refused(opening, &error))
}

fn pages(given: &PagesArguments) -> Result<()> {
    let opening = opening(&given.interface, &given.ring)?;
    let kind = opening.backend;
    let before = census::vmalloc(kind);
    let ring = open(&opening)?;
    let memory = ring
        .memory()
        .ok_or_else(|| Failure::usage(format!("--backend {} has no ring", kind.name())))?;
    // SAFETY: the ring stays until the end.
    unsafe { memory.touch() };
    let failed = |error| Failure::system("the census", &error);
    let (program, kernel) = match ring.census() {
        Some(counted) => {
            let (kernel, program) = counted.map_err(failed)?;
            (program, Kernel::Counted(kernel))
        }
        None => (
            census::program(memory.start, memory.bytes).map_err(failed)?,
            census::kernel(kind, before, census::vmalloc(kind)),
        ),
    };
    println!("{}: {} MiB", kind.name(), memory.bytes >> 20);
    println!("  program's side: {program}");
    println!("  kernel's side:  {kernel}");
    Ok(())
}

fn bench(given: &BenchArguments) -> Result<()> {
    let opening = opening(&given.interface, &given.ring)?;
    let who = privilege::choose(None)?;
    let ring = open(&opening)?;
    let job = bench::Job::new(given, &opening, &ring)?;
    privilege::drop(who.as_ref(), false)?;
    privilege::confine(None)?;
    sandbox::enter(Needs {
        backend: opening.backend,
        follow: false,
        rotate: false,
    })?;
    bench::run(&job, ring)
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
    }
}
