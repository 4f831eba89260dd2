// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests command lines that end at once: both twins return the same exit code and the same bytes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use anyhow::{ensure, Context};
use testbed::firewall::{run_to_end, Ended};
use testbed::netns::Namespace;
use testbed::place::namespace;
use testbed::twin::{root, Twin, TWINS};
use twinwall_tests::case::Case;

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("help/is-the-text-of-cli", help_is_the_text_of_cli),
        Case::new("version/names-the-program", version_names_the_program),
    ];
    for (number, bad) in BAD.iter().enumerate() {
        let mut shown = bad.line.escape_ascii().to_string();
        shown.truncate(60);
        cases.push(Case::new(
            format!("command-line/{number:02} {shown}"),
            || check_bad(bad),
        ));
    }
    cases
}

/// A command line that is refused.
struct Bad {
    /// Arguments, separated by `|`; bytes, since arguments need not be text.
    line: &'static [u8],
    /// Text that stderr must have between "error: " and the line end; None if any text is correct that both twins share.
    error: Option<&'static str>,
}

const fn bad(line: &'static [u8], error: &'static str) -> Bad {
    Bad {
        line,
        error: Some(error),
    }
}

const fn same(line: &'static [u8]) -> Bad {
    Bad { line, error: None }
}

/// Error of --fail for a wrong value.
macro_rules! fail_expects {
    ($value:literal) => {
        concat!(
            "--fail \"",
            $value,
            "\": expected open or closed, or a list like overload=open,crash=closed of overload, stall, crash, \
             malformed, truncated and unknown"
        )
    };
}

/// Error for --metrics, an option of older releases.
const GONE: &str = "there is no option --metrics any more: twinwall-exporter --control SOCKET --listen ADDR:PORT serves the \
                    metrics";

const BAD: &[Bad] = &[
    // Arguments that are not options.
    bad(b"x", "unexpected argument \"x\": see --help"),
    bad(b"", "unexpected argument \"\": see --help"),
    bad(b"-", "unexpected argument \"-\": see --help"),
    bad(b"--|--pin", "unexpected argument \"--pin\": see --help"),
    bad(b"--pin|x", "unexpected argument \"x\": see --help"),
    bad(b"--queue|0|1", "unexpected argument \"1\": see --help"),
    bad(b"a\"b\\c", "unexpected argument \"a\\x22b\\x5cc\": see --help"),
    // Unknown options.
    bad(b"--foo", "unknown or ambiguous option --foo: see --help"),
    bad(b"--foo=3", "unknown or ambiguous option --foo: see --help"),
    bad(b"--foo|3", "unknown or ambiguous option --foo: see --help"),
    bad(b"--metrics|127.0.0.1:9630", GONE),
    bad(b"--metrics=127.0.0.1:9630", GONE),
    bad(b"--metrics", GONE),
    bad(b"--metric", "unknown or ambiguous option --metric: see --help"),
    bad(b"--queues", "unknown or ambiguous option --queues: see --help"),
    bad(b"--Queue", "unknown or ambiguous option --Queue: see --help"),
    bad(b"-x", "unknown or ambiguous option -x: see --help"),
    bad(b"-xyz", "unknown or ambiguous option -x: see --help"),
    bad(b"-q|0", "unknown or ambiguous option -q: see --help"),
    bad(b"-p", "unknown or ambiguous option -p: see --help"),
    bad(b"-queue|0", "unknown or ambiguous option -q: see --help"),
    bad(b"--foo|--help", "unknown or ambiguous option --foo: see --help"),
    bad(b"--foo|--backend|x", "unknown or ambiguous option --foo: see --help"),
    bad(b"--backend|x|--foo", "unknown or ambiguous option --foo: see --help"),
    // Ambiguous prefixes.
    bad(b"--b|raw", "unknown or ambiguous option --b: see --help"),
    bad(b"--ba=raw", "unknown or ambiguous option --ba: see --help"),
    bad(b"--q|0", "unknown or ambiguous option --q: see --help"),
    bad(b"--queu|0", "unknown or ambiguous option --queu: see --help"),
    bad(b"--p", "unknown or ambiguous option --p: see --help"),
    bad(b"--co|1", "unknown or ambiguous option --co: see --help"),
    bad(b"--s|1", "unknown or ambiguous option --s: see --help"),
    // Missing or superfluous values.
    bad(b"--queue", "option --queue needs a value: see --help"),
    bad(b"--stats", "option --stats needs a value: see --help"),
    bad(b"--back", "option --backend needs a value: see --help"),
    bad(b"--pin|--default", "option --default needs a value: see --help"),
    bad(b"--pin=1", "option --pin takes no value: see --help"),
    bad(b"--pin=", "option --pin takes no value: see --help"),
    bad(b"--pi=1", "option --pin takes no value: see --help"),
    bad(b"--json=yes", "option --json takes no value: see --help"),
    bad(b"--help=x", "option --help takes no value: see --help"),
    bad(b"--version=2", "option --version takes no value: see --help"),
    // --queue.
    bad(b"--queue|abc", "--queue \"abc\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue=", "--queue \"\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue=-1", "--queue \"-1\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue|-1", "--queue \"-1\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue|--pin", "--queue \"--pin\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue|65536", "--queue \"65536\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue|3:2", "--queue \"3:2\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue|0:256", "--queue \"0:256\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue|65535:65536", "--queue \"65535:65536\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue|1:", "--queue \"1:\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue|:1", "--queue \":1\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue|:", "--queue \":\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue|0:1:2", "--queue \"0:1:2\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue|0-3", "--queue \"0-3\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--queue| 1", "--queue \" 1\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    // Words.
    bad(b"--backend|x", "--backend \"x\": expected classic, mnl or raw"),
    bad(b"--backend|RAW", "--backend \"RAW\": expected classic, mnl or raw"),
    bad(b"--backend|ra", "--backend \"ra\": expected classic, mnl or raw"),
    bad(b"--backend=", "--backend \"\": expected classic, mnl or raw"),
    bad(b"--profile|slow", "--profile \"slow\": expected fast or paper"),
    bad(b"--gso|yes", "--gso \"yes\": expected on or off"),
    bad(b"--gso|ON", "--gso \"ON\": expected on or off"),
    bad(b"--default|reject", "--default \"reject\": expected accept or drop"),
    bad(b"--undecided|reject", "--undecided \"reject\": expected accept, drop, or accept:BYTES with at least 1024"),
    bad(b"--undecided|accept:", "--undecided \"accept:\": expected accept, drop, or accept:BYTES with at least 1024"),
    bad(b"--undecided|accept:1023", "--undecided \"accept:1023\": expected accept, drop, or accept:BYTES with at least 1024"),
    bad(b"--undecided|accept:4294967296", "--undecided \"accept:4294967296\": expected accept, drop, or accept:BYTES with at least 1024"),
    bad(b"--undecided|drop:8192", "--undecided \"drop:8192\": expected accept, drop, or accept:BYTES with at least 1024"),
    bad(b"--fail|half", fail_expects!("half")),
    bad(b"--fail=", fail_expects!("")),
    bad(b"--fail|open,closed", fail_expects!("open,closed")),
    bad(b"--fail|overload=half", fail_expects!("overload=half")),
    bad(b"--fail|overload", fail_expects!("overload")),
    bad(b"--fail|=open", fail_expects!("=open")),
    bad(b"--fail|stall=open,", fail_expects!("stall=open,")),
    bad(b"--fail|,stall=open", fail_expects!(",stall=open")),
    bad(b"--fail|stall,x=open", fail_expects!("stall,x=open")),
    bad(b"--fail|stall=open=open", fail_expects!("stall=open=open")),
    bad(b"--fail|Stall=open", fail_expects!("Stall=open")),
    bad(
        b"--fail|crash=open,stall=open,crash=open",
        "--fail \"crash=open,stall=open,crash=open\": crash is given twice: leave one out",
    ),
    bad(b"--log-level|loud", "--log-level \"loud\": expected error, warning, info or debug"),
    bad(b"--sandbox|yes", "--sandbox \"yes\": expected on or off"),
    bad(b"--user=", "--user \"\": expected a user's name"),
    bad(b"--user|\xff", "--user \"\\xff\": expected a user's name"),
    bad(b"guard", "unexpected argument \"guard\": see --help"),
    // Numbers below and above the limits, and invalid numbers.
    bad(b"--copy-bytes|65536", "--copy-bytes \"65536\": expected a whole number from 0 to 65535"),
    bad(b"--copy-bytes|1k", "--copy-bytes \"1k\": expected a whole number from 0 to 65535"),
    bad(b"--batch|0", "--batch \"0\": expected a whole number from 1 to 1024"),
    bad(b"--batch|1025", "--batch \"1025\": expected a whole number from 1 to 1024"),
    bad(b"--batch|+1", "--batch \"+1\": expected a whole number from 1 to 1024"),
    bad(b"--batch|1.0", "--batch \"1.0\": expected a whole number from 1 to 1024"),
    bad(b"--receive-buffer|1073741824", "--receive-buffer \"1073741824\": expected a whole number from 0 to 1073741823"),
    bad(b"--receive-buffer|0x10", "--receive-buffer \"0x10\": expected a whole number from 0 to 1073741823"),
    bad(b"--queue-length|0", "--queue-length \"0\": expected a whole number from 1 to 4294967295"),
    bad(b"--queue-length|4294967296", "--queue-length \"4294967296\": expected a whole number from 1 to 4294967295"),
    bad(
        b"--queue-length|99999999999999999999999999",
        "--queue-length \"99999999999999999999999999\": expected a whole number from 1 to 4294967295",
    ),
    bad(b"--spin|1001", "--spin \"1001\": expected a whole number from 0 to 1000"),
    bad(b"--spi|-5", "--spin \"-5\": expected a whole number from 0 to 1000"),
    bad(b"--coalesce|1001", "--coalesce \"1001\": expected a whole number from 0 to 1000"),
    bad(b"--coalesce| 5", "--coalesce \" 5\": expected a whole number from 0 to 1000"),
    bad(b"--stats|0", "--stats \"0\": expected a whole number from 1 to 86400"),
    bad(b"--stats|86401", "--stats \"86401\": expected a whole number from 1 to 86400"),
    bad(b"--stats|5 ", "--stats \"5 \": expected a whole number from 1 to 86400"),
    bad(b"--deadline|9", "--deadline \"9\": expected 0 or a whole number from 10 to 60000"),
    bad(b"--deadline|60001", "--deadline \"60001\": expected 0 or a whole number from 10 to 60000"),
    bad(b"--deadline|1s", "--deadline \"1s\": expected 0 or a whole number from 10 to 60000"),
    bad(b"--learned|63", "--learned \"63\": expected a whole number from 64 to 1048576"),
    bad(b"--learned|1048577", "--learned \"1048577\": expected a whole number from 64 to 1048576"),
    bad(b"--events|x|--events-rate|0", "--events-rate \"0\": expected a whole number from 1 to 1000000"),
    bad(b"--events|x|--events-rate|1000001", "--events-rate \"1000001\": expected a whole number from 1 to 1000000"),
    bad(b"--control|x|--control-mode|8", "--control-mode \"8\": expected an octal mode from 0 to 0777"),
    bad(b"--control|x|--control-mode|1000", "--control-mode \"1000\": expected an octal mode from 0 to 0777"),
    bad(b"--control|x|--control-mode|00600", "--control-mode \"00600\": expected an octal mode from 0 to 0777"),
    bad(b"--control|x|--control-mode| 600", "--control-mode \" 600\": expected an octal mode from 0 to 0777"),
    // Addresses, paths and users.
    bad(b"--events=", "--events \"\": expected a file, - or unix:PATH of at most 107 bytes"),
    bad(b"--events|unix:", "--events \"unix:\": expected a file, - or unix:PATH of at most 107 bytes"),
    bad(b"--events|\xff", "--events \"\\xff\": expected a file, - or unix:PATH of at most 107 bytes"),
    same(concat!("--events|unix:", "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789", "01234567").as_bytes()),
    bad(b"--control=", "--control \"\": expected a path of 1 to 107 bytes"),
    bad(b"--control|\xff", "--control \"\\xff\": expected a path of 1 to 107 bytes"),
    bad(b"--take-over=", "--take-over \"\": expected a path of 1 to 107 bytes"),
    bad(b"--control|x|--control-owner=", "--control-owner \"\": expected USER or USER:GROUP"),
    bad(b"--control|x|--control-owner|:adm", "--control-owner \":adm\": expected USER or USER:GROUP"),
    bad(b"--control|x|--control-owner|root:", "--control-owner \"root:\": expected USER or USER:GROUP"),
    bad(b"--control|x|--control-owner|a:b:c", "--control-owner \"a:b:c\": expected USER or USER:GROUP"),
    // Options without a meaning on their own.
    bad(
        b"--events-rate|5",
        "--events-rate has no meaning without --events: add --events or leave it out",
    ),
    bad(
        b"--control-mode|600",
        "--control-mode has no meaning without --control: add --control or leave it out",
    ),
    bad(
        b"--control-owner|root",
        "--control-owner has no meaning without --control: add --control or leave it out",
    ),
    // The last occurrence counts, and values are checked in the order of the help text.
    bad(b"--backend|x|--backend|y", "--backend \"y\": expected classic, mnl or raw"),
    bad(b"--stats|0|--queue|abc", "--queue \"abc\": expected N or N:M, 0 <= N <= M <= 65535, at most 256 queues"),
    bad(b"--fail|x|--gso|x|--batch|x", "--batch \"x\": expected a whole number from 1 to 1024"),
    // Escaping of values in messages.
    bad(b"--backend|a\nb\xff\"\\", "--backend \"a\\x0ab\\xff\\x22\\x5c\": expected classic, mnl or raw"),
    bad(b"--gso|\xc3\xa4", "--gso \"\\xc3\\xa4\": expected on or off"),
    same(b"--backend|0123456789012345678901234567890123456789012345678901234567890123456789"),
    same(b"--backend|012345678901234567890123456789012345678901234567890123456789012\xff\xff\xff"),
    same(b"0123456789012345678901234567890123456789012345678901234567890123456789"),
    same(b"--f\xffoo"),
    same(b"-\xff"),
    // The profile paper.
    bad(
        b"--profile|paper|--default|drop",
        "--profile paper accepts every packet: leave --default out or use --profile fast",
    ),
    bad(b"--profile|paper|--batch|2", "--profile paper fixes --batch: leave it out or use --profile fast"),
    bad(b"--profile|paper|--spin|0", "--profile paper fixes --spin: leave it out or use --profile fast"),
    bad(b"--profile|paper|--coalesce|0", "--profile paper fixes --coalesce: leave it out or use --profile fast"),
    bad(
        b"--coalesce|1|--spin|1|--profile|paper",
        "--profile paper fixes --spin: leave it out or use --profile fast",
    ),
    bad(
        b"--profile|paper|--coalesce|1|--spin|1|--batch|64",
        "--profile paper fixes --batch: leave it out or use --profile fast",
    ),
    bad(
        b"--profile|paper|--policy|x",
        "--profile paper accepts every packet: leave --policy out or use --profile fast",
    ),
    bad(
        b"--profile|paper|--events|-",
        "--profile paper does without --events: leave it out or use --profile fast",
    ),
    bad(b"--profile|paper|--events|-", "--profile paper does without --events: leave it out or use --profile fast"),
    bad(b"--profile|paper|--control|x", "--profile paper does without --control: leave it out or use --profile fast"),
    bad(b"--profile|paper|--take-over|x", "--profile paper does without --take-over: leave it out or use --profile fast"),
    same(b"--profile|paper|--default|drop|--spin|3"),
    same(b"--profile|paper|--spin|3|--stats|0"),
    same(b"--profile|paper|--batch|x"),
    // Policies.
    bad(b"--malformed|fail", "--malformed has no meaning without a policy: add --policy or leave it out"),
    bad(b"--conntrack|mark", "--conntrack has no meaning without a policy: add --policy or leave it out"),
    bad(b"--learned|64", "--learned has no meaning without a policy: add --policy or leave it out"),
    bad(b"--stage|0xffff0000", "--stage has no meaning without a policy: add --policy or leave it out"),
    bad(b"--settled|0x80000000", "--settled has no meaning without a policy: add --policy or leave it out"),
    bad(b"--policy|x|--malformed|open", "--malformed \"open\": expected fail or policy"),
    bad(b"--policy|x|--conntrack|on", "--conntrack \"on\": expected auto, attribute or mark"),
    bad(b"--pol", "option --policy needs a value: see --help"),
    bad(b"--c|1", "unknown or ambiguous option --c: see --help"),
    bad(b"--policy|a\xffb", "\"a\\xffb\": expected a path in UTF-8"),
    // check.
    bad(b"check", "check needs a policy: see --help"),
    bad(b"--json|check|x", "unexpected argument \"check\": see --help"),
    bad(b"checks|x", "unexpected argument \"checks\": see --help"),
    bad(b"check|a|b", "unexpected argument \"b\": see --help"),
    bad(b"check|a|b|--foo", "unknown or ambiguous option --foo: see --help"),
    bad(b"check|--print=yes|a", "option --print takes no value: see --help"),
    bad(b"check|--queue|1|a", "unknown or ambiguous option --queue: see --help"),
    bad(b"check|--json|a", "unknown or ambiguous option --json: see --help"),
    bad(b"check|--|--print|--print", "unexpected argument \"--print\": see --help"),
    bad(b"check|-p", "unknown or ambiguous option -p: see --help"),
    bad(b"check|\xff", "\"\\xff\": expected a path in UTF-8"),
    // explain.
    bad(b"explain", "explain needs a policy and a capture: see --help"),
    bad(b"explain|a", "explain needs a policy and a capture: see --help"),
    bad(b"explain|a|b|c", "unexpected argument \"c\": see --help"),
    bad(b"explain|a|--hook|x|b", "--hook \"x\": expected input, output, forward, prerouting or postrouting"),
    bad(b"explain|a|b|--default|reject", "--default \"reject\": expected accept or drop"),
    bad(b"explain|a|b|--fail|half", fail_expects!("half")),
    bad(b"explain|a|b|--fail|malformed=open,malformed=open", "--fail \
     \"malformed=open,malformed=open\": malformed is given twice: leave one out"),
    bad(b"explain|a|b|--malformed|x|--fail|y", "--malformed \"x\": expected fail or policy"),
    bad(b"explain|a|b|--deadline|0", "unknown or ambiguous option --deadline: see --help"),
    bad(b"explain|a|b|--control|x", "unknown or ambiguous option --control: see --help"),
    bad(b"check|--sandbox|off|a", "unknown or ambiguous option --sandbox: see --help"),
    bad(b"explain|a|b|--iif=", "--iif \"\": expected an interface name of 1 to 15 bytes of UTF-8"),
    bad(b"explain|a|b|--oif|1234567890123456", "--oif \"1234567890123456\": expected an interface name of 1 to 15 bytes of UTF-8"),
    bad(b"explain|a|b|--mark|0x", "--mark \"0x\": expected a number from 0 to 4294967295, decimal or 0x hexadecimal"),
    bad(
        b"explain|a|b|--mark|0x100000000",
        "--mark \"0x100000000\": expected a number from 0 to 4294967295, decimal or 0x hexadecimal",
    ),
    bad(b"explain|a|b|--ct-mark|-1", "--ct-mark \"-1\": expected a number from 0 to 4294967295, decimal or 0x hexadecimal"),
    bad(b"explain|a|b|--uid|4294967295", "--uid \"4294967295\": expected a whole number from 0 to 4294967294"),
    bad(b"explain|a|b|--gid|root", "--gid \"root\": expected a whole number from 0 to 4294967294"),
    bad(b"explain|a|b|--ct-state|new,", "--ct-state \"new,\": expected new, established, related, invalid or untracked"),
    bad(b"explain|a|b|--ct|new", "unknown or ambiguous option --ct: see --help"),
    bad(b"explain|a|b|--stats|1", "unknown or ambiguous option --stats: see --help"),
    bad(b"explain|a|\xfe", "\"\\xfe\": expected a path in UTF-8"),
];

/// Returns a namespace for command lines: should one be accepted, it uses no queue of the machine. Without the right to
/// create a namespace, returns that of this process.
fn place() -> Namespace {
    namespace().unwrap_or_else(|_| Namespace::host())
}

fn run(twin: Twin, line: &[u8]) -> anyhow::Result<Ended> {
    let arguments: Vec<&OsStr> = line
        .split(|byte| *byte == b'|')
        .map(OsStr::from_bytes)
        .collect();
    run_to_end(&place(), &[], twin, &arguments).with_context(|| twin.name())
}

fn check_bad(bad: &Bad) -> anyhow::Result<()> {
    let [rust, c] = [run(Twin::Rust, bad.line)?, run(Twin::C, bad.line)?];
    ensure!(
        rust.stderr == c.stderr && rust.code == c.code,
        "rust ({:?}): {}c ({:?}): {}",
        rust.code,
        rust.stderr,
        c.code,
        c.stderr
    );
    ensure!(
        rust.code == Some(2),
        "exit code {:?}: {}",
        rust.code,
        rust.stderr
    );
    ensure!(
        rust.lines.is_empty() && c.lines.is_empty(),
        "something is on stdout: {:?}",
        rust.lines
    );
    match bad.error {
        Some(error) => ensure!(
            rust.stderr == format!("error: {error}\n"),
            "both say: {}",
            rust.stderr
        ),
        None => {
            let line = rust
                .stderr
                .strip_prefix("error: ")
                .and_then(|text| text.strip_suffix('\n'));
            let line = line.with_context(|| format!("not an error line: {}", rust.stderr))?;
            ensure!(
                line.bytes().all(|byte| (0x20..0x7f).contains(&byte)),
                "not one line of ASCII: {line:?}"
            );
        }
    }
    Ok(())
}

fn help_is_the_text_of_cli() -> anyhow::Result<()> {
    let text = fs::read_to_string(root().join("cli/help.txt"))?;
    for twin in TWINS {
        // --help acts when it is parsed: earlier arguments must be well-formed, later arguments are ignored.
        for line in [
            "--help",
            "-h",
            "--pin|--help|--foo",
            "--queue|abc|-h",
            "-hV",
            "--help|-x",
            "check|--help",
            "explain|a|b|c|-h",
        ] {
            let ended = run(twin, line.as_bytes())?;
            ensure!(
                ended.code == Some(0),
                "{} {line}: exit code {:?}",
                twin.name(),
                ended.code
            );
            ensure!(
                ended.stderr.is_empty(),
                "{} {line}: {}",
                twin.name(),
                ended.stderr
            );
            let said = ended
                .lines
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>();
            ensure!(said == text, "{} {line} says {said}", twin.name());
        }
    }
    Ok(())
}

fn version_names_the_program() -> anyhow::Result<()> {
    for twin in TWINS {
        for line in [
            "--version",
            "-V",
            "--v",
            "--stats|0|-V",
            "-Vx",
            "--version|x",
        ] {
            let ended = run(twin, line.as_bytes())?;
            ensure!(
                ended.code == Some(0),
                "{} {line}: exit code {:?}",
                twin.name(),
                ended.code
            );
            let expected = [format!("{} {}", twin.program(), env!("CARGO_PKG_VERSION"))];
            ensure!(
                ended.lines == expected,
                "{} {line} says {:?}",
                twin.name(),
                ended.lines
            );
        }
    }
    Ok(())
}
