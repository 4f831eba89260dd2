// SPDX-License-Identifier: GPL-2.0-or-later
//! Creates the lists of permitted system calls from lines of the source files: `// seccomp: NAME…` names calls of the
//! firewall, `// seccomp-guard: NAME…` calls of its guard. The C twin's Makefile does the same.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// System calls of x86_64 that newer 64-bit architectures lack.
const OLD: [&str; 4] = ["epoll_wait", "poll", "readlink", "unlink"];

/// Adds the names in all lines that begin with `mark`, of all files in a folder and its subfolders.
fn collect(folder: &Path, mark: &str, names: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, mark, names)?;
            continue;
        }
        let text = fs::read_to_string(path)?;
        let lines = text.lines().filter_map(|line| line.strip_prefix(mark));
        names.extend(lines.flat_map(str::split_whitespace).map(str::to_owned));
    }
    Ok(())
}

/// Returns the names in all lines of the sources that begin with `mark`, without the calls that this architecture
/// lacks.
fn declared(folder: &Path, mark: &str) -> io::Result<BTreeSet<String>> {
    let old = env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64");
    let mut names = BTreeSet::new();
    collect(folder, mark, &mut names)?;
    names.retain(|name| old || !OLD.contains(&name.as_str()));
    if names.is_empty() {
        return Err(io::Error::other(format!("no source says \"{mark}\"")));
    }
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
