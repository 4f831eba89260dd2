// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares the twins with each other, and both with their documentation: files, command lines, `check` and `explain`.

use twinwall_tests::case::Case;

mod command_line;
mod comments;
mod definitions;
mod dependencies;
mod explain;
mod files;
mod functions;
mod generated;
mod imports;
mod layers;
mod learn;
mod lengths;
mod parameters;
mod queries;
mod runner;

/// Returns all cases of the part.
pub fn cases() -> Vec<Case> {
    let parts = [
        files::cases(),
        functions::cases(),
        generated::cases(),
        layers::cases(),
        lengths::cases(),
        dependencies::cases(),
        command_line::cases(),
        explain::cases(),
        learn::cases(),
        queries::cases(),
        comments::cases(),
        runner::cases(),
    ];
    parts.into_iter().flatten().collect()
}
