// SPDX-License-Identifier: GPL-2.0-or-later
//! A full disk: the file ends at a whole packet, and missing packets are counted.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use testbed::netns::Namespace;

use crate::place::{count, gaps, ledger, program, send, Place, Run, LIMIT, OURS};

/// A file system of 3 MiB at the folder of the test network, visible only to this child process and to processes that
/// enter its mount namespace.
struct Disk(Child);

impl Disk {
    fn new(place: &Place) -> Disk {
        let mount = "mount -t tmpfs -o size=3m,mode=755 none \"$0\" && echo ready && exec cat";
        let mut child = Namespace::host()
            .command("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", mount])
            .arg(&place.folder.0)
            // cat(1) ends with this pipe, at the latest when the test ends.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said)
            .expect("it is mounted");
        Disk(child)
    }

    fn command(&self, place: &Place) -> Command {
        let mut command = self.enter(place);
        command.arg(program());
        command
    }

    /// Returns a command that runs the program named by its next words inside the disk's mount namespace.
    fn enter(&self, place: &Place) -> Command {
        let mut command = place.here.command("nsenter");
        let target = self.0.id().to_string();
        command.args(["--target", &target, "--mount", "--"]);
        command
    }

    /// Returns the path of a file for programs outside the disk's mount namespace.
    fn outside(&self, file: &str) -> PathBuf {
        format!("/proc/{}/root{file}", self.0.id()).into()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn words<'a>(file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["-i", "veth", "-w", file], more, &[OURS]].concat()
}

#[test]
fn it_goes_on_when_there_is_room_again() {
    for zstd in [false, true] {
        let place = Place::new();
        let disk = Disk::new(&place);
        let (file, ballast) = (place.file("x.pcapng"), disk.outside(&place.file("ballast")));
        std::fs::write(
            &ballast,
            vec![7; (3 << 20) - (if zstd { 12 } else { 600 } << 10)],
        )
        .unwrap();
        let more: &[&str] = if zstd { &["--zstd"] } else { &[] };
        let mut run = Run::start(&mut disk.command(&place), &words(&file, more));
        send(&place.here, 0..2944, 1000);
        run.hears("warning: ");
        // The writer has tried to write all waiting packets, and failed.
        run.has_taken(2944);
        std::fs::remove_file(&ballast).unwrap();
        send(&place.here, 2944..3000, 1000);
        // A compressed frame can be small enough for the room that the failed one left.
        if !zstd || !run.has_said("there is room again") {
            run.hears("there is room again");
        }
        let ledger = run.end();
        assert_eq!(ledger.kernel, 3000);
        assert!(ledger.unwritten > 0, "{ledger}");
        let file = match zstd {
            true => format!("{file}.zst"),
            false => file,
        };
        assert_eq!(count(disk.outside(&file)), ledger.written);
        if !zstd {
            assert!(ledger.written > 500, "{ledger}");
            let wanted = (ledger.unwritten, Some((3000, 0)));
            assert_eq!(gaps(disk.outside(&file)), wanted);
        }
    }
}

#[test]
fn it_ends_where_it_was_told_to() {
    let place = Place::new();
    let disk = Disk::new(&place);
    let file = place.file("x.pcapng");
    let mut run = Run::start(
        &mut disk.command(&place),
        &words(&file, &["--on-full", "stop"]),
    );
    send(&place.here, 0..5000, 1000);
    assert_eq!(run.wait(), Some(1), "{}", run.said);
    assert!(run.said.contains("No space left on device"), "{}", run.said);
    let ledger = ledger(&run.said);
    assert!(ledger.reconciles() && ledger.unwritten > 0, "{}", run.said);
    assert!(ledger.written > 2000, "{}", run.said);
    assert_eq!(count(disk.outside(&file)), ledger.written);
}

/// The file of stdout has 2 MiB already: either it is opened to append, or its position is at its end.
#[test]
fn stdout_retains_what_it_had_before() {
    let before = vec![7u8; 2 << 20];
    for append in [false, true] {
        let place = Place::new();
        let disk = Disk::new(&place);
        let path = disk.outside(&place.file("all"));
        std::fs::write(&path, &before).unwrap();
        let mut options = OpenOptions::new();
        let mut file = options.write(true).append(append).open(&path).unwrap();
        if !append {
            file.seek(SeekFrom::End(0)).unwrap();
        }
        let mut command = disk.command(&place);
        let mut run = Run::start(command.stdout(file), &words("-", &[]));
        send(&place.here, 0..5000, 1000);
        run.hears("warning: stdout: ");
        run.has_taken(5000);
        let ledger = run.end();
        assert!(ledger.unwritten > 0 && ledger.written > 500, "{ledger}");
        let all = std::fs::read(&path).unwrap();
        let (old, new) = all.split_at(before.len());
        assert!(old == before, "append: {append}");
        let file = place.file("new.pcapng");
        std::fs::write(&file, new).unwrap();
        assert_eq!(count(&file), ledger.written);
    }
}

/// Every write to /dev/full fails. The messages are the start line, the full disk, and two ledgers.
#[test]
fn messages_that_cannot_be_written_change_nothing() {
    let place = Place::new();
    let disk = Disk::new(&place);
    let (file, socket) = (place.file("x.pcapng"), place.file("notify"));
    let systemd = UnixDatagram::bind(disk.outside(&socket)).unwrap();
    systemd.set_read_timeout(Some(LIMIT)).unwrap();
    let mut command = disk.enter(&place);
    command.env("NOTIFY_SOCKET", &socket);
    command.args(["sh", "-c", "exec \"$0\" \"$@\" 2>/dev/full", program()]);
    // Another user can't reach the socket in the test's folder.
    let mut run = Run::spawn(&mut command, &words(&file, &["--user", "root"]));
    systemd.recv(&mut [0; 100]).unwrap();
    send(&place.here, 0..5000, 1000);
    run.signal(libc::SIGUSR1);
    run.signal(libc::SIGINT);
    assert_eq!(run.wait(), Some(0));
    let count = count(disk.outside(&file));
    assert!((2001..5000).contains(&count), "{count}");
}
