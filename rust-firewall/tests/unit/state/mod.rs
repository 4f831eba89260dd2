// SPDX-License-Identifier: GPL-2.0-or-later

mod contract;
mod queue_rules;
mod report;
mod reverse_path;
