// SPDX-License-Identifier: GPL-2.0-or-later
//! A folder for files, and options as the command line gives them.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use rust_firewall::options::{self, Options, OptionsAction};

/// A folder that goes away with the value.
pub struct Place(PathBuf);

impl Place {
    pub fn new(name: &str) -> Place {
        let name = format!("twinwall-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Place(folder)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The options of a good command line.
pub fn options(arguments: &[&str]) -> Options {
    let arguments = ["rust-firewall"].iter().chain(arguments);
    let arguments: Vec<OsString> = arguments.map(OsString::from).collect();
    match options::parse(&arguments).unwrap() {
        OptionsAction::Run(options) => options,
        _ => panic!("a command"),
    }
}
