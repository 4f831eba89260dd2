// SPDX-License-Identifier: GPL-2.0-or-later
//! The two firewalls, as files.

use std::path::{Path, PathBuf};

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    Rust,
    C,
}

/// In the order in which they are compared.
pub const TWINS: [Twin; 2] = [Twin::Rust, Twin::C];
/// What --backend takes.
pub const BACKENDS: [&str; 3] = ["classic", "mnl", "raw"];

/// Whom firewalls run as in experiments and tests (`--user`): numbers that are nobody's, so that no user of the machine
/// is needed, and nobody else's processes or files are theirs.
pub const USER: &str = "64123:64123";

impl Twin {
    /// As in the names of cases.
    pub fn name(self) -> &'static str {
        match self {
            Twin::Rust => "rust",
            Twin::C => "c",
        }
    }

    /// As the program calls itself.
    pub fn program(self) -> &'static str {
        match self {
            Twin::Rust => "rust-firewall",
            Twin::C => "c-firewall",
        }
    }

    /// Its file: [`built`].
    pub fn binary(self) -> PathBuf {
        built(self.program())
    }
}

/// A program that `make build` leaves in build/, or that lies in the folder that TWINWALL_BUILD names.
pub fn built(program: &str) -> PathBuf {
    std::env::var_os("TWINWALL_BUILD")
        .map_or_else(|| root().join("build"), PathBuf::from)
        .join(program)
}

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("testbed/ lies in the repository")
}
