// SPDX-License-Identifier: GPL-2.0-or-later
//! Stores other than plain etcd: etcd with certificates, a folder over https, a folder of files, and a server that is
//! not etcd.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;

use anyhow::{ensure, Context};
use base64::prelude::{Engine, BASE64_STANDARD};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use testbed::folder::Folder;
use testbed::proc;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::fleet::{policy, Certificates, Place, Plan, Row, Running, CHANNEL, ETCD};

pub const ROWS: &[Row] = &[
    ("etcd-with-certificates", etcd_with_certificates),
    ("a-folder-by-https-and-as-a-file", folders),
    ("a-large-bundle-by-https", a_large_bundle_by_https),
    ("a-server-that-is-no-etcd", a_server_that_is_no_etcd),
];

const CERTIFICATE: &str = "CERTIFICATE";

/// Returns a text in PEM. Its base64 is one long line, which all readers accept.
fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

/// Creates an authority, and a certificate of it for etcd's address. Returns the paths of their files.
/// - year: the certificate expires at the beginning of this year.
fn certificates(folder: &Folder, name: &str, year: i32) -> anyhow::Result<Certificates> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    let authority_text = pem(CERTIFICATE, authority.self_signed(&authority_key)?.der());
    let key = KeyPair::generate()?;
    let mut server = CertificateParams::new(vec![ETCD.to_owned()])?;
    server.not_before = rcgen::date_time_ymd(2020, 1, 1);
    server.not_after = rcgen::date_time_ymd(year, 1, 1);
    let server = server.signed_by(&key, &Issuer::new(authority, authority_key))?;
    let write = |end: &str, text: String| folder.write(&format!("{name}-{end}"), text);
    Ok(Certificates {
        certificate: write("server.pem", pem(CERTIFICATE, server.der()))?,
        key: write("server.key", pem("PRIVATE KEY", &key.serialize_der()))?,
        authority: write("authority.pem", authority_text)?,
    })
}

fn with(tls: &Certificates) -> anyhow::Result<Place> {
    Place::with(Plan {
        hosts: 1,
        look: 2,
        tls: Some(tls.clone()),
        ..Plan::default()
    })
}

fn etcd_with_certificates() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let good = certificates(&folder, "good", 4000)?;
    let other = certificates(&folder, "other", 4000)?;
    let place = with(&good)?;
    place.push_well(&policy(7777))?;
    place.all_have("udp dport 7777")?;
    // An authority that has not signed etcd's certificate.
    let status = ["status", CHANNEL];
    let login = place.folder.file("out/operator.login");
    let asked = |authority: &str| -> anyhow::Result<(Option<i32>, String)> {
        let mut command = place.operator.command(testbed::twin::built("fwctl"));
        let urls = place.etcd_urls();
        command
            .arg("fleet")
            .args(status)
            .args(["--etcd", &urls, "--login", &login, "--ca", authority]);
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((output.status.code(), said))
    };
    let (code, said) = asked(&other.authority)?;
    ensure!(code == Some(3) && said.contains("UnknownIssuer"), "{said}");
    let (code, said) = asked(&good.key)?;
    ensure!(code == Some(2) && said.contains("--ca"), "{said}");

    // The same etcd with an expired certificate: hosts must keep their policy and report the reason.
    let mut place = place;
    let old = certificates(&folder, "old", 2021)?;
    let both = fs::read_to_string(&good.authority)? + &fs::read_to_string(&old.authority)?;
    fs::write(&good.authority, both)?;
    place.stop_agent(0);
    place.stop_etcd();
    fs::copy(&old.certificate, &good.certificate)?;
    fs::copy(&old.key, &good.key)?;
    place.start_etcd()?;
    place.start_agent(0)?;
    place.wait_for_log(0, "certificate expired")?;
    place.all_have("udp dport 7777")
}

fn folders() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let tls = certificates(&folder, "nginx", 4000)?;
    let served = folder.file("served");
    for address in [
        format!("https://{ETCD}:8443/policies"),
        format!("file://{served}/policies"),
    ] {
        let place = Place::with(Plan {
            hosts: 1,
            look: 1,
            folder: Some(address.clone()),
            authority: Some(tls.authority.clone()),
            ..Plan::default()
        })?;
        let _server = match address.starts_with("https:") {
            true => Some(nginx(&place, &folder, &tls)?),
            false => None,
        };
        let key = place.folder.file("out/fleet.key");
        let into = format!("{served}/policies");
        for port in [7777, 8888] {
            let path = place.folder.write("policy.nft", policy(port))?;
            let push = ["push", CHANNEL, &path, "--into", &into, "--sign", &key];
            let push = [&push[..], &["--observe", "1", "--confirm", "300"]].concat();
            let (code, said) = place.fleet(&push)?;
            ensure!(code == Some(0) && said.contains("is in"), "{said}");
            until("the host to confirm it", PATIENCE, || {
                let state = place.state(0);
                Ok(state["phase"] == "confirmed"
                    && place
                        .rules(&place.hosts[0])?
                        .contains(&format!("udp dport {port}")))
            })
            .with_context(|| place.agent_log(0).unwrap_or_default())?;
        }
        fs::remove_dir_all(&served)?;
    }
    Ok(())
}

/// Serves the subfolder `served` of a folder over https by nginx, as the documentation describes.
fn nginx(place: &Place, folder: &Folder, tls: &Certificates) -> anyhow::Result<Running> {
    let served = folder.file("served");
    fs::create_dir_all(&served)?;
    let text = format!(
        "daemon off;\nmaster_process off;\npid {0};\nerror_log stderr;\nevents {{}}\nhttp {{\n\taccess_log off;\n\tserver {{\n\
         \t\tlisten {ETCD}:8443 ssl;\n\t\tssl_certificate {1};\n\t\tssl_certificate_key {2};\n\t\troot {served};\n\t}}\n}}\n",
        folder.file("nginx.pid"), tls.certificate, tls.key
    );
    let file = folder.write("nginx.conf", text)?;
    let mut command = place.operator.command("nginx");
    command.args(["-c", &file]).stderr(Stdio::null());
    let server = Running(command.spawn().context("nginx: make deps")?);
    until("nginx to listen", PATIENCE, || {
        let connect = || std::net::TcpStream::connect(format!("{ETCD}:8443"));
        Ok(place.operator.enter(connect).is_ok())
    })?;
    Ok(server)
}

/// Tests a bundle that is too large for etcd: nginx serves it, and the pointer in etcd has its address and digest.
fn a_large_bundle_by_https() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let tls = certificates(&folder, "nginx", 4000)?;
    let place = Place::with(Plan {
        hosts: 2,
        look: 2,
        authority: Some(tls.authority.clone()),
        ..Plan::default()
    })?;
    let _server = nginx(&place, &folder, &tls)?;
    let comments = format!("# {}\n", "x".repeat(97)).repeat(20_000);
    let bundle = folder.file("served/large.bundle");
    let url = format!("https://{ETCD}:8443/large.bundle");
    let at = ["--bundle", &bundle, "--url", &url, "--waves", "100%"];
    let text = comments.clone() + &policy(7777);
    let options = [&at[..], &["--observe", "1", "--confirm", "60"]].concat();
    let (code, said) = place.push(&text, &options)?;
    ensure!(code == Some(0), "{said}");
    place.all_have("udp dport 7777")?;
    // The server has other content at the address than the pointer names.
    let other = fs::read(&bundle)?;
    let text = comments + &policy(8888);
    let options = [&at[..], &["--no-wait", "--not-before", "4000000000"]].concat();
    let (code, said) = place.push(&text, &options)?;
    ensure!(code == Some(0), "{said}");
    fs::write(&bundle, other)?;
    let key = place.folder.file("out/fleet.key");
    let (code, said) = place.fleet(&["rollback", CHANNEL, "2", "--no-wait", "--sign", &key])?;
    ensure!(code == Some(0), "{said}");
    for number in 0..2 {
        place.wait_for_log(number, "another one or not whole")?;
    }
    place.all_have("udp dport 7777")
}

/// Replies that etcd would never send.
const ANSWERS: [&str; 7] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 49\r\n\r\n{\"token\":\"a\\r\\nX: y\",\"kvs\":[{\"value\":\"%%%%\"}]}   ",
    "HTTP/1.1 500 No\r\nContent-Length: 30\r\n\r\n{\"error\":{\"message\":[1,2,3]}} ",
    "\x00\x01\x02SSH",
    "",
];
/// Number of bytes of the endless reply that are sent to each client.
const ENDLESS: usize = 64 << 20;

/// Sends the next reply of ANSWERS to each client. After the last of them comes a reply without an end, then the first.
fn serve_nonsense(listener: TcpListener) {
    for (number, stream) in listener.incoming().flatten().enumerate() {
        thread::spawn(move || {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 4096]);
            if let Some(answer) = ANSWERS.get(number % (ANSWERS.len() + 1)) {
                let _ = stream.write_all(answer.as_bytes());
                return;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"kvs\":\"");
            for _ in 0..ENDLESS / 65536 {
                if stream.write_all(&[b'x'; 65536]).is_err() {
                    return;
                }
            }
        });
    }
}

fn a_server_that_is_no_etcd() -> anyhow::Result<()> {
    let mut place = Place::new(1)?;
    place.push_well(&policy(7777))?;
    let pid = place.agent_pid(0)?;
    place.stop_etcd();
    let listener = || TcpListener::bind(format!("{ETCD}:2379"));
    let listener = place.operator.enter(listener)?;
    let clone = listener.try_clone()?;
    thread::spawn(move || serve_nonsense(clone));
    for words in [
        "it speaks no HTTP",
        "a chunk that is too large",
        "its answer is too long",
    ] {
        place.wait_for_log(0, words)?;
    }
    place.all_have("udp dport 7777")?;
    ensure!(
        place.agent_pid(0)? == pid && proc::state(pid)? != 'Z',
        "the agent has ended"
    );
    let peak = proc::peak_memory_mib(pid)?;
    ensure!(peak < 40.0, "the agent had {peak} MiB");
    // The agent must continue when etcd is back. The port is in use until the listener's last descriptor is closed.
    // SAFETY: shutdown(2) touches no memory; it ends the accept of the thread.
    unsafe { libc::shutdown(std::os::fd::AsRawFd::as_raw_fd(&listener), libc::SHUT_RDWR) };
    drop(listener);
    until("etcd's port to be free", PATIENCE, || {
        let connect = || std::net::TcpStream::connect(format!("{ETCD}:2379"));
        Ok(place.operator.enter(connect).is_err())
    })?;
    place.start_etcd()?;
    place.push_well(&policy(8888))?;
    place.all_have("udp dport 8888")
}
