// SPDX-License-Identifier: GPL-2.0-or-later
//! `check`: checks whether a policy can be applied, as far as possible without a kernel.

use std::path::{Path, PathBuf};

use apply::source::{self, Source};
use serde_json::json;

use crate::applied::config;
use crate::arguments::{self, Arguments};
use crate::failure::{tell, Exit, Failure};
use crate::output;
use crate::units::count;

/// Splits a policy with names into the kernel's part and the firewall's part, only for the warnings, which it prints,
/// and for the error. Does nothing if the policy has no names.
fn check_names(source: &Source, options: &stage::Options) -> Result<(), Failure> {
    let refuse = |refusal: stage::Refusal| Failure::new(Exit::Usage, refusal);
    if !stage::asks_for_names(&source.text).map_err(refuse)? {
        return Ok(());
    }
    for warning in stage::split(&source.text, options)
        .map_err(refuse)?
        .warnings
    {
        tell("warning", warning);
    }
    Ok(())
}

fn with_whole_paths(text: &stage::Source) -> Result<stage::Source, Failure> {
    let mapped = text.map_lists(|path| Ok(PathBuf::from(path)));
    mapped.map_err(|error| {
        Failure::new(
            Exit::Usage,
            format_args!("{error}: name a list that can be read"),
        )
    })
}

pub fn run(arguments: &Arguments, asked: &arguments::Check) -> Result<Exit, Failure> {
    let wanted = config::read(&asked.config)?.wanted()?;
    let source = source::read(Path::new(&asked.policy))?;
    check_names(&source, &wanted.split)?;
    let (all, broken) = expect::hold(&with_whole_paths(&source.text)?, &wanted.expect);
    if arguments.json {
        let broken: Vec<_> = broken
            .iter()
            .map(|one| json!({ "place": one.place.to_string(), "text": one.text }))
            .collect();
        output::json(&[json!({ "expectations": all, "broken": broken }).to_string()]);
    } else {
        for one in &broken {
            tell("error", one);
        }
        if broken.is_empty() {
            output::line(&format!("ok: {}", count(all as u64, "expectation")));
        }
    }
    Ok(match broken.is_empty() {
        true => Exit::Fine,
        false => Exit::Usage,
    })
}
