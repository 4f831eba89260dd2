// SPDX-License-Identifier: GPL-2.0-or-later
//! Defines and runs cases.
//!
//! The program starts itself again for each case, with the case's name in the environment, and waits for it within the
//! time limit of the part's cases, which follows from `tests/parts`. Processes of a case die with it (PR_SET_PDEATHSIG of
//! `Namespace::command`); a process below a tracer or a wrapper is in the case's process group, which is killed as a
//! whole at the end.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use testbed::skip::Skip;
use testbed::twin::{Twin, TWINS};
use testbed::wait::pause_for;

/// Environment variable with the name of the case that this process must run.
const CASE_VARIABLE: &str = "TWINWALL_CASE";
/// Table of the parts with their durations in seconds, from which all time limits follow.
const TABLE: &str = include_str!("../parts");
/// Time limit of each case as a multiple of its part's duration. It is half the part's limit, so that the report names the
/// hung case, and far longer than any case takes.
const PATIENCE: u32 = 5;
/// Exit code of a case that could not run here.
const SKIPPED: u8 = 77;

/// Test: its name, and a body that fails, skips itself with [`testbed::skip::skip`], or passes.
pub struct Case {
    name: String,
    body: Box<dyn FnOnce() -> anyhow::Result<()> + Send>,
}

impl Case {
    /// Creates a case. It is killed and fails at the limit of its part's cases.
    pub fn new(
        name: impl Into<String>,
        body: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
    ) -> Case {
        Case {
            name: name.into(),
            body: Box::new(body),
        }
    }
}

/// A case that runs with each twin: its name, and its body.
pub type Row = (&'static str, fn(Twin) -> anyhow::Result<()>);

/// Returns a case of each row for each twin, named `TWIN/NAME`.
pub fn for_each_twin(rows: &[Row]) -> Vec<Case> {
    let case = |twin: Twin, (name, body): Row| {
        Case::new(format!("{}/{name}", twin.name()), move || body(twin))
    };
    let of_twin = |twin| rows.iter().map(move |row| case(twin, *row));
    TWINS.into_iter().flat_map(of_twin).collect()
}

/// Cases about one topic. Their names begin with the part's name and a slash.
pub struct Part {
    name: &'static str,
    cases: fn() -> Vec<Case>,
}

impl Part {
    /// Creates a part whose cases are listed on request, since that may require reading files.
    pub const fn new(name: &'static str, cases: fn() -> Vec<Case>) -> Part {
        Part { name, cases }
    }

    /// Returns the text after the part's name in the name of a case or in a filter; None if it refers to another part.
    fn rest<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.strip_prefix(self.name)?.strip_prefix('/')
    }

    /// Returns the time limit of each case of the part. Some parts run in the virtual machine only.
    fn limit(&self) -> Duration {
        let seconds = seconds_of(TABLE, self.name)
            .or_else(|| seconds_of(TABLE, &format!("vm {}", self.name)))
            .expect("each part has a line in tests/parts");
        Duration::from_secs(seconds) * PATIENCE
    }
}

/// Returns the duration of a part in seconds: the third word of its line, whose rest is its name.
fn seconds_of(table: &str, part: &str) -> Option<u64> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find_map(|words| match words.as_slice() {
            [_, _, seconds, name @ ..] if name.join(" ") == part => seconds.parse().ok(),
            _ => None,
        })
}

/// Runs the cases like libtest, or the case that the environment names: the `main` of an integration program. A filter
/// `PART/WORDS` selects the cases of that part whose names contain the words. Fails if no case remains: such a filter
/// is a mistake.
pub fn run(parts: &[Part]) -> ExitCode {
    if let Ok(name) = std::env::var(CASE_VARIABLE) {
        std::env::remove_var(CASE_VARIABLE);
        return run_here(named(parts, &name).expect("the case that the environment names"));
    }
    let mut arguments = Arguments::from_args();
    let asked = match arguments.exact {
        true => None,
        false => arguments.filter.as_deref(),
    };
    let (cases, of_part) = chosen(parts, asked);
    if of_part {
        arguments.filter = None;
    }
    let trials = cases.into_iter().map(|(name, limit)| {
        Trial::ignorable_test(name.clone(), move || run_as_process(&name, limit))
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    let ran = conclusion.num_passed + conclusion.num_failed + conclusion.num_ignored;
    if ran == 0 && !arguments.list {
        eprintln!("no case to run");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

/// Returns a case by its whole name. Creates only the cases of the part in this name.
fn named(parts: &[Part], name: &str) -> Option<Case> {
    let (part, rest) = parts
        .iter()
        .find_map(|part| Some((part, part.rest(name)?)))?;
    (part.cases)().into_iter().find(|case| case.name == rest)
}

/// Returns the full names and time limits of the cases that a filter may select, and a flag. The flag is true for a
/// filter `PART/WORDS`: then the cases are already filtered.
fn chosen(parts: &[Part], filter: Option<&str>) -> (Vec<(String, Duration)>, bool) {
    let all = |part: &Part, words: &str| {
        let cases = (part.cases)().into_iter();
        let left = cases.filter(|case| case.name.contains(words));
        let limit = part.limit();
        left.map(|case| (format!("{}/{}", part.name, case.name), limit))
            .collect::<Vec<_>>()
    };
    let asked = parts
        .iter()
        .find_map(|part| Some((part, part.rest(filter?)?)));
    match asked {
        Some((part, words)) => (all(part, words), true),
        None => (parts.iter().flat_map(|part| all(part, "")).collect(), false),
    }
}

fn run_here(case: Case) -> ExitCode {
    let Err(error) = (case.body)() else {
        return ExitCode::SUCCESS;
    };
    match error.downcast_ref::<Skip>() {
        Some(Skip(reason)) => {
            eprint!("{reason}");
            ExitCode::from(SKIPPED)
        }
        None => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_as_process(name: &str, limit: Duration) -> Result<Completion, Failed> {
    let mut command = Command::new("/proc/self/exe");
    command
        .env(CASE_VARIABLE, name)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0);
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(
            || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            },
        )
    };
    let mut child = command.spawn()?;
    let mut stderr = child.stderr.take().expect("stderr is piped");
    let words = thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr
            .read_to_end(&mut bytes)
            .map(|_| String::from_utf8_lossy(&bytes).into_owned())
    });
    let finished = ends_within(&child, limit);
    // Remaining processes of the case end with it. The child is not reaped yet, so its process id is still that of its
    // group.
    // SAFETY: kill(2) touches no memory.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    let status = child.wait()?;
    let words = words.join().expect("the reader of stderr does not panic")?;
    let _ = std::io::stdout().flush();
    if !finished {
        return Err(format!("{words}\nnot finished after {} s", limit.as_secs()).into());
    }
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(Completion::Completed),
        (Some(code), _) if code == i32::from(SKIPPED) => Ok(Completion::ignored_with(words)),
        (_, Some(signal)) => Err(format!("{words}\nended by signal {signal}").into()),
        _ => Err(words.into()),
    }
}

/// Waits for a child's end without reaping it; returns false if it still runs after the limit.
fn ends_within(child: &Child, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        // SAFETY: siginfo_t is plain data, for which all zeros is valid and which waitid(2) fills in.
        let ended = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            libc::waitid(libc::P_PID, child.id(), &mut info, options) == 0 && info.si_pid() != 0
        };
        if ended || Instant::now() > end {
            return ended;
        }
        pause_for(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [Part; 2] = [Part::new("netns", cases), Part::new("policy", cases)];

    fn cases() -> Vec<Case> {
        let case = |name| Case::new(name, || Ok(()));
        ["rust/net/policy", "c/other"].map(case).into()
    }

    fn names(filter: Option<&str>) -> (Vec<String>, bool) {
        let (cases, of_part) = chosen(&PARTS, filter);
        (cases.into_iter().map(|(name, _)| name).collect(), of_part)
    }

    #[test]
    fn a_filter_that_names_a_part_leaves_no_other() {
        let both = ["policy/rust/net/policy", "policy/c/other"];
        assert_eq!(
            names(Some("policy/")),
            (both.map(str::to_owned).into(), true)
        );
        assert_eq!(
            names(Some("netns/policy")),
            (vec!["netns/rust/net/policy".to_owned()], true)
        );
        assert_eq!(names(Some("policy/none")), (vec![], true));
    }

    #[test]
    fn another_filter_is_for_the_runner() {
        for filter in [None, Some("policy"), Some("rust/net"), Some("nets/")] {
            let (names, of_part) = names(filter);
            assert_eq!((names.len(), of_part), (4, false), "{filter:?}");
        }
    }

    #[test]
    fn a_part_has_its_seconds_by_its_whole_name() {
        let table = "# test live 9 net\n\ntest  live  30  net\nlong  waits  7 net long\n";
        assert_eq!(seconds_of(table, "net"), Some(30));
        assert_eq!(seconds_of(table, "net long"), Some(7));
        assert_eq!(seconds_of(table, "ne"), None);
        assert_eq!(PARTS.map(|part| part.limit().as_secs() % 5), [0, 0]);
    }

    #[test]
    fn a_case_is_found_by_its_whole_name() {
        assert!(named(&PARTS, "netns/c/other").is_some());
        assert!(named(&PARTS, "c/other").is_none());
        assert!(named(&PARTS, "netns/c/oth").is_none());
    }
}
