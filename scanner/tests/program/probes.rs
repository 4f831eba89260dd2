// SPDX-License-Identifier: GPL-2.0-or-later
//! Conversations with real servers.

use serde_json::Value;
use testbed::netns::Namespace;
use testbed::wait::PATIENCE;

use crate::place::{answers, namespace, parsed, says, scan_with, serve, text, READ_LIMITS};

/// Runs a probe with this --read-timeout; returns each result as `port finding matched answer`, sorted as text.
/// `answer` is the answer's first line. A missing part is `-`.
fn told(place: &Namespace, words: &[&str], limit: &str) -> Vec<String> {
    let all = [words, &["-o", "json", "--read-timeout", limit]].concat();
    let output = scan_with(place, &all);
    assert!(
        output.status.success(),
        "{words:?}: {}",
        text(&output.stderr)
    );
    let (results, _) = parsed(&output);
    let word = |value: &Value| value.as_str().unwrap_or("-").to_string();
    let mut told: Vec<String> = results
        .iter()
        .map(|result| {
            let matched = result["matched"]
                .as_bool()
                .map_or("-".into(), |matched| matched.to_string());
            let answer = word(&result["answer"]);
            let first = answer.split("\r\n").next().unwrap().to_string();
            format!(
                "{} {} {matched} {first}",
                result["port"],
                word(&result["finding"])
            )
        })
        .collect();
    told.sort();
    told
}

/// Checks the results of a probe, in the form of `told`. Only in silence may a server differ at a low limit.
fn check_told(place: &Namespace, words: &[&str], expected: &[&str]) {
    let are_told_within = |limit: &str| {
        let told = told(place, words, limit);
        for line in &told {
            let is_possible = expected.contains(&line.as_str()) || line.contains(" silent ");
            assert!(is_possible, "{words:?}: {told:?}");
        }
        told == expected
    };
    assert!(
        READ_LIMITS.into_iter().any(are_told_within),
        "{words:?}: never {expected:?}"
    );
}

#[test]
fn ssh_versions() {
    let place = namespace();
    serve(&place, "127.0.0.1:21", says(b"SSH-2.0-OpenSSH_7.4\r\n"));
    serve(
        &place,
        "127.0.0.1:22",
        says(b"welcome\r\nSSH-2.0-OpenSSH_9.2p1 Debian\r\n\x01\x02"),
    );
    serve(&place, "127.0.0.1:23", says(b"220 a mail server\r\n"));
    serve(&place, "127.0.0.1:24", says(b""));
    serve(&place, "127.0.0.1:25", drop);
    for engine in ["io_uring", "epoll"] {
        let words = [
            "127.0.0.1",
            "-p",
            "21-30",
            "--ssh",
            r"OpenSSH_[0-8]\.",
            "--engine",
            engine,
        ];
        check_told(
            &place,
            &words,
            &[
                "21 answer true SSH-2.0-OpenSSH_7.4",
                "22 answer false SSH-2.0-OpenSSH_9.2p1 Debian",
                "23 silent - 220 a mail server",
                "24 silent - -",
                "25 ended - -",
            ],
        );
    }
}

#[test]
fn http_heads() {
    let place = namespace();
    let nginx = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22\r\n\r\nServer: apache";
    serve(&place, "127.0.0.1:80", answers(nginx));
    serve(
        &place,
        "127.0.0.1:81",
        answers(b"HTTP/1.0 404 Not Found\r\nServer: apache\r\n\r\n"),
    );
    serve(&place, "127.0.0.1:82", answers(b"SSH-2.0-x\r\n"));
    serve(
        &place,
        "127.0.0.1:83",
        answers(b"HTTP/1.1 200 OK\r\nServer:"),
    );
    let words = [
        "127.0.0.1",
        "-p",
        "80-84",
        "--http",
        "--match",
        "^Server: (nginx|apache)",
        "--match",
        "200",
    ];
    for engine in ["io_uring", "epoll"] {
        let words = [&words[..], &["--engine", engine]].concat();
        check_told(
            &place,
            &words,
            &[
                "80 answer true HTTP/1.1 200 OK",
                "81 answer false HTTP/1.0 404 Not Found",
                "82 invalid - SSH-2.0-x",
                "83 ended - HTTP/1.1 200 OK",
            ],
        );
    }
    // The bytes after the head are not part of the answer.
    let words = ["127.0.0.1", "-p", "80", "--http", "--match", "apache"];
    check_told(&place, &words, &["80 answer false HTTP/1.1 200 OK"]);
}

/// The request arrives unchanged, with nothing after it.
#[test]
fn requests_carry_no_other_bytes() {
    let place = namespace();
    let (heard, requests) = std::sync::mpsc::channel();
    let port = serve(&place, "127.0.0.1:8080", move |mut stream| {
        use std::io::{Read, Write};
        let mut bytes = Vec::new();
        let mut room = [0; 4096];
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        while let Ok(count @ 1..) = stream.read(&mut room) {
            bytes.extend_from_slice(&room[..count]);
            if bytes.ends_with(b"\r\n\r\n") {
                // The request is whole: other bytes would follow at once.
                let briefly = std::time::Duration::from_millis(200);
                stream.set_read_timeout(Some(briefly)).unwrap();
            }
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        heard.send(text(&bytes)).unwrap();
    });
    let words = [
        "127.0.0.1",
        "-p",
        "8080",
        "--http",
        "--header",
        "X-Test: 1",
        "--path",
        "/a?b",
    ];
    told(&place, &words, "120000");
    let expected =
        "GET /a?b HTTP/1.1\r\nUser-Agent: twinwall-scanner\r\nAccept: */*\r\nConnection: close\r\n\
                    X-Test: 1\r\nHost: 127.0.0.1:8080\r\n\r\n";
    assert_eq!(requests.recv().unwrap(), expected);
    assert_eq!(port.port(), 8080);
}

/// 1,024 hosts in few slots, with answers of different lengths: each is reported with its own bytes.
#[test]
fn answers_are_matched_in_their_own_bytes() {
    let place = namespace();
    serve(&place, "0.0.0.0:22", |mut stream| {
        use std::io::Write;
        let std::net::IpAddr::V4(ip) = stream.local_addr().unwrap().ip() else {
            return;
        };
        let host = ip.to_bits() & 0xffff;
        let filler = "x".repeat(host as usize % 97);
        let mark = if host % 8 == 0 { "odd" } else { "" };
        let _ = write!(stream, "SSH-2.0-{filler}{mark}-{host}\r\n");
    });
    for engine in ["io_uring", "epoll"] {
        let words =
            "127.0.0.0/22 -p 22 --ssh odd -o json --max-inflight 64 --read-timeout 120000 --engine";
        let words: Vec<&str> = words.split(' ').chain([engine]).collect();
        let (results, summary) = parsed(&scan_with(&place, &words));
        assert_eq!(results.len(), 1024);
        assert_eq!(summary["matched"], 128, "{engine}");
        for result in results {
            let host = result["address"]
                .as_str()
                .unwrap()
                .split('.')
                .collect::<Vec<_>>();
            let host = host[2].parse::<u32>().unwrap() * 256 + host[3].parse::<u32>().unwrap();
            let answer = result["answer"].as_str().unwrap();
            assert!(answer.ends_with(&format!("-{host}")), "{result}");
            assert_eq!(result["matched"], host % 8 == 0, "{result}");
        }
    }
}

#[test]
fn closed_ports_are_listed_beside_matching_answers() {
    let place = namespace();
    serve(&place, "127.0.0.1:22", says(b"SSH-2.0-OpenSSH_7.4\r\n"));
    serve(&place, "127.0.0.1:23", says(b"SSH-2.0-other\r\n"));
    let words = ["127.0.0.1", "-p", "22-24", "--ssh", "OpenSSH", "--show"];
    let matching = "22 answer true SSH-2.0-OpenSSH_7.4";
    let check = |show, expected: &[&str]| {
        check_told(&place, &[&words[..], &[show]].concat(), expected);
    };
    check("matched", &[matching]);
    check("matched,closed", &[matching, "24 - - -"]);
}

#[test]
fn banners() {
    let place = namespace();
    serve(&place, "127.0.0.1:25", says(b"220 mail.example ESMTP\r\n"));
    serve(&place, "127.0.0.1:26", says(b"no end of line"));
    serve(&place, "127.0.0.1:27", says(b""));
    let words = ["127.0.0.1", "-p", "25-27", "--banner", "--match", "ESMTP"];
    check_told(
        &place,
        &words,
        &[
            "25 answer true 220 mail.example ESMTP",
            "26 answer false no end of line",
            "27 silent - -",
        ],
    );
}

/// Creates a rustls server configuration with a self-signed certificate.
fn tls_server() -> std::sync::Arc<rustls::ServerConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["host.example".into()]).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    std::sync::Arc::new(config)
}

/// Reads a request's head. Returns false if the client ends before the head.
fn is_asked(client: &mut impl std::io::Read) -> bool {
    let mut heard = Vec::new();
    let mut room = [0; 1024];
    while !heard.ends_with(b"\r\n\r\n") {
        match client.read(&mut room) {
            Ok(count @ 1..) => heard.extend_from_slice(&room[..count]),
            _ => return false,
        }
    }
    true
}

#[test]
fn http_inside_tls() {
    let place = namespace();
    let config = tls_server();
    let answer = "HTTP/1.1 200 OK\r\nServer: nginx\r\nX-Long: ";
    serve(&place, "127.0.0.1:443", move |mut stream| {
        use std::io::Write;
        let mut session = rustls::ServerConnection::new(config.clone()).unwrap();
        let mut tls = rustls::Stream::new(&mut session, &mut stream);
        if !is_asked(&mut tls) {
            return;
        }
        let _ = tls.write_all(answer.as_bytes());
        let _ = tls.write_all("y".repeat(5000).as_bytes());
        let _ = tls.write_all(b"\r\n\r\nbody");
    });
    serve(
        &place,
        "127.0.0.1:444",
        answers(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    );
    serve(
        &place,
        "127.0.0.1:445",
        says(b"\x16\x03\x03\xff\xff\x02garbage that is no record"),
    );
    serve(&place, "127.0.0.1:446", |mut stream| {
        use std::io::Read;
        let _ = stream.read(&mut [0; 4096]);
    });
    for engine in ["io_uring", "epoll"] {
        let words = [
            "127.0.0.1",
            "-p",
            "443-446",
            "--http",
            "--tls",
            "--match",
            "nginx",
            "--engine",
            engine,
        ];
        check_told(
            &place,
            &words,
            &[
                "443 answer true HTTP/1.1 200 OK",
                "444 silent - -",
                "445 no-tls - -",
                "446 no-tls - -",
            ],
        );
    }
}

/// The server ends the TLS session within the head of its response, and then sends more bytes.
#[test]
fn bytes_after_the_end_of_tls_are_ignored() {
    let place = namespace();
    let config = tls_server();
    serve(&place, "127.0.0.1:443", move |mut stream| {
        use std::io::Write;
        let mut session = rustls::ServerConnection::new(config.clone()).unwrap();
        let mut tls = rustls::Stream::new(&mut session, &mut stream);
        if !is_asked(&mut tls) {
            return;
        }
        let _ = tls.write_all(b"HTTP/1.1 200 OK\r\nServer: nginx\r\n");
        tls.conn.send_close_notify();
        let _ = tls.flush();
        let _ = stream.write_all(&[0; 1 << 14]);
    });
    for engine in ["io_uring", "epoll"] {
        let words = ["127.0.0.1", "-p", "443", "--http", "--tls"];
        let words = [&words[..], &["--engine", engine]].concat();
        check_told(&place, &words, &["443 ended - HTTP/1.1 200 OK"]);
    }
}
