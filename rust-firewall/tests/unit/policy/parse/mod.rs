// SPDX-License-Identifier: GPL-2.0-or-later

mod lexer;
#[allow(clippy::module_inception)]
mod parse;
