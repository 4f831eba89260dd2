// SPDX-License-Identifier: GPL-2.0-or-later
//! Decisions by name between ends that are separate programs, over IPv4 and IPv6. Go's crypto/tls and rustls with
//! aws-lc-rs connect to their own server and to nginx. aioquic connects to its own server in QUIC version 1, in version
//! 2 and from version 1 to 2, and to quinn. Chromium uses TLS and QUIC.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::firewall::Firewall;
use testbed::twin::Twin;
use testbed::wait::{pause_for, until, PATIENCE};
use twinwall_tests::browser;
use twinwall_tests::case::Row;

use super::ends::{self, Heard, Identity, QUIC_PORT};
use super::programs::{self, First, Question, Told, AIOQUIC, AWS_LC, GO};
use super::{behind_each_backend, ALLOWED, DENIED, POLICY, REFUSED};
use crate::evasion::net::{Net, Sees, SERVER, SERVER_6};

pub const ROWS: &[Row] = &[
    ("go", |twin| tls(twin, GO)),
    ("aws-lc", |twin| tls(twin, AWS_LC)),
    ("aioquic", aioquic),
    ("chromium", chromium),
];

/// Ports of the servers: nginx (TCP), the tested TLS program itself (TCP), and aioquic (UDP).
const NGINX_PORT: u16 = 443;
const OWN_PORT: u16 = 9443;
const AIOQUIC_PORT: u16 = 4434;
/// Maximum number of data bytes in a TCP segment over IPv4 and Ethernet, with timestamps.
const SEGMENT_BYTES: usize = 1_448;
/// Time limit for a browser's start and all its requests, on a busy machine.
const BROWSED: Duration = Duration::from_secs(60);
/// Maximum number of browsers, one after another: on a busy machine a browser may request a name over TLS instead of QUIC.
const BROWSERS: u32 = 8;
/// Pause between two checks of the browser's progress.
const LOOK: Duration = Duration::from_millis(50);

/// Runs clients with a firewall of each backend. Fails unless each of the policy's first `counters` counters has
/// counted.
fn counted_behind_each_backend(
    net: &Net,
    twin: Twin,
    policy: &str,
    counters: usize,
    clients: impl Fn(&Firewall) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    behind_each_backend(net, twin, policy, |firewall| {
        clients(&firewall)?;
        let counted = firewall.finish()?.policy.context("a policy")?.counters;
        let refusing = counted.get(..counters).context("counters")?;
        ensure!(
            refusing.iter().all(|counter| counter.packets > 0),
            "{refusing:?}"
        );
        Ok(())
    })
}

/// Returns a question (a handshake to try) for every way (protocol versions), address family and name, to a server's
/// port.
fn questions(ways: &[&'static str], port: u16) -> Vec<Question> {
    let servers: [SocketAddr; 2] = [(SERVER, port).into(), (SERVER_6, port).into()];
    let allowed = ALLOWED.map(|name| (name, PATIENCE));
    let denied = DENIED.map(|name| (name, REFUSED));
    let names = [allowed, denied].concat();
    let mut questions = Vec::new();
    for &way in ways {
        for server in servers {
            questions.extend(names.iter().map(|&(name, patience)| Question {
                way,
                server,
                name,
                patience,
            }));
        }
    }
    questions
}

/// Checks that clients with allowed names complete a handshake, and clients with denied names do not. Returns the
/// completed questions, with the program's answers.
fn ask_all(
    net: &Net,
    program: &str,
    questions: Vec<Question>,
) -> anyhow::Result<Vec<(Question, String)>> {
    let answers = programs::ask(net, program, &questions)?;
    let mut complete = Vec::new();
    for (question, answer) in questions.into_iter().zip(answers) {
        let expected = ALLOWED.contains(&question.name);
        ensure!(
            answer.is_some() == expected,
            "{program}: {question:?}: {answer:?}"
        );
        complete.extend(answer.map(|said| (question, said)));
    }
    Ok(complete)
}

/// Tests a program with its own server and with nginx. The hello of TLS 1.3 has a post-quantum key share and needs two
/// segments.
fn tls(twin: Twin, program: &str) -> anyhow::Result<()> {
    programs::file(program)?;
    let net = Net::new(Sees::Both)?;
    let _server = programs::serve_tls(&net, program, OWN_PORT)?;
    let ports = [NGINX_PORT, OWN_PORT];
    let asked = ports.map(|port| questions(&["1.2", "1.3"], port)).concat();
    counted_behind_each_backend(&net, twin, POLICY, 1, |_| {
        for (question, bytes) in ask_all(&net, program, asked.clone())? {
            ensure!(
                (bytes.parse::<usize>()? > SEGMENT_BYTES) == (question.way == "1.3"),
                "{question:?}: a hello of {bytes} bytes"
            );
        }
        Ok(())
    })
}

fn is_denied(name: &str) -> bool {
    DENIED.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Returns the denied names in the hellos that servers have received completely.
fn denied_among(heard: &Heard) -> Vec<String> {
    let heard = heard.lock().expect("no panic");
    let denied = heard.iter().filter(|(_, name)| is_denied(name));
    denied.map(|(_, name)| name.clone()).collect()
}

fn aioquic(twin: Twin) -> anyhow::Result<()> {
    programs::file(AIOQUIC)?;
    let net = Net::new(Sees::Both)?;
    let identity = Identity::new(&[ALLOWED, DENIED].concat())?;
    let told = Told::default();
    ends::serve_quic(&net, &identity, QUIC_PORT, false, &told.hellos)?;
    let _server = programs::serve_quic(&net, AIOQUIC_PORT, First::Plain, &told)?;
    let before_quinn = questions(&["1"], QUIC_PORT);
    let asked = [before_quinn, questions(&["1", "2", "1-2"], AIOQUIC_PORT)].concat();
    counted_behind_each_backend(&net, twin, POLICY, 1, |_| {
        for (question, version) in ask_all(&net, AIOQUIC, asked.clone())? {
            ensure!(
                question.way.ends_with(&version),
                "{question:?} goes on in version {version}"
            );
        }
        let denied = denied_among(&told.hellos);
        ensure!(denied.is_empty(), "servers were asked for {denied:?}");
        Ok(())
    })
}

/// Returns a policy with a rule and a counter for each denied name over TLS, and for each over QUIC.
fn policy_of_each() -> String {
    let ways = [("tcp", NGINX_PORT), ("udp", AIOQUIC_PORT)];
    let rules = ways.map(|(protocol, port)| {
        let rule = |name| format!("{protocol} dport {port} tls sni \"{name}\" counter drop\n");
        DENIED.map(rule).concat()
    });
    format!(
        "table inet filter {{ chain forward {{\n\
         type filter hook forward priority 0; policy accept;\n{}}}\n}}\n",
        rules.concat()
    )
}

/// Tests a browser with a page that requests every name, over TLS from nginx and over QUIC from aioquic.
fn chromium(twin: Twin) -> anyhow::Result<()> {
    let browser = browser::find()?;
    programs::file(AIOQUIC)?;
    let net = Net::new(Sees::Both)?;
    let told = Told::default();
    let _server = programs::serve_quic(&net, AIOQUIC_PORT, First::Plain, &told)?;
    let names = [ALLOWED, DENIED].concat();
    let origins = |port: u16| {
        let names = names.iter().map(|name| name.to_ascii_lowercase());
        names
            .map(|name| format!("{name}:{port}"))
            .collect::<Vec<_>>()
    };
    let over_quic = origins(AIOQUIC_PORT);
    let pictures = [origins(NGINX_PORT), over_quic.clone()].concat();
    let pictures: Vec<_> = pictures
        .iter()
        .map(|origin| format!("https://{origin}/picture"))
        .collect();
    let policy = policy_of_each();
    counted_behind_each_backend(&net, twin, &policy, 2 * DENIED.len(), |firewall| {
        let completed = || -> anyhow::Result<[Vec<String>; 2]> {
            let done = told.done.lock().expect("no panic");
            let over_quic = done.iter().map(|(_, name)| name.clone()).collect();
            Ok([net.answered()?, over_quic])
        };
        let before = completed()?.map(|names| names.len());
        let reached = || -> anyhow::Result<bool> {
            let [tls, quic] = completed()?;
            let all = |names: &[String]| {
                ALLOWED
                    .iter()
                    .all(|own| names.iter().any(|name| name == own))
            };
            Ok(all(&tls[before[0]..]) && all(&quic[before[1]..]))
        };
        let mut asked = Ok(());
        for _ in 0..BROWSERS {
            let _browser = programs::browse(&net, browser, &pictures, &over_quic)?;
            asked = until("the browser has asked for every name", BROWSED, || {
                pause_for(LOOK);
                let counters = firewall.ledger()?.policy.context("a policy")?.counters;
                Ok(reached()? && counters.iter().all(|counter| counter.packets > 0))
            });
            if asked.is_ok() {
                break;
            }
        }
        asked.with_context(|| {
            format!(
                "{:?}, {:?}",
                completed(),
                firewall.ledger().map(|stats| stats.policy)
            )
        })?;
        let over_tls = net.answered()?;
        let wrong = over_tls.iter().find(|name| is_denied(name));
        ensure!(wrong.is_none(), "nginx answered {wrong:?}");
        let denied = denied_among(&told.hellos);
        ensure!(denied.is_empty(), "aioquic was asked for {denied:?}");
        Ok(())
    })
}
