// SPDX-License-Identifier: GPL-2.0-or-later
//! The virtual machine of `vm/run`, with a kernel that checks its memory as well as Debian's can.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{bail, Context};
use testbed::skip::skip;
use testbed::twin::root;

/// Modules, which are also the prefixes of their tests.
pub const SUITES: [&str; 3] = ["echo", "message", "twinring"];
/// Exit codes of `vm/run` where it can't run, if the machine broke, and if it took too long.
pub const CANNOT_RUN: i32 = 77;
const BROKEN: i32 = 125;
const TIMED_OUT: i32 = 124;
/// Kernel options: redzones, poison and consistency checks of all slabs.
const KERNEL_LINE: &str = "slub_debug=FZPU";
/// Kernel options for a module that may hang a processor: 20 s of that end the machine. On a busy host that could be a false
/// alarm.
const FRAGILE_KERNEL_LINE: &str = "slub_debug=FZPU softlockup_panic=1";
const SECONDS: &str = "1200";

fn kernel(name: &str) -> PathBuf {
    root().join("build/kernel").join(name)
}

/// Returns the modules with a flaw, by file name.
pub fn flaws() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for module in SUITES {
        let header = root().join("kernel").join(module).join("flaw.h");
        let text =
            std::fs::read_to_string(&header).with_context(|| header.display().to_string())?;
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("    FLAW_"));
        let flaws = lines.filter_map(|line| line.split_once(',').map(|parts| parts.0));
        let flaws = flaws.filter(|flaw| *flaw != "NONE");
        names.extend(flaws.map(|flaw| format!("{module}_{}", flaw.to_lowercase())));
    }
    Ok(names)
}

/// Returns the folder of the headers for the most common kernel.
pub fn headers() -> anyhow::Result<String> {
    headers_of("cloud")
}

/// Returns the same for a flavour of Debian's kernel.
pub fn headers_of(flavour: &str) -> anyhow::Result<String> {
    let headers = Command::new(root().join("vm/run"))
        .args(["--flavour", flavour, "--headers"])
        .stderr(Stdio::piped())
        .output()?;
    if headers.status.code() == Some(CANNOT_RUN) {
        return Err(skip(String::from_utf8_lossy(&headers.stderr)));
    }
    Ok(String::from_utf8(headers.stdout)?)
}

/// Builds the modules, those with a flaw, and the programs of the machine.
pub fn build() -> anyhow::Result<()> {
    make(&["flaws", "guest", "pcap"])
}

/// Builds the modules and further targets below build/kernel. Parallel cases wait here.
pub fn make(targets: &[impl AsRef<str>]) -> anyhow::Result<()> {
    headers()?;
    std::fs::create_dir_all(kernel(""))?;
    let output = Command::new("flock")
        .arg(kernel("lock"))
        .args(["make", "--no-print-directory", "-C"])
        .arg(root().join("kernel"))
        .arg(format!("BUILD={}", kernel("").display()))
        .arg("modules")
        .args(targets.iter().map(|target| match target.as_ref() {
            file if file.contains('/') => kernel(file).display().to_string(),
            name => name.to_owned(),
        }))
        .env_remove("MAKEFLAGS")
        .output()?;
    if !output.status.success() {
        bail!("make: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// A machine that runs `guest/suite`.
pub struct Machine {
    command: Command,
    suite: PathBuf,
}

/// Output of a machine, from its start to its end.
pub struct Run {
    output: String,
    modules: Vec<String>,
    code: Option<i32>,
}

impl Machine {
    pub fn new() -> Machine {
        Machine::with(KERNEL_LINE)
    }

    /// Returns a machine for modules that are known to be broken.
    pub fn fragile() -> Machine {
        Machine::with(FRAGILE_KERNEL_LINE)
    }

    fn with(kernel_line: &str) -> Machine {
        let suite = root().join("tests/live/kernel/guest/suite");
        let mut command = Command::new(root().join("vm/run"));
        command
            .args(["--module", "brd", "--memory", "512"])
            .args(["--append", kernel_line, "--timeout", SECONDS])
            .arg("--file")
            .arg(&suite)
            .arg("--file")
            .arg(kernel("guest"));
        Machine { command, suite }
    }

    /// Loads modules, one after another, each with the tests whose names have the given prefix.
    pub fn run(self, runs: &[(&str, &str)]) -> anyhow::Result<Run> {
        let steps = runs.iter().map(|(module, prefix)| {
            let (suite, module) = (self.suite.display(), kernel(module));
            format!("echo begin {0}; {suite} {0} {prefix}", module.display())
        });
        let script = steps.collect::<Vec<String>>().join("; ");
        let modules = runs.iter().map(|run| run.0.to_owned()).collect();
        self.finish(modules, &script)
    }

    pub fn load_often(self, modules: &[String]) -> anyhow::Result<Run> {
        let files = modules
            .iter()
            .map(|module| kernel(module).display().to_string());
        let files = files.collect::<Vec<String>>().join(" ");
        let script = format!("{} loads {files}", self.suite.display());
        self.finish(modules.to_vec(), &script)
    }

    fn finish(mut self, modules: Vec<String>, script: &str) -> anyhow::Result<Run> {
        let first = modules.first().context("a module")?.replace('/', "-");
        let console = kernel(&format!("console-{first}"));
        self.command.arg("--console").arg(console);
        for module in &modules {
            self.command.arg("--file").arg(kernel(module));
        }
        let output = self.command.args(["--", "sh", "-c", script]).output()?;
        let code = output.status.code();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        match code {
            Some(CANNOT_RUN) => return Err(skip(words)),
            Some(0 | 1 | BROKEN | TIMED_OUT) => {}
            _ => bail!("vm/run: {words}"),
        }
        let output = String::from_utf8_lossy(&output.stdout).into_owned() + &words;
        Ok(Run {
            output,
            modules,
            code,
        })
    }
}

impl Run {
    pub fn passed(&self) -> bool {
        self.code == Some(0) && self.output.contains("\ndone")
    }

    /// Returns all lines except those of passed tests.
    pub fn findings(&self) -> String {
        let lines = self.output.lines().filter(|line| !line.starts_with("ok "));
        format!(
            "{}\nexit code {:?}",
            lines.collect::<Vec<&str>>().join("\n"),
            self.code
        )
    }

    /// Returns the modules without a failed test or a kernel message.
    pub fn modules_without_findings(&self) -> Vec<&str> {
        let quiet = |module: &&String| {
            let begin = format!("begin {}", kernel(module).display());
            let said = self.output.split(&begin).nth(1).unwrap_or_default();
            let said = said.split("\nbegin ").next().unwrap_or_default();
            let stopped = !said.contains("\ndone");
            !stopped && !said.contains("FAIL") || !self.output.contains(&begin)
        };
        self.modules
            .iter()
            .filter(quiet)
            .map(String::as_str)
            .collect()
    }
}
