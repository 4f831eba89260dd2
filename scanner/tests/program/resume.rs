// SPDX-License-Identifier: GPL-2.0-or-later
//! An interrupted scan, and the one that goes on.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use crate::place::{namespace, parsed, text};
use serde_json::Value;

#[test]
fn an_interrupted_scan_goes_on_and_asks_all() {
    let Some(place) = namespace() else { return };
    let file = std::env::temp_dir().join(format!("scanner-resume-test-{}", std::process::id()));
    let file = file.to_str().unwrap();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let words = format!("127.0.0.0/22 -p 1-4 --rate 4000 --show all -o json --resume {file}");
    let mut interrupted = 0;
    loop {
        let child = place
            .command(env!("CARGO_BIN_EXE_scanner"))
            .args(words.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        if interrupted < 2 {
            std::thread::sleep(Duration::from_millis(350));
            // SAFETY: kill(2) touches no memory; the child is not waited for yet, so its number is its own.
            unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
        }
        let output = child.wait_with_output().unwrap();
        let (results, summary): (Vec<Value>, Value) = parsed(&output);
        for result in results {
            *seen
                .entry(format!("{}:{}", result["address"], result["port"]))
                .or_default() += 1;
        }
        match output.status.code() {
            Some(0) => break,
            Some(4) => interrupted += 1,
            other => panic!("{other:?}: {}", text(&output.stderr)),
        }
        assert_eq!(summary["interrupted"], true);
        assert!(text(&output.stderr).contains("interrupted: "));
        assert!(std::path::Path::new(file).exists());
        assert!(interrupted < 10);
    }
    assert_eq!(interrupted, 2);
    assert_eq!(seen.len(), 4096);
    assert!(seen.values().all(|&times| times == 1));
    assert!(
        !std::path::Path::new(file).exists(),
        "a scan that is done leaves no file"
    );
}
