// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds a browser, which renders pages and connects to servers.

use std::process::Command;

use testbed::skip::skip;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Returns the first browser that starts. Skips the case if none does.
pub fn find() -> anyhow::Result<&'static str> {
    let browser = BROWSERS.into_iter().find(|name| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    });
    browser.ok_or_else(|| skip("chromium is not installed: deps/install browser"))
}
