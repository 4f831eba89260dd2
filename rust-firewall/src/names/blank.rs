// SPDX-License-Identifier: GPL-2.0-or-later
//! Names without fields: their state before a parser, and after it unless everything was read.

use crate::names::types::{Names, NamesProtocol, NamesState};

/// Clears all fields except state and protocol. Returns the state.
pub fn fill(state: NamesState, protocol: NamesProtocol, names: &mut Names) -> NamesState {
    *names = Names {
        state,
        protocol,
        ..Names::default()
    };
    state
}

/// Sets the final state of a parser, and clears the fields unless it is Known.
/// - whole: true if no more bytes will be read: then Undecided becomes Unreadable.
/// - Returns names.state.
pub fn finish(state: NamesState, whole: bool, names: &mut Names) -> NamesState {
    names.state = state;
    match state {
        NamesState::Known => state,
        NamesState::Undecided if whole => fill(NamesState::Unreadable, names.protocol, names),
        _ => fill(state, names.protocol, names),
    }
}
