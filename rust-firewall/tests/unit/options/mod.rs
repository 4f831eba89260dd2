// SPDX-License-Identifier: GPL-2.0-or-later

#[allow(clippy::module_inception)]
mod options;
