// SPDX-License-Identifier: GPL-2.0-or-later

mod hostname;
mod parse;
#[allow(clippy::module_inception)]
mod policy;
mod print;
mod requirement;
mod value;
