// SPDX-License-Identifier: GPL-2.0-or-later
//! Terminal output: the bar, and results beside it.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::process::Stdio;

use crate::place::{namespace, Bound};

/// Opens a terminal of `columns` columns. Returns the program's end and the test's end.
fn terminal(columns: u16) -> (File, File) {
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: openpty(3) writes two descriptors and reads the size; null stands for no name and the usual settings. The
    // descriptors are new and owned from here on.
    unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (size.ws_row, size.ws_col) = (24, columns);
        let (name, settings) = (std::ptr::null_mut(), std::ptr::null_mut());
        assert_eq!(
            libc::openpty(&mut ours, &mut theirs, name, settings, &size),
            0
        );
        (File::from_raw_fd(theirs), File::from_raw_fd(ours))
    }
}

/// Returns the final content of each line: text after a carriage return or a deletion replaces the line.
fn lines(written: &str) -> Vec<&str> {
    let left = written
        .split('\n')
        .map(|line| line.trim_end_matches('\r'))
        .map(|line| line.rsplit(['\r', '\x1b']).next().unwrap_or(""));
    left.map(|line| line.trim_start_matches("[2K")).collect()
}

#[test]
fn results_and_the_bar_do_not_meet() {
    let place = namespace();
    for columns in [60, 120] {
        let (theirs, mut ours) = terminal(columns);
        let words = "127.0.0.0/24 -p 24-27 --rate 2000 --show all";
        let mut child = place
            .command(env!("CARGO_BIN_EXE_scanner"))
            .args(words.split(' '))
            // The test environment may have no terminal type, or a dumb one.
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs)
            .spawn()
            .unwrap();
        let _bound = Bound::new(&child);
        let mut written = Vec::new();
        // Reading fails with EIO after the other end was closed.
        let _ = ours.read_to_end(&mut written);
        assert!(child.wait().unwrap().success());
        let written = String::from_utf8_lossy(&written);
        let bars: Vec<&str> = written
            .split(['\r', '\n'])
            .filter(|line| line.contains(" left "))
            .collect();
        assert!(bars.iter().any(|bar| bar.contains("/1,024 ")), "{bars:?}");
        for bar in bars {
            let shown = bar.rsplit("[2K").next().unwrap_or(bar);
            let bound = usize::from(columns);
            assert!(shown.chars().count() <= bound, "{bound}: {shown:?}");
        }
        let lines = lines(&written);
        let is_result = |line: &&&str| line.contains(" closed conn-refused ");
        let results: Vec<_> = lines.iter().filter(is_result).collect();
        assert_eq!(results.len(), 1024);
        for line in results {
            assert!(
                line.starts_with("127.0.0.") && line.ends_with(" ms"),
                "{line:?}"
            );
        }
    }
}
