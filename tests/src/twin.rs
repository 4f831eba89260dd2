// SPDX-License-Identifier: GPL-2.0-or-later
//! The two firewalls, as files.

use std::path::{Path, PathBuf};

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    Rust,
    C,
}

pub const TWINS: [Twin; 2] = [Twin::Rust, Twin::C];
pub const BACKENDS: [&str; 3] = ["classic", "mnl", "raw"];

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

    /// The program that `make build` leaves in build/, or in the folder that TWINWALL_BUILD names.
    pub fn binary(self) -> PathBuf {
        match std::env::var_os("TWINWALL_BUILD") {
            Some(folder) => PathBuf::from(folder).join(self.program()),
            None => root().join("build").join(self.program()),
        }
    }
}

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the repository")
}
