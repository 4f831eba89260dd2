// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the parsers of names with the vectors that both twins share.

#[allow(clippy::module_inception)]
mod names;
