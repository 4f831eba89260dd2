// SPDX-License-Identifier: GPL-2.0-or-later
//! Accepted command lines: the start line shows the settings that are in effect, the same in both twins.

use anyhow::{ensure, Context};
use testbed::firewall::{run_to_end, Firewall};
use testbed::place::{namespace, restore};
use testbed::proc;
use testbed::twin::USER;
use testbed::twin::{Twin, TWINS};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Case;

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = GOOD.iter().map(good).collect();
    cases.push(Case::new("start/too-little-memory", too_little_memory));
    cases.push(Case::new("start/queues-without-a-rule-are-told", unfed));
    for twin in TWINS {
        let name = format!("start/{}/pin-binds-each-worker", twin.name());
        cases.push(Case::new(name, move || pin_binds_each_worker(twin)));
        let name = format!("start/{}/256-queues", twin.name());
        cases.push(Case::new(name, move || many_queues(twin)));
        let name = format!("start/{}/no-inherited-descriptor", twin.name());
        cases.push(Case::new(name, move || no_descriptor(twin)));
    }
    cases
}

/// Accepted command line, the text of the start line after "ready: ", and a part of its JSON.
struct Good {
    line: &'static str,
    ready: &'static str,
    json: &'static str,
}

const GOOD: &[Good] = &[
    Good {
        line: "",
        ready: "queue 0, backend raw, profile fast, copy 128 bytes, batch 64, receive buffer 67108864 bytes, \
                queue length 131072, gso on, spin 50 us, coalesce 60 us, fail closed, default accept",
        json: r#""queues":[0],"backend":"raw","profile":"fast","copy_bytes":128,"batch":64,"receive_buffer":67108864,"queue_length":131072,"gso":true,"spin_us":50,"coalesce_us":60,"fail":"closed","deadline_ms":1000,"default":"accept","contract":["#,
    },
    Good {
        line: "--queue 7:9 --backend mnl --copy-bytes 65535 --batch 1024 --receive-buffer 1048576 \
               --queue-length 1000 --gso off --spin 1000 --coalesce 1000 --default drop --fail open --stats 86400",
        ready: "queue 7:9, backend mnl, profile fast, copy 65535 bytes, batch 1024, receive buffer 1048576 bytes, \
                queue length 1000, gso off, spin 1000 us, coalesce 1000 us, fail open, default drop",
        json: r#""queues":[7,8,9],"backend":"mnl","profile":"fast","copy_bytes":65535,"batch":1024,"receive_buffer":1048576,"queue_length":1000,"gso":false,"spin_us":1000,"coalesce_us":1000,"fail":"open","deadline_ms":1000,"default":"drop","contract":["#,
    },
    Good {
        line: "--profile paper --receive-buffer 65536",
        ready: "queue 0, backend classic, profile paper, copy 65535 bytes, batch 1, receive buffer 65536 bytes, \
                queue length 1024, gso off, spin always, coalesce 0 us, fail closed, default accept",
        json: r#""backend":"classic","profile":"paper","copy_bytes":65535,"batch":1,"receive_buffer":65536,"queue_length":1024,"gso":false,"spin_us":null,"coalesce_us":0,"fail":"closed","deadline_ms":0,"default":"accept","contract":["#,
    },
    Good {
        line: "--profile paper --backend raw --batch 1 --gso on --default accept --receive-buffer 65536",
        ready: "queue 0, backend raw, profile paper, copy 65535 bytes, batch 1, receive buffer 65536 bytes, \
                queue length 1024, gso on, spin always, coalesce 0 us, fail closed, default accept",
        json: r#""backend":"raw","profile":"paper""#,
    },
    Good {
        line: "--backend classic --batch 1 --spin 0 --coalesce 0 --copy-bytes 0 --receive-buffer 65536",
        ready: "queue 0, backend classic, profile fast, copy 0 bytes, batch 1, receive buffer 65536 bytes, \
                queue length 131072, gso on, spin 0 us, coalesce 0 us, fail closed, default accept",
        json: r#""copy_bytes":0,"batch":1"#,
    },
    Good {
        line: "--queue=65535 --back=raw --receive=65536",
        ready: "queue 65535, backend raw, profile fast, copy 128 bytes, batch 64, receive buffer 65536 bytes, \
                queue length 131072, gso on, spin 50 us, coalesce 60 us, fail closed, default accept",
        json: r#""queues":[65535]"#,
    },
    Good {
        line: "--queue abc --queue 007 --queue-length 4294967295 --profile paper --profile fast --receive-buffer 65536",
        ready: "queue 7, backend raw, profile fast, copy 128 bytes, batch 64, receive buffer 65536 bytes, \
                queue length 4294967295, gso on, spin 50 us, coalesce 60 us, fail closed, default accept",
        json: r#""queues":[7]"#,
    },
];

fn good(good: &'static Good) -> Case {
    Case::new(format!("start/{}", shortened(good.line)), || {
        let arguments: Vec<&str> = good.line.split_whitespace().collect();
        for twin in TWINS {
            check_text(twin, &arguments, good.ready).with_context(|| twin.name())?;
            check_json(twin, &arguments, good.json).with_context(|| twin.name())?;
        }
        Ok(())
    })
}

/// Checks the error if memory is too small for the paper profile's buffer, which needs 4 GiB of address space: both
/// twins print the same error and advice.
fn too_little_memory() -> anyhow::Result<()> {
    let said = |twin: Twin| {
        let script = "ulimit -v 2000000 && exec \"$0\" \"$@\"";
        let output = namespace()?
            .command("sh")
            .args(["-c", script])
            .arg(twin.binary())
            .args(["--profile", "paper", "--user", USER])
            .output()?;
        let stderr = String::from_utf8(output.stderr)?;
        ensure!(
            output.status.code() == Some(1),
            "{:?}: {stderr}",
            output.status
        );
        Ok(stderr)
    };
    let [rust, c] = [said(Twin::Rust)?, said(Twin::C)?];
    ensure!(rust == c, "rust: {rust}c: {c}");
    let line = "error: 42949";
    ensure!(
        rust.starts_with(line) && rust.contains("ulimit -v") && rust.lines().count() == 1,
        "{rust}"
    );
    Ok(())
}

fn shortened(line: &str) -> &str {
    match line {
        "" => "(defaults)",
        _ => &line[..line.len().min(60)],
    }
}

fn check_text(twin: Twin, arguments: &[&str], ready: &str) -> anyhow::Result<()> {
    let firewall = Firewall::start_under(&namespace()?, &[], twin, arguments)?;
    ensure!(
        firewall.ready == format!("ready: {ready}"),
        "says {}",
        firewall.ready
    );
    let ended = firewall.end_by(libc::SIGINT)?;
    ensure!(
        ended.code == Some(0) && ended.stderr.is_empty(),
        "{:?}: {}",
        ended.code,
        ended.stderr
    );
    Ok(())
}

/// Checks that queues without a rule are reported at the start, and that none is reported if each has a rule.
fn unfed() -> anyhow::Result<()> {
    for twin in TWINS {
        let namespace = namespace()?;
        // On a busy machine fwctl may not end in time, so that the firewall does not know the rules.
        let start = |queues: &str| {
            let mut told = None;
            until("fwctl ends in time", PATIENCE, || {
                let arguments = ["--queue", queues];
                let firewall = Firewall::start_under(&namespace, &[], twin, &arguments)?;
                let contract = firewall.contract.concat();
                told = firewall.end_by(libc::SIGINT)?.unfed;
                Ok(!contract.contains("did not end in time"))
            })?;
            Ok::<_, anyhow::Error>(told)
        };
        restore(
            &namespace,
            "iptables",
            "-A OUTPUT -p udp -j NFQUEUE --queue-num 1",
        )?;
        let words = "until one does the firewall sees none of them (`fwctl doctor` names one)";
        let expected = format!("warning: no rule leads packets to queue 0, 2-3: {words}");
        let told = start("0:3")?;
        ensure!(
            told.as_ref() == Some(&expected),
            "{}: {told:?}",
            twin.name()
        );
        let told = start("1")?;
        ensure!(told.is_none(), "{}: {told:?}", twin.name());
    }
    Ok(())
}

/// Checks that a negative number in the variables for inherited descriptors counts as no descriptor.
fn no_descriptor(twin: Twin) -> anyhow::Result<()> {
    let variables = ["TWINWALL_FIGURES_FD=-1", "TWINWALL_TAKE_OVER_FD=-1"];
    let wrapper = ["env", variables[0], variables[1]];
    let namespace = namespace()?;
    let firewall = Firewall::start_under(&namespace, &wrapper, twin, &[])?;
    let ended = firewall.end_by(libc::SIGINT)?;
    ensure!(
        ended.code == Some(0) && ended.stderr.is_empty(),
        "{:?}: {}",
        ended.code,
        ended.stderr
    );
    let arguments = ["--take-over", "/nonexistent/control"];
    let ended = run_to_end(&namespace, &wrapper, twin, &arguments)?;
    let error = "error: no firewall can be reached at /nonexistent/control: ";
    ensure!(
        ended.code == Some(1) && ended.stderr.starts_with(error),
        "{:?}: {}",
        ended.code,
        ended.stderr
    );
    Ok(())
}

fn check_json(twin: Twin, arguments: &[&str], json: &str) -> anyhow::Result<()> {
    let firewall = Firewall::start(&namespace()?, twin, arguments)?;
    let start = firewall.start_line()?;
    let head = format!(
        r#"{{"event":"start","program":"{}","version":"{}","time_ms":{},"queues":["#,
        twin.program(),
        env!("CARGO_PKG_VERSION"),
        start.time_ms
    );
    ensure!(firewall.ready.starts_with(&head), "says {}", firewall.ready);
    ensure!(firewall.ready.contains(json), "says {}", firewall.ready);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)?
        .as_millis() as u64;
    ensure!(
        now.abs_diff(start.time_ms) < 60_000,
        "time_ms {} where it is {now}",
        start.time_ms
    );
    firewall.stop()?.total.check_clean()
}

/// Parses a CPU list in /proc's format: `0-2,5`.
fn cpus(list: &str) -> anyhow::Result<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<u32>()?..=last.parse()?);
    }
    Ok(cpus)
}

/// Checks that --pin binds each worker to the next of the CPUs that the process may use.
fn pin_binds_each_worker(twin: Twin) -> anyhow::Result<()> {
    let own = std::process::id();
    let cpus = cpus(&proc::status(own, own, "Cpus_allowed_list")?)?;
    let arguments = ["--queue", "0:3", "--pin", "--receive-buffer", "65536"];
    let firewall = Firewall::start(&namespace()?, twin, &arguments)?;
    let bound_to = || -> anyhow::Result<Vec<String>> {
        let workers = firewall.workers()?.into_iter();
        workers
            .map(|thread| proc::status(firewall.pid, thread, "Cpus_allowed_list"))
            .collect()
    };
    let expected: Vec<String> = cpus.iter().cycle().take(4).map(u32::to_string).collect();
    // The start line may be printed before a worker has bound itself.
    until("each worker is bound to its CPU", PATIENCE, || {
        Ok(bound_to()? == expected)
    })
    .with_context(|| {
        format!(
            "bound to {:?}, expected {expected:?}",
            bound_to().unwrap_or_default()
        )
    })?;
    firewall.stop()?.total.check_clean()
}

/// Starts and stops a firewall with 256 queues. Does this several times, because workers that end one after another
/// change the kernel's list of queues while other workers still read it.
fn many_queues(twin: Twin) -> anyhow::Result<()> {
    let arguments = ["--queue", "1000:1255", "--receive-buffer", "65536"];
    for _ in 0..5 {
        let firewall = Firewall::start(&namespace()?, twin, &arguments)?;
        let workers = firewall.workers()?.len();
        ensure!(workers == 256, "{workers} workers for 256 queues");
        let stats = firewall.stop()?;
        ensure!(
            stats.queues.len() == 256,
            "{} ledgers for 256 queues",
            stats.queues.len()
        );
        let last = stats.queues[255].queue;
        ensure!(last == Some(1255), "the last is {last:?}");
        stats.total.check_clean()?;
    }
    Ok(())
}
