// SPDX-License-Identifier: GPL-2.0-or-later
//! Links libnetfilter_queue and libmnl, found by pkg-config.

/// Each library's pkg-config name and Debian package, in linking order.
const LIBRARIES: [(&str, &str); 2] = [
    ("libnetfilter_queue", "libnetfilter-queue-dev"),
    ("libmnl", "libmnl-dev"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for (library, package) in LIBRARIES {
        if let Err(error) = pkg_config::probe_library(library) {
            let package = missing_package(&error, package);
            // Cargo ends the build after this script, so that every missing package is reported.
            println!("cargo::error={package} is missing: apt-get install {package}");
        }
    }
}

/// Returns the package to install: `package`, unless pkg-config itself couldn't be started.
fn missing_package<'a>(error: &pkg_config::Error, package: &'a str) -> &'a str {
    match error {
        pkg_config::Error::Command { .. } => "pkg-config",
        _ => package,
    }
}
