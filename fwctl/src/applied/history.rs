// SPDX-License-Identifier: GPL-2.0-or-later
//! `history`: lists the generations that were applied, the latest last.

use apply::state::{Generation, Outcome, State};

use super::arguments::StatePlace;
use crate::arguments::Arguments;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::table::{self, Side};
use crate::units::date;

/// Returns the outcome of a generation in words: "applied", "pending", "replaced", "unapplied" or "reverted: REASON".
pub fn outcome(state: &State, generation: &Generation) -> String {
    if state.applied == Some(generation.number) {
        return "applied".to_owned();
    }
    match (generation.outcome, &generation.why) {
        (Outcome::Pending, _) => "pending".to_owned(),
        (Outcome::Confirmed, _) => "replaced".to_owned(),
        (Outcome::Unapplied, _) => "unapplied".to_owned(),
        (Outcome::Reverted, Some(why)) => format!("reverted: {why}"),
        (Outcome::Reverted, None) => "reverted".to_owned(),
    }
}

fn row(state: &State, generation: &Generation) -> [String; 5] {
    [
        generation.number.to_string(),
        date(generation.applied_ms),
        generation.by.clone(),
        generation.file.clone(),
        outcome(state, generation),
    ]
}

pub fn run(arguments: &Arguments, place: &StatePlace) -> Result<Exit, Failure> {
    let state = apply::store::read(&place.state)?.unwrap_or_default();
    if arguments.json {
        for generation in &state.generations {
            output::json(&[serde_json::to_string(generation).unwrap_or_default()]);
        }
        return Ok(Exit::Fine);
    }
    let mut rows = vec![["", "applied", "by", "policy", "outcome"].map(str::to_owned)];
    rows.extend(state.generations.iter().map(|one| row(&state, one)));
    for line in table::lines(
        [Side::Right, Side::Left, Side::Left, Side::Left, Side::Left],
        &rows,
    ) {
        output::line(&line);
    }
    Ok(Exit::Fine)
}
