// SPDX-License-Identifier: GPL-2.0-or-later
//! `boot`: what the unit twinwall.service runs before the network is up.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use apply::state::State;
use apply::store::{self, Store};

use super::apply_file;
use crate::failure::{tell, Exit, Failure};
use crate::output;

const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Fails if others than root can change a policy that the boot loads as root.
fn check_owner(policy: &Path) -> Result<(), Failure> {
    let data = fs::metadata(policy);
    let is_roots = data.is_ok_and(|data| data.uid() == 0 && data.mode() & WRITABLE_BY_OTHERS == 0);
    match is_roots {
        true => Ok(()),
        false => Err(Failure::new(
            Exit::Usage,
            format_args!(
                "{0}: others than root can change it: chown root: {0}; chmod 644 {0}",
                policy.display()
            ),
        )),
    }
}

/// Whether the boot loads the policy's file: it is what was applied last, or nothing was.
fn is_of_file(state: &State, policy: &Path) -> bool {
    let applied = state.applied().map(|one| Path::new(&one.file).to_owned());
    policy.exists()
        && applied.is_none_or(|file| fs::canonicalize(policy).is_ok_and(|policy| policy == file))
}

/// Loads the policy's file, else the generation that was confirmed last.
pub fn run(folder: &Path, policy: &Path) -> Result<Exit, Failure> {
    let state = {
        let mut store = Store::open(folder)?;
        apply::undo::pending(&mut store, "the machine restarted before it was confirmed")?;
        store.state.clone()
    };
    let mut exit = Exit::Fine;
    if is_of_file(&state, policy) {
        match check_owner(policy).and_then(|()| apply_file(folder, policy, None)) {
            Ok(number) => {
                output::line(&format!(
                    "generation {number} is applied: {}",
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
    let Some(applied) = state.applied() else {
        let shown = policy.display();
        let text = format!("no policy is loaded: write {shown}, then run fwctl apply {shown}");
        return Err(Failure::new(Exit::Usage, text));
    };
    let source = store::source(folder, applied.number)?;
    let request = apply::apply::Request::verbatim(source, applied.by.clone(), None);
    let number = apply::apply::run(folder, &request)?;
    output::line(&format!(
        "generation {number} is applied: generation {} again",
        applied.number
    ));
    Ok(exit)
}
