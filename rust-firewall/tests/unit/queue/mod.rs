// SPDX-License-Identifier: GPL-2.0-or-later

mod mnl;
mod proc;
#[allow(clippy::module_inception)]
mod queue;
mod raw;
mod restate;
mod socket;
