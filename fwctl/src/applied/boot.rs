// SPDX-License-Identifier: GPL-2.0-or-later
//! `boot`: loads the policy before the network is up, for the unit twinwall.service.

use std::fs;
use std::path::Path;

use apply::source::Source;
use apply::state::State;
use apply::store::Store;

use super::arguments::StatePlace;
use super::{apply_again, apply_source, config, on_host, trust};
use crate::failure::{tell, Exit, Failure};
use crate::output;

/// Returns true if the boot loads the policy's file: it is the file that was applied last, or nothing was applied.
fn is_of_file(state: &State, policy: &Path) -> bool {
    let applied = state.applied().map(|one| Path::new(&one.file).to_owned());
    policy.exists()
        && applied.is_none_or(|file| fs::canonicalize(policy).is_ok_and(|policy| policy == file))
}

/// Reads the policy's file. Fails if another user than root can change the file, an included file or a list. Also fails
/// if it has the text of a reverted generation, because nobody could confirm it.
fn read(state: &State, place: &StatePlace, policy: &Path) -> Result<Source, Failure> {
    trust::check_file(policy)?;
    let read = apply::source::read(policy)?;
    let (source, lists) = apply::lists::read(&read, &place.state)?;
    let lists = lists.iter().map(|list| &list.path);
    let mut files = read.text.files().iter().chain(lists);
    files.try_for_each(|file| trust::check_file(file))?;
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

/// Loads the policy's file, otherwise the generation that was confirmed last.
pub fn run(place: &StatePlace, policy: &Path) -> Result<Exit, Failure> {
    let state = on_host(place, |host| {
        let mut store = Store::open(host)?;
        apply::undo::pending(&mut store, "the machine restarted before it was confirmed")?;
        Ok(store.state.clone())
    })?;
    let mut exit = Exit::Fine;
    if is_of_file(&state, policy) {
        let wanted = || config::read(&place.config)?.wanted();
        let loaded = read(&state, place, policy)
            .and_then(|source| apply_source(place, source, wanted()?, None));
        match loaded {
            Ok(applied) => {
                output::line(&format!(
                    "generation {} is applied: {}",
                    applied.number,
                    policy.display()
                ));
                return Ok(Exit::Fine);
            }
            Err(failure) => {
                tell("error", &failure.text);
                exit = Exit::Findings;
            }
        }
    }
    let Some(last) = state.applied() else {
        let shown = policy.display();
        let text = format!("no policy is loaded: write {shown}, then run fwctl apply {shown}");
        return Err(Failure::new(Exit::Usage, text));
    };
    let applied = apply_again(place, last.number, None)?;
    output::line(&format!(
        "generation {} is applied: generation {} again",
        applied.number, last.number
    ));
    Ok(exit)
}
