// SPDX-License-Identifier: GPL-2.0-or-later
//! The two firewalls' program files.

use std::path::{Path, PathBuf};

/// One of the two firewalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    Rust,
    C,
}

/// Both twins, in the order of comparison.
pub const TWINS: [Twin; 2] = [Twin::Rust, Twin::C];
/// Values of --backend.
pub const BACKENDS: [&str; 3] = ["classic", "mnl", "raw"];

/// User and group of firewalls in experiments and tests (`--user`): ids that no account has, so that no account is needed,
/// and the firewall owns no other processes or files.
pub const USER: &str = "64123:64123";

impl Twin {
    /// Returns the twin's name, as test cases use it.
    pub fn name(self) -> &'static str {
        match self {
            Twin::Rust => "rust",
            Twin::C => "c",
        }
    }

    /// Returns the program's name.
    pub fn program(self) -> &'static str {
        match self {
            Twin::Rust => "rust-firewall",
            Twin::C => "c-firewall",
        }
    }

    /// Returns the path of the program file (see [`built`]).
    pub fn binary(self) -> PathBuf {
        built(self.program())
    }
}

/// Returns the path of a program built by `make`, in build/ or in the folder that TWINWALL_BUILD names.
pub fn built(program: &str) -> PathBuf {
    std::env::var_os("TWINWALL_BUILD")
        .map_or_else(|| root().join("build"), PathBuf::from)
        .join(program)
}

/// Returns the root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("testbed/ lies in the repository")
}
