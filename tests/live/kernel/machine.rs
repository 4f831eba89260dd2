// SPDX-License-Identifier: GPL-2.0-or-later
//! Virtual machine of `vm/run`, whose kernel checks its memory as far as Debian's kernel can.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{bail, Context};
use testbed::skip::skip;
use testbed::twin::root;

/// Kernel modules under test; their names are also the prefixes of their tests.
pub const SUITES: [&str; 3] = ["echo", "message", "twinring"];
/// Exit codes of `vm/run`: the machine can't run here, it broke, it took too long.
pub const CANNOT_RUN: i32 = 77;
const BROKEN: i32 = 125;
const TIMED_OUT: i32 = 124;
/// Kernel parameter that enables redzones, poisoning and consistency checks of all slabs.
const KERNEL_LINE: &str = "slub_debug=FZPU";
/// Kernel parameters for a module that may hang a processor: a hang of 20 s ends the machine. They are not used
/// otherwise, because a busy host can cause the same.
const FRAGILE_KERNEL_LINE: &str = "slub_debug=FZPU softlockup_panic=1";
const SECONDS: &str = "1200";

fn kernel(name: &str) -> PathBuf {
    root().join("build/kernel").join(name)
}

/// Returns the names of the modules that are built with a deliberate flaw, `MODULE_FLAW`.
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

/// Returns the folder of the kernel headers for Debian's cloud kernel, the usual one.
pub fn headers() -> anyhow::Result<String> {
    headers_of("cloud")
}

/// Returns the folder of the kernel headers for a flavour of Debian's kernel.
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

/// Builds the modules with and without flaws, and the programs of the machine.
pub fn build() -> anyhow::Result<()> {
    make(&["flaws", "guest", "pcap"])
}

/// Builds the modules and additional targets below build/kernel. Only one case at a time builds; others wait.
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

/// Virtual machine that runs the script `guest/suite`.
pub struct Machine {
    command: Command,
    suite: PathBuf,
}

/// Result of a virtual machine: its output, the modules under test, and the exit code of `vm/run`.
pub struct Run {
    output: String,
    modules: Vec<String>,
    code: Option<i32>,
}

impl Machine {
    pub fn new() -> Machine {
        Machine::with(KERNEL_LINE)
    }

    /// Returns a machine for modules with a deliberate flaw.
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

    /// Loads modules, one after another, and runs the tests of each.
    /// - runs: for each module its file, and the prefix of its tests' names.
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

    /// Returns all output lines except those of passed tests, and the exit code.
    pub fn findings(&self) -> String {
        let lines = self.output.lines().filter(|line| !line.starts_with("ok "));
        format!(
            "{}\nexit code {:?}",
            lines.collect::<Vec<&str>>().join("\n"),
            self.code
        )
    }

    /// Returns the modules for which no test failed and the kernel reported nothing, or that were never loaded.
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
