// SPDX-License-Identifier: GPL-2.0-or-later
//! What `status` says of the applied policy.

use std::path::Path;

use apply::state::{Generation, State};

use crate::units::{date, span};

/// Whether the policy's file says something else than what was applied.
fn difference(generation: &Generation) -> Option<String> {
    match apply::source::read(Path::new(&generation.file)) {
        Ok(source) if source.digest() == generation.digest => None,
        Ok(_) => Some("the file has changed since: run fwctl apply to load it".to_owned()),
        Err(failure) => Some(failure.text),
    }
}

/// Whether the kernel still holds a generation.
fn loss(number: u64) -> Option<String> {
    match apply::nft::loaded() {
        Ok(Some(loaded)) if loaded == number => None,
        Ok(_) => Some(
            "THE KERNEL DOES NOT HOLD IT: another program replaced the rule set: run fwctl apply"
                .to_owned(),
        ),
        Err(failure) => Some(failure.text),
    }
}

fn generation_lines(generation: &Generation, verb: &str) -> Vec<String> {
    let tables: Vec<String> = generation.tables.iter().map(ToString::to_string).collect();
    let mut lines = vec![
        generation.file.clone(),
        format!(
            "generation {}, {verb} {} by {}: {}",
            generation.number,
            date(generation.applied_ms),
            generation.by,
            tables.join(", ")
        ),
    ];
    lines.extend(loss(generation.number));
    lines.extend(difference(generation));
    lines
}

/// The lines about the applied policy, and about one that waits for its confirmation. None if nothing is applied, or the user
/// may not read the state folder.
pub fn lines(folder: &Path) -> Option<Vec<String>> {
    let state: State = apply::store::read(folder).ok()??;
    if let Some(pending) = &state.pending {
        let left_ms = pending.deadline_ms.saturating_sub(apply::clock::boot_ms());
        let mut lines = generation_lines(state.generation(pending.number)?, "loaded");
        lines.push(format!(
            "WAITS FOR fwctl confirm: reverted in {}",
            span(left_ms / 1000)
        ));
        return Some(lines);
    }
    Some(generation_lines(state.applied()?, "applied"))
}

/// Whether the kernel holds what the state says. None if nothing is applied.
pub fn is_held(folder: &Path) -> Option<bool> {
    let state: State = apply::store::read(folder).ok()??;
    let number = state
        .pending
        .as_ref()
        .map(|pending| pending.number)
        .or(state.applied)?;
    Some(apply::nft::loaded().ok()? == Some(number))
}
