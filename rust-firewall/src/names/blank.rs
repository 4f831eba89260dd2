// SPDX-License-Identifier: GPL-2.0-or-later
//! Empty names: the value before a parser runs, and the parser's result unless it has read all names.

use crate::names::types::{Names, NamesProtocol, NamesState};

/// Sets the state and protocol of names, and clears all other fields. Returns the state.
pub fn fill(state: NamesState, protocol: NamesProtocol, names: &mut Names) -> NamesState {
    *names = Names {
        state,
        protocol,
        ..Names::default()
    };
    state
}

/// Stores a parser's resulting state in names. Unless it is Known, clears all fields except state and protocol.
/// - whole: true if no more bytes will be read. Then Undecided becomes Unreadable.
/// - Returns names.state.
pub fn finish(state: NamesState, whole: bool, names: &mut Names) -> NamesState {
    names.state = state;
    match state {
        NamesState::Known => state,
        NamesState::Undecided if whole => fill(NamesState::Unreadable, names.protocol, names),
        _ => fill(state, names.protocol, names),
    }
}
