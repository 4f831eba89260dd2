// SPDX-License-Identifier: GPL-2.0-or-later
//! `boot`: loads the policy before the network is up, for the unit twinwall.service.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::Path;

use apply::source::Source;
use apply::state::State;
use apply::store::Store;

use super::arguments::StatePlace;
use super::config::{self, Config};
use super::{apply_again, apply_source, on_host, trust, warn_of};
use crate::failure::{tell, Exit, Failure};
use crate::output;

/// Returns true if the boot loads the policy's file: the file exists, and it is the file of the applied generation, or
/// no generation is applied.
fn is_of_file(state: &State, policy: &Path) -> bool {
    let applied = state.applied().map(|one| Path::new(&one.file).to_owned());
    policy.exists()
        && applied.is_none_or(|file| fs::canonicalize(policy).is_ok_and(|policy| policy == file))
}

/// Reads the policy's file, its included files and its lists of names. Returns the policy twice: with the original
/// paths of the lists, and with their paths in the state folder. Fails if another user than root can change one of
/// the files, or a folder on its path. Does not open such a file.
fn read_files(place: &StatePlace, policy: &Path) -> Result<(Source, Source), Failure> {
    let refused = RefCell::new(None);
    let check = |file: &Path| {
        trust::check_file(file).map_err(|failure| {
            let error = io::Error::other(failure.text.clone());
            refused.replace(Some(failure));
            error
        })
    };
    let read = || {
        let read = apply::source::read_checked(policy, &check)?;
        let (source, _) = apply::lists::read_checked(&read, &place.state, &check)?;
        Ok((read, source))
    };
    trust::check_file(policy)?;
    read().map_err(|failure: apply::failure::Failure| {
        refused.take().unwrap_or_else(|| failure.into())
    })
}

/// Reads the policy's file. Fails if another user than root can change it, or if it has the text of a reverted
/// generation: nobody could confirm the policy at boot.
fn read(state: &State, place: &StatePlace, policy: &Path) -> Result<Source, Failure> {
    let (read, source) = read_files(place, policy)?;
    match state.reverted(&source.digest()) {
        None => Ok(read),
        Some(generation) => Err(Failure::new(
            Exit::Usage,
            format_args!(
                "{0}: it is the text of generation {1}, which was reverted: change it, then run fwctl apply {0}",
                policy.display(),
                generation.number
            ),
        )),
    }
}

/// Reads the settings of the firewall (twinwall.conf). Fails if they can't be used.
fn settings(place: &StatePlace) -> Result<Config, Failure> {
    let config = config::read(&place.config)?;
    config.wanted()?;
    Ok(config)
}

/// Loads the policy's file. Returns false, and loads nothing, unless `is_of_file` is true.
fn load_file(state: &State, place: &StatePlace, policy: &Path) -> Result<bool, Failure> {
    if !is_of_file(state, policy) {
        return Ok(false);
    }
    let mut wanted = settings(place)?.wanted()?;
    // Without the policy the host would be less protected.
    wanted.allows_flowtables = true;
    let applied = apply_source(place, read(state, place, policy)?, wanted, None)?;
    warn_of(&applied);
    output::line(&format!(
        "generation {} is applied: {}",
        applied.number,
        policy.display()
    ));
    Ok(true)
}

/// Reverts a generation that still waits for its confirmation. Then loads the policy's file, otherwise the generation
/// that was confirmed last.
pub fn run(place: &StatePlace, policy: &Path) -> Result<Exit, Failure> {
    let state = on_host(place, |host| {
        let mut store = Store::open(host)?;
        apply::undo::pending(&mut store, "the machine restarted before it was confirmed")?;
        Ok(store.state.clone())
    })?;
    let mut exit = match load_file(&state, place, policy) {
        Ok(true) => return Ok(Exit::Fine),
        Ok(false) => Exit::Fine,
        Err(failure) => {
            tell("error", &failure.text);
            Exit::Findings
        }
    };
    let Some(last) = state.applied() else {
        let shown = policy.display();
        let text = format!("no policy is loaded: write {shown}, then run fwctl apply {shown}");
        return Err(Failure::new(Exit::Usage, text));
    };
    // The options of a generation with names are its own; only the bits of marks come from the settings.
    let config = settings(place).unwrap_or_else(|failure| {
        if exit == Exit::Fine {
            tell("error", &failure.text);
            exit = Exit::Findings;
        }
        Config::default()
    });
    let applied = apply_again(place, &config, last.number, None)?;
    warn_of(&applied);
    output::line(&format!(
        "generation {} is applied: generation {} again",
        applied.number, last.number
    ));
    Ok(exit)
}
