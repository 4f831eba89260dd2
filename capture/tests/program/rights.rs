// SPDX-License-Identifier: GPL-2.0-or-later
//! What the program may still do once it captures.

use std::os::unix::fs::MetadataExt;

use crate::place::{program, send, Place, Run, OURS};

#[test]
fn no_thread_is_root_and_one_right_stays() {
    let place = Place::new();
    let file = place.file("x.pcapng");
    let mut run = Run::on(&place, &["-w", &file, "--user", "nobody", OURS]);
    // Who answers has started all threads.
    run.signal(libc::SIGUSR1);
    run.hears("ledger: delivered");
    let threads = std::fs::read_dir(format!("/proc/{}/task", run.child.id())).unwrap();
    let mut seen = 0;
    for thread in threads {
        let path = thread.unwrap().path().join("status");
        let status = std::fs::read_to_string(path).unwrap();
        let line = |name: &str| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap();
            line.split_whitespace().collect::<Vec<_>>()
        };
        assert_eq!(line("Uid:"), ["65534"; 4]);
        assert_eq!(line("Gid:"), ["65534"; 4]);
        assert!(line("Groups:").is_empty());
        // CAP_NET_RAW is number 13.
        for set in ["CapEff:", "CapPrm:"] {
            assert_eq!(line(set), ["0000000000002000"], "{set}");
        }
        for set in ["CapInh:", "CapBnd:", "CapAmb:"] {
            assert_eq!(line(set), ["0000000000000000"], "{set}");
        }
        assert_eq!(line("NoNewPrivs:"), ["1"]);
        seen += 1;
    }
    assert!(seen >= 3, "{seen} threads");
    send(&place.here, 0..10, 100);
    assert_eq!(run.end().written, 10);
    assert_eq!(std::fs::metadata(&file).unwrap().uid(), 65534);
}

#[test]
fn root_makes_no_file_where_others_can_lead_it() {
    let place = Place::new();
    let of_user = place.folder.0.join("of-user");
    let roots = of_user.join("of-root");
    let link = of_user.join("link");
    std::fs::create_dir_all(&roots).unwrap();
    std::os::unix::fs::symlink(&place.folder.0, &link).unwrap();
    std::os::unix::fs::chown(&of_user, Some(65534), Some(65534)).unwrap();
    for folder in [roots, link] {
        let file = folder.join("x.pcapng");
        // Where root does make one, it would record for ever.
        let mut command = place.here.command("timeout");
        command.args(["10", program(), "-i", "veth", "--user", "nobody", "-w"]);
        let output = command.arg(&file).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("as user nobody"), "{said}");
        assert!(!file.exists());
    }
}
