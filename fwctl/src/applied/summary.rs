// SPDX-License-Identifier: GPL-2.0-or-later
//! Lines of `status` about the applied policy.

use std::path::Path;

use apply::firewall::{Firewall, Naming};
use apply::state::{Generation, Pending, State};

use super::firewall::HostFirewall;
use crate::failure::words;
use crate::units::{date, span, thousands};

/// Returns a warning if the policy's file differs from the applied policy, or can't be read.
fn difference(folder: &Path, generation: &Generation) -> Option<String> {
    let source = apply::source::read(Path::new(&generation.file));
    match source.and_then(|source| apply::lists::read(&source, folder)) {
        Ok((source, _)) if source.digest() == generation.digest => None,
        Ok(_) => Some(
            "the file has changed since, or a list that it reads: run fwctl apply to load it"
                .to_owned(),
        ),
        Err(failure) => Some(failure.text),
    }
}

/// Returns a warning if the kernel no longer holds a generation, or if its rules can't be read.
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

/// Returns a line with the numbers of connections by their marks: the class is final in this generation, the class may
/// still change, or there is no class.
fn connections_line(naming: &Naming) -> String {
    let marks = match apply::conntrack::marks() {
        Ok(marks) => marks,
        Err(failure) => return failure.text,
    };
    let (mask, value) = naming.settled;
    let settled = marks.iter().filter(|mark| *mark & mask == value).count();
    let named = |mark: &&u32| *mark & naming.orders.mask != 0 && *mark & mask != value;
    let open = marks.iter().filter(named).count();
    format!(
        "connections: {} settled, {} not settled, {} without a class",
        thousands(settled as u64),
        thousands(open as u64),
        thousands((marks.len() - settled - open) as u64)
    )
}

/// Fails if no firewall reads names for a generation whose policy has names, or if that can't be checked.
fn is_named(folder: &Path, generation: &Generation, firewall: &HostFirewall) -> Result<(), String> {
    let Some(naming) = &generation.naming else {
        return Ok(());
    };
    let names = folder
        .join(generation.number.to_string())
        .join(apply::store::NAMES);
    let names = std::fs::read_to_string(&names)
        .map_err(|error| format!("{}: {}", names.display(), words(&error)))?;
    let checked = firewall.check(&naming.orders, &names);
    checked.map_err(|failure| failure.text)
}

fn naming_lines(folder: &Path, generation: &Generation, firewall: &HostFirewall) -> Vec<String> {
    let Some(naming) = &generation.naming else {
        return Vec::new();
    };
    let mut lines = vec![connections_line(naming)];
    if let Err(why) = is_named(folder, generation, firewall) {
        lines.push(format!(
            "NO FIREWALL NAMES FOR IT: {why}: run fwctl apply, which starts one"
        ));
    }
    lines
}

fn generation_lines(folder: &Path, generation: &Generation, verb: &str) -> Vec<String> {
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
    lines.extend(difference(folder, generation));
    lines
}

/// Returns the line about the deadline of a generation that waits for its confirmation.
fn pending_line(pending: &Pending) -> String {
    if apply::confirm::is_late(pending) {
        return "NOT CONFIRMED IN TIME: run fwctl revert".to_owned();
    }
    let left_ms = pending.deadline_ms.saturating_sub(apply::clock::boot_ms());
    format!(
        "WAITS FOR fwctl confirm: reverted in {}",
        span(left_ms / 1000)
    )
}

/// Returns the lines about the applied policy, or about a policy that waits for its confirmation. None if nothing is
/// applied, or the state can't be read.
pub fn lines(folder: &Path, firewall: &HostFirewall) -> Option<Vec<String>> {
    let state: State = apply::store::read(folder).ok()??;
    let (generation, verb) = match state.waiting() {
        Some(waiting) => (waiting, "loaded"),
        None => (state.applied()?, "applied"),
    };
    let mut lines = generation_lines(folder, generation, verb);
    lines.extend(naming_lines(folder, generation, firewall));
    lines.extend(state.pending.as_ref().map(pending_line));
    Some(lines)
}

/// Returns true if the kernel holds the applied or waiting policy, and a firewall reads its names if it has some. None
/// if nothing is applied, or the state or the kernel's rules can't be read.
pub fn is_held(folder: &Path, firewall: &HostFirewall) -> Option<bool> {
    let state: State = apply::store::read(folder).ok()??;
    let generation = state.waiting().or(state.applied())?;
    let is_loaded = apply::nft::loaded().ok()? == Some(generation.number);
    Some(is_loaded && is_named(folder, generation, firewall).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_valid_in_its_boot_only() {
        let mut pending = Pending {
            number: 1,
            boot_id: apply::clock::boot_id(),
            deadline_ms: apply::clock::boot_ms() + 3_600_000,
        };
        let waits = "WAITS FOR fwctl confirm: reverted in ";
        assert!(pending_line(&pending).starts_with(waits));
        pending.boot_id = "another".to_owned();
        assert!(pending_line(&pending).starts_with("NOT CONFIRMED IN TIME: "));
    }
}
