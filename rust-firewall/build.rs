// SPDX-License-Identifier: GPL-2.0-or-later
//! Makes the lists of system calls from what the source files say they make: `// seccomp: NAME…`
//! lines are the firewall's, `// seccomp-guard: NAME…` its guard's. The C twin's Makefile does the
//! same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Calls of the first 64-bit machines that newer ones lack.
const OLD: [&str; 4] = ["epoll_wait", "poll", "readlink", "unlink"];

/// The names in the lines of all sources that begin so.
fn declared(folder: &Path, mark: &str) -> io::Result<BTreeSet<String>> {
    let old = env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let text = fs::read_to_string(entry?.path())?;
        let lines = text.lines().filter_map(|line| line.strip_prefix(mark));
        names.extend(lines.flat_map(str::split_whitespace).map(str::to_owned));
    }
    names.retain(|name| old || !OLD.contains(&name.as_str()));
    Ok(names)
}

fn array(name: &str, calls: &BTreeSet<String>) -> String {
    let calls: Vec<_> = calls
        .iter()
        .map(|call| format!("libc::SYS_{call}"))
        .collect();
    format!("const {name}: &[i64] = &[{}];\n", calls.join(", "))
}

fn main() -> io::Result<()> {
    let sources = Path::new("src");
    let target = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("seccomp.rs");
    println!("cargo::rerun-if-changed=src");
    let firewall = array("FIREWALL_CALLS", &declared(sources, "// seccomp: ")?);
    let guard = array("GUARD_CALLS", &declared(sources, "// seccomp-guard: ")?);
    fs::write(target, firewall + &guard)
}
