// SPDX-License-Identifier: GPL-2.0-or-later
//! Rotated files and compressed files.

use std::time::Duration;

use testbed::wait::{pause_for, until};

use crate::place::{count, judge, numbers, send, Place, Run, LIMIT, OURS};

#[test]
fn a_file_that_is_full_is_followed_by_the_next() {
    let place = Place::new();
    let name = place.file("%Y.pcapng");
    let run = Run::on(
        &place,
        &["-w", &name, "--rotate", "1500KB,1h", "--user", "root", OURS],
    );
    send(&place.here, 0..4000, 1000);
    let ledger = run.end();
    assert_eq!(ledger.written, 4000);
    let files = place.folder.files();
    assert!(files.len() >= 3, "{files:?}");
    let mut all = Vec::new();
    for file in &files {
        assert!(file.metadata().unwrap().len() <= 1_500_000 + 1000);
        let about = judge("capinfos", &[], file);
        assert!(about.contains("Number of stat entries = 1"), "{about}");
        all.extend(numbers(file));
    }
    all.sort();
    assert_eq!(all, (0..4000).collect::<Vec<u32>>());
}

#[test]
fn a_file_whose_time_is_over_is_followed_by_the_next_and_old_ones_go() {
    let is_rotated_in_time = || {
        let place = Place::new();
        let name = place.file("%s.pcapng");
        let words = [
            "-w", &name, "--rotate", "1s", "--keep", "2", "--user", "root", OURS,
        ];
        let run = Run::on(&place, &words);
        for step in 0..7 {
            send(&place.here, step * 10..step * 10 + 10, 100);
            pause_for(Duration::from_millis(600));
        }
        assert_eq!(run.end().written, 70);
        let files = place.folder.files();
        assert_eq!(files.len(), 2, "{files:?}");
        let kept = files.iter().map(count).sum::<u64>();
        Ok((10..60).contains(&kept))
    };
    until("nothing delays a rotation", LIMIT, is_rotated_in_time).unwrap();
}

#[test]
fn what_is_compressed_is_read_by_others() {
    let place = Place::new();
    let file = place.file("x.pcapng");
    let run = Run::on(&place, &["-w", &file, "--zstd", OURS]);
    send(&place.here, 0..3000, 1000);
    assert_eq!(run.end().written, 3000);
    let packed = format!("{file}.zst");
    assert!(std::fs::metadata(&packed).unwrap().len() < 300_000);
    assert_eq!(numbers(packed), (0..3000).collect::<Vec<u32>>());
}
