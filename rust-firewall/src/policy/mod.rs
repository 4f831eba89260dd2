// SPDX-License-Identifier: GPL-2.0-or-later
//! Policy language: its tree, values, symbols, and printing.

pub mod advice;
pub mod forest;
pub mod hostname;
pub mod label;
pub mod parse;
#[allow(clippy::module_inception)]
mod policy;
pub mod print;
pub mod requirement;
pub mod symbol;
pub mod token;
pub mod value;

pub use policy::*;
