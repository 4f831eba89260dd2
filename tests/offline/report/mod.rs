// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that the page of `harness report --html` needs no other file, and that a browser displays it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{ensure, Context};
use testbed::folder::Folder;
use testbed::twin::root;
use twinwall_tests::browser;
use twinwall_tests::case::Case;

/// A committed result, the source of the page.
const RESULT: &str = "result/demo";
/// Size in bytes that a screenshot exceeds unless the page is empty.
const SHOWS_SOMETHING: usize = 40_000;

/// Returns all cases of the part.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("page/needs-nothing-beside-it", || {
            let folder = Folder::new()?;
            let page = page(folder.path())?;
            for outside in ["<img", "<link", "<script", "src=", "href=\"http", "url("] {
                ensure!(!page.contains(outside), "the page has {outside:?}");
            }
            let figures = page.matches("<figure").count();
            ensure!(
                figures > 0 && page.matches("<svg").count() == figures,
                "{figures} figures"
            );
            Ok(())
        }),
        Case::new("page/a-browser-shows-it", shown_by_a_browser),
    ]
}

/// Returns the page of a copy of the result, stored in `folder` as report.html.
fn page(folder: &Path) -> anyhow::Result<String> {
    for entry in fs::read_dir(root().join(RESULT))? {
        let file = entry?;
        fs::copy(file.path(), folder.join(file.file_name()))?;
    }
    let output = Command::new(root().join("build/harness"))
        .args(["report", "--html"])
        .arg(folder)
        .output()
        .context("build/harness could not be started: make build")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "harness report --html: {said}");
    Ok(fs::read_to_string(folder.join("report.html"))?)
}

fn shown_by_a_browser() -> anyhow::Result<()> {
    let browser = browser::find()?;
    let folder = Folder::new()?;
    let written = page(folder.path())?;
    let run = |what: &str| {
        let home = folder.path().join("home");
        let output = Command::new(browser)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--window-size=1200,2000",
            ])
            .arg(format!("--user-data-dir={}", home.display()))
            .arg(what)
            .arg(format!(
                "file://{}",
                folder.path().join("report.html").display()
            ))
            .output()
            .context(browser)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{browser} {what}: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let seen = run("--dump-dom")?;
    // A browser moves or drops parts that it does not recognise.
    for tag in ["<svg", "<figure", "<table", "<tr", "<td", "<li"] {
        let (written, seen) = (written.matches(tag).count(), seen.matches(tag).count());
        ensure!(written == seen, "{tag}: {written} written, {seen} seen");
    }
    let picture = folder.path().join("page.png");
    run(&format!("--screenshot={}", picture.display()))?;
    let bytes = fs::read(&picture)?;
    ensure!(bytes.starts_with(b"\x89PNG"), "the screenshot is no PNG");
    ensure!(
        bytes.len() > SHOWS_SOMETHING,
        "the page looks empty: {} bytes",
        bytes.len()
    );
    Ok(())
}
