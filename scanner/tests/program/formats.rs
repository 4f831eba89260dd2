// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks the output formats with other tools.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::place::{filter, namespace, says, scan_with, serve, text};

/// Runs a tool of deps/debian.txt with a text as input; returns its stdout and stderr, joined. The tool must succeed.
fn feed(program: &str, arguments: &[&str], input: &[u8]) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}: make deps"));
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let words = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{program}: {words}");
    words
}

/// Debian's Python, whose modules are in deps/debian.txt; a different Python may come first in PATH.
const PYTHON: &str = "/usr/bin/python3";

fn scanned(format: &str) -> Vec<u8> {
    let place = namespace();
    serve(
        &place,
        "127.0.0.1:22",
        says(b"SSH-2.0-<\"&'>, a/b \x01\xff\r\n"),
    );
    serve(&place, "127.0.0.2:22", says(b"SSH-2.0-OpenSSH_9.2\r\n"));
    let words = [
        "127.0.0.1",
        "localhost",
        "127.0.0.2",
        "::1",
        "-p",
        "22,23",
        "--ssh",
        "Open",
        "--read-timeout",
        "120000",
    ];
    let output = scan_with(
        &place,
        &[&words[..], &["--show", "all", "-o", format]].concat(),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    output.stdout
}

const READ_XML: &str = "
import sys
from libnmap.parser import NmapParser
report = NmapParser.parse(sys.stdin.read())
for host in report.hosts:
    for service in host.services:
        print(host.address, service.port, service.state, service.reason, service.service, service.scripts_results[0]['output'] if service.scripts_results else '')
print(report.summary)
";

#[test]
fn xml_is_read_by_libnmap_and_valid() {
    let xml = scanned("nmap-xml");
    let words = feed(PYTHON, &["-c", READ_XML], &xml);
    for wanted in [
        "127.0.0.2 22 open syn-ack ssh SSH-2.0-OpenSSH_9.2\n",
        "127.0.0.1 22 open syn-ack ssh SSH-2.0-<\"&'>, a/b ?",
        "::1 23 closed conn-refused",
        "6 of 6 targets asked",
    ] {
        assert!(words.contains(wanted), "{wanted}: {words}");
    }
    // The document type allows one scanner name only.
    let named = text(&xml).replace("scanner=\"twinwall-scanner\"", "scanner=\"nmap\"");
    let arguments = ["--noout", "--dtdvalid", "/usr/share/nmap/nmap.dtd", "-"];
    feed("xmllint", &arguments, named.as_bytes());
}

#[test]
fn csv_has_a_field_for_each_column() {
    let csv = scanned("csv");
    let mut reader = csv::Reader::from_reader(&csv[..]);
    let names = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.unwrap()).collect();
    assert_eq!((names.len(), rows.len()), (11, 6));
    assert!(
        rows.iter()
            .any(|row| &row[10] == "SSH-2.0-<\"&'>, a/b ?\u{fffd}"),
        "{rows:?}"
    );
}

/// Script that parses a file of grepable output with brutespray's parser, and prints the addresses by service and port.
/// The parser must detect the format by the file's first lines.
const READ_GREPABLE: &str = "
import sys, types
from importlib.machinery import SourceFileLoader
reader = types.ModuleType('reader')
SourceFileLoader('reader', '/usr/bin/brutespray').exec_module(reader)
reader.args = types.SimpleNamespace(file=sys.argv[1])
assert reader.getInput(sys.argv[1]) == 'gnmap'
reader.make_dic_gnmap()
print({name: {port: sorted(hosts) for port, hosts in ports.items()} for name, ports in reader.services.items()})
";

#[test]
fn grepable_is_read_by_brutespray() {
    let bytes = scanned("grepable");
    let file = std::env::temp_dir().join(format!("scanner-grepable-{}", std::process::id()));
    std::fs::write(&file, bytes).unwrap();
    let words = feed(PYTHON, &["-c", READ_GREPABLE, file.to_str().unwrap()], b"");
    let _ = std::fs::remove_file(&file);
    assert_eq!(words, "{'ssh': {'22': ['127.0.0.1', '127.0.0.2']}}\n");
}

/// Returns a line of grepable output without the parts that always differ between nmap and this scanner: the program
/// and its command line, and the service name that nmap gives to a port without a probe. Placeholders replace times.
fn without_chance(line: &str) -> String {
    if let Some((who, rest)) = line.split_once(" scan initiated ") {
        let (date, _) = rest.split_once(" as: ").unwrap();
        assert!(who.starts_with("# Nmap "), "{line}");
        return format!("# Nmap scan initiated {} as: ", without_time(date));
    }
    if let Some(rest) = line.strip_prefix("# Nmap done at ") {
        let (date, rest) = rest.split_once(" -- ").unwrap();
        let (counted, seconds) = rest.split_once(" scanned in ").unwrap();
        let (seconds, unit) = seconds.split_once(' ').unwrap();
        assert_eq!(seconds.split_once('.').unwrap().1.len(), 2, "{line}");
        return format!(
            "# Nmap done at {} -- {counted} in N {unit}",
            without_time(date)
        );
    }
    line.replace("//ssh//", "////")
}

/// Replaces the digits of a time such as `Sat Nov 21 22:16:33 2026` by N, and its letters by a. Also replaces blanks
/// from the day of the month on by N, since a day may have one digit.
fn without_time(date: &str) -> String {
    let letters = date.char_indices().map(|(at, letter)| match letter {
        // The day may have one digit, after a blank; names of days and months become letters a.
        ' ' | '0'..='9' if at >= 8 => 'N',
        'A'..='Z' | 'a'..='z' => 'a',
        _ => letter,
    });
    letters.collect()
}

#[test]
fn grepable_is_what_nmap_prints() {
    let place = namespace();
    serve(&place, "127.0.0.1:22", says(b""));
    filter(&place, "ip daddr 127.0.0.3 tcp dport 22 drop;");
    let targets = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "-p", "22"];
    let nmap = ["-n", "-Pn", "-sT", "--max-retries", "0", "-oG", "-"];
    let theirs = place
        .command("nmap")
        .args(nmap)
        .args(targets)
        .output()
        .unwrap_or_else(|error| panic!("nmap: {error}: make deps"));
    let ours = scan_with(
        &place,
        &[&targets[..], &["-o", "grepable", "--show", "all"]].concat(),
    );
    let lines = |bytes: &[u8]| {
        let text = text(bytes);
        let lines = text.lines().map(without_chance);
        // nmap first reports that a host is up, since it was told so.
        let mut lines: Vec<String> = lines.filter(|line| !line.ends_with("Status: Up")).collect();
        let last = lines.len() - 1;
        // Results are written as they are found.
        lines[1..last].sort();
        lines
    };
    let mut printed = lines(&ours.stdout);
    // nmap prints this line with -v only.
    let ports = printed.remove(1);
    assert_eq!(
        ports,
        "# Ports scanned: TCP(1;22) UDP(0;) SCTP(0;) PROTOCOLS(0;)"
    );
    assert_eq!(printed, lines(&theirs.stdout));
    assert_eq!(printed.len(), 5, "{printed:?}");
}
