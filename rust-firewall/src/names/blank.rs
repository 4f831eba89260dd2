// SPDX-License-Identifier: GPL-2.0-or-later
//! Names without any field: what a parser begins with, and leaves behind unless all is read.

use crate::names::types::{Names, NamesProtocol, NamesState};

/// Empties all fields but state and protocol. Returns the state.
pub fn fill(state: NamesState, protocol: NamesProtocol, names: &mut Names) -> NamesState {
    *names = Names {
        state,
        protocol,
        ..Names::default()
    };
    state
}

/// Ends a parser's work: fields stay only with Known.
/// - whole: no more bytes will come, so Undecided is Unreadable.
/// - Returns names.state.
pub fn finish(state: NamesState, whole: bool, names: &mut Names) -> NamesState {
    names.state = state;
    match state {
        NamesState::Known => state,
        NamesState::Undecided if whole => fill(NamesState::Unreadable, names.protocol, names),
        _ => fill(state, names.protocol, names),
    }
}
