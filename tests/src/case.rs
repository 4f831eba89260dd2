// SPDX-License-Identifier: GPL-2.0-or-later
//! Cases, and how they are run.
//!
//! The program starts itself again for each case, with the case's name in the environment, and waits for it within
//! the case's time limit. What a case starts dies with it (PR_SET_PDEATHSIG of `Namespace::command`); what a tracer or
//! a wrapper stands between is in the case's process group, which is killed as a whole at the end.

use std::fmt;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::twin::{Twin, TWINS};

/// Names the case that this process is to run.
const CASE_VARIABLE: &str = "TWINWALL_CASE";
/// The exit code of a case that could not be run here.
const SKIPPED: u8 = 77;

/// One test: its name, and a body that fails, skips itself with [`skip`], or passes.
pub struct Case {
    name: String,
    limit: Duration,
    body: Box<dyn FnOnce() -> anyhow::Result<()> + Send>,
}

impl Case {
    /// A case that is killed, and fails, after `limit_s` seconds.
    pub fn new(
        name: impl Into<String>,
        limit_s: u64,
        body: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
    ) -> Case {
        Case {
            name: name.into(),
            limit: Duration::from_secs(limit_s),
            body: Box::new(body),
        }
    }
}

/// A case that is made for each twin: its name, its limit in seconds, and its body.
pub type Row = (&'static str, u64, fn(Twin) -> anyhow::Result<()>);

/// The cases of rows, `TWIN/NAME`.
pub fn for_each_twin(rows: &[Row]) -> Vec<Case> {
    let case = |twin: Twin, (name, limit_s, body): Row| {
        Case::new(format!("{}/{name}", twin.name()), limit_s, move || {
            body(twin)
        })
    };
    let of_twin = |twin| rows.iter().map(move |row| case(twin, *row));
    TWINS.into_iter().flat_map(of_twin).collect()
}

#[derive(Debug)]
struct Skip(String);

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

/// What a body gives when the machine or its kernel lacks something: the case counts as skipped, with the reason.
pub fn skip(reason: impl Into<String>) -> anyhow::Error {
    // One line, since it is printed in one.
    anyhow::Error::new(Skip(reason.into().replace('\n', " ")))
}

/// The whole `main` of an integration program: runs the cases as libtest would, or the one that the environment names.
pub fn run(cases: Vec<Case>) -> ExitCode {
    if let Some(name) = std::env::var_os(CASE_VARIABLE) {
        std::env::remove_var(CASE_VARIABLE);
        let case = cases.into_iter().find(|case| *case.name == *name);
        return run_here(case.expect("the case that the environment names"));
    }
    let trials = cases.into_iter().map(|case| {
        let Case { name, limit, .. } = case;
        Trial::ignorable_test(name.clone(), move || run_as_process(&name, limit))
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
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
    // What is still there of the case goes with it. The child is not reaped yet, so its number is still its group's.
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

/// Waits for a child's end and leaves it to be reaped; false if it still runs after the limit.
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
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a child; None if it still runs after the limit.
pub fn wait_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(5)),
            _ => return None,
        }
    }
}

/// How long what must come may take: far longer than it ever does, since a busy machine gives a process no time for
/// whole seconds, and a test that passes does not wait for it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `condition` gives true; fails with `what` if it has not within the limit.
pub fn until(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let end = Instant::now() + limit;
    while !condition()? {
        if Instant::now() > end {
            anyhow::bail!("waited {} ms in vain: {what}", limit.as_millis());
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
