// SPDX-License-Identifier: GPL-2.0-or-later
//! The parsers of names against the vectors that both twins share.

#[allow(clippy::module_inception)]
mod names;
