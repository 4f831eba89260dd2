// SPDX-License-Identifier: GPL-2.0-or-later
//! Privileges that remain once the program captures.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command};

use crate::place::{program, send, Place, Run, OURS};

/// Returns the line that begins with `name` from each thread's status in /proc, split into words, without `name`.
pub fn of_threads(run: &Run, name: &str) -> Vec<Vec<String>> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", run.child.id())).unwrap();
    let line = |path: PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).unwrap();
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    };
    threads.map(|thread| line(thread.unwrap().path())).collect()
}

#[test]
fn no_thread_is_root_and_no_right_stays_but_for_opening_again() {
    // CAP_NET_RAW is number 13.
    for (more, rights) in [
        (&[][..], "0000000000000000"),
        (&["--follow"], "0000000000002000"),
    ] {
        let place = Place::new();
        let file = place.file("x.pcapng");
        let words = [&["-w", &file, "--user", "nobody"], more, &[OURS]].concat();
        let mut run = Run::on(&place, &words);
        // A program that answers has started all its threads.
        run.signal(libc::SIGUSR1);
        run.hears("ledger: delivered");
        assert!(of_threads(&run, "Uid:").len() >= 3);
        for (name, wanted) in [
            ("Uid:", &["65534"; 4][..]),
            ("Gid:", &["65534"; 4]),
            ("Groups:", &[]),
            ("CapEff:", &[rights]),
            ("CapPrm:", &[rights]),
            ("CapInh:", &["0000000000000000"]),
            ("CapBnd:", &["0000000000000000"]),
            ("CapAmb:", &["0000000000000000"]),
            ("NoNewPrivs:", &["1"]),
            // Mode 2 means a filter of system calls (SECCOMP_MODE_FILTER).
            ("Seccomp:", &["2"]),
        ] {
            for thread in of_threads(&run, name) {
                assert_eq!(thread, wanted, "{name} {more:?}");
            }
        }
        send(&place.here, 0..10, 100);
        assert_eq!(run.end().written, 10);
        assert_eq!(std::fs::metadata(&file).unwrap().uid(), 65534);
    }
}

/// Attaches strace, which replaces each poll(2) of the program's main thread by getpgrp(2). The sandbox forbids
/// getpgrp(2).
fn strangely(run: &Run) -> Tracer {
    let inject = "inject=poll:error=EIO:syscall=getpgrp";
    Tracer::new(run, &["-e", "trace=poll", "-e", inject])
}

/// A tracer; ended on drop.
pub struct Tracer(Child);

impl Tracer {
    /// Attaches strace to the program, with more words of strace's command line.
    pub fn new(run: &Run, more: &[&str]) -> Tracer {
        let pid = run.child.id().to_string();
        let mut command = Command::new("strace");
        command.args(["-q", "-p", &pid, "-o", "/dev/null"]);
        Tracer(command.args(more).spawn().expect("strace: make deps"))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // SIGKILL would leave its helper process behind.
        // SAFETY: kill(2) touches no memory; the child was not waited for yet, so its process id is not reused.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let _ = self.0.wait();
    }
}

#[test]
fn a_call_that_is_not_on_the_list_ends_it_by_name() {
    for backend in ["tpacket3", "recvmmsg", "io-uring"] {
        let place = Place::new();
        let file = place.file("x.pcapng");
        let mut run = Run::on(&place, &["-w", &file, "--backend", backend, OURS]);
        let _tracer = strangely(&run);
        run.hears("error: forbidden system call getpgrp (111): the sandbox ended capture");
        assert_eq!(run.wait(), None);
    }
    let place = Place::new();
    let file = place.file("x.pcapng");
    let run = Run::on(&place, &["-w", &file, "--sandbox", "off", OURS]);
    let tracer = strangely(&run);
    for thread in of_threads(&run, "Seccomp:") {
        assert_eq!(thread, ["0"]);
    }
    send(&place.here, 0..10, 100);
    drop(tracer);
    assert_eq!(run.end().written, 10);
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
        // If root created the file, the test would fail, but the program would not end: timeout(1) ends it.
        let mut command = place.here.command("timeout");
        command.args(["300", program(), "-i", "veth", "--user", "nobody", "-w"]);
        let output = command.arg(&file).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("as user nobody"), "{said}");
        assert!(!file.exists());
    }
}

/// Another user has created the file, to read the recording; the program must refuse the file.
#[test]
fn a_file_of_another_user_is_not_written_to() {
    let place = Place::new();
    let folder = place.folder.0.join("of-user");
    let file = folder.join("x.pcapng");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(&file, "before").unwrap();
    for (path, owner, mode) in [(&folder, 65534, 0o755), (&file, 65533, 0o666)] {
        std::os::unix::fs::chown(path, Some(owner), Some(owner)).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let mut command = place.here.command("timeout");
    command.args(["300", program(), "-i", "veth", "--user", "nobody", "-w"]);
    let output = command.arg(&file).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("another user's: choose another"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
}

/// Tests that only the owner can read recordings. This applies to numbered and rotated files, too.
#[test]
fn nobody_else_reads_what_is_recorded() {
    let place = Place::new();
    for more in [&[][..], &["--rotate", "1h"]] {
        let file = place.file("x.pcapng");
        let words = [&["-w", &file, "--user", "root"], more, &[OURS]].concat();
        assert_eq!(Run::on(&place, &words).end().written, 0);
    }
    for file in place.folder.files() {
        let mode = std::fs::metadata(&file).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    assert_eq!(place.folder.files().len(), 2);
}
