// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser from text to the policy's tree.

pub mod chain;
pub mod count;
pub mod directive;
pub mod elements;
pub mod lexer;
pub mod listed;
pub mod matches;
pub mod overlap;
#[allow(clippy::module_inception)]
mod parse;
pub mod refuse;
pub mod resolve;
pub mod rule;
pub mod set;
pub mod source;
pub mod state;

pub use parse::*;
