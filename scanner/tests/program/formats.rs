// SPDX-License-Identifier: GPL-2.0-or-later
//! What others' tools make of the results.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::place::{namespace, says, scan_with, serve, text};

/// A program that may not be there, fed with a text. None: it is not there.
fn feed(program: &str, arguments: &[&str], input: &[u8]) -> Option<(bool, String)> {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("not tested: {program} is not there");
        return None;
    };
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let words = text(&output.stdout) + &text(&output.stderr);
    Some((output.status.success(), words))
}

fn scanned(format: &str) -> Option<Vec<u8>> {
    let place = namespace()?;
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
    ];
    let output = scan_with(
        &place,
        &[&words[..], &["--show", "all", "-o", format]].concat(),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(output.stdout)
}

const READ_XML: &str = "
import sys
from libnmap.parser import NmapParser
report = NmapParser.parse(sys.stdin.read())
for host in report.hosts:
    for service in host.services:
        print(host.address, service.port, service.state, service.reason, service.service, service.scripts_results[0]['output'] if service.scripts_results else '')
print(report.summary, report.exit_status)
";

#[test]
fn xml_is_read_by_libnmap_and_valid() {
    let Some(xml) = scanned("nmap-xml") else {
        return;
    };
    if let Some((good, words)) = feed("python3", &["-c", READ_XML], &xml) {
        if !words.contains("No module named 'libnmap'") {
            assert!(good, "{words}");
            assert!(
                words.contains("127.0.0.2 22 open syn-ack ssh SSH-2.0-OpenSSH_9.2\n"),
                "{words}"
            );
            assert!(
                words.contains("127.0.0.1 22 open syn-ack ssh SSH-2.0-<\"&'>, a/b ?"),
                "{words}"
            );
            assert!(words.contains("::1 23 closed conn-refused"), "{words}");
            assert!(words.contains("6 of 6 targets asked success"), "{words}");
        }
    }
    let dtd = "/usr/share/nmap/nmap.dtd";
    if std::path::Path::new(dtd).exists() {
        // The document type knows one scanner only.
        let named = text(&xml).replace("scanner=\"twinwall-scanner\"", "scanner=\"nmap\"");
        let arguments = ["--noout", "--dtdvalid", dtd, "-"];
        if let Some((good, words)) = feed("xmllint", &arguments, named.as_bytes()) {
            assert!(good, "{words}");
        }
    }
}

#[test]
fn csv_has_a_field_for_each_column() {
    let Some(csv) = scanned("csv") else { return };
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

/// By the fields of nmap's reference guide: tabs between fields, commas between ports, seven slashes a port.
#[test]
fn grepable_has_the_fields_of_nmap() {
    let Some(bytes) = scanned("grepable") else {
        return;
    };
    let text = text(&bytes);
    let hosts: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(hosts.len(), 6);
    for line in hosts {
        let fields: Vec<(&str, &str)> = line
            .split('\t')
            .map(|field| field.split_once(": ").unwrap())
            .collect();
        assert_eq!(
            (fields[0].0, fields[1].0, fields.len()),
            ("Host", "Ports", 2),
            "{line}"
        );
        let ports: Vec<&str> = fields[1].1.split(", ").collect();
        let parts: Vec<&str> = ports[0].split('/').collect();
        assert_eq!((ports.len(), parts.len()), (1, 8), "{line}");
        assert!(
            ["open", "closed"].contains(&parts[1]) && parts[2] == "tcp",
            "{line}"
        );
    }
    assert!(text.contains("SSH-2.0-OpenSSH_9.2/\n"), "{text}");
}
