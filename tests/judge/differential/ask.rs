// SPDX-License-Identifier: GPL-2.0-or-later
//! Runs both twins with the same arguments and compares their output.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::twin::{root, Twin, TWINS};
use testbed::wait::wait_within;

/// Time limit after which a twin counts as hung.
const PATIENCE: Duration = Duration::from_secs(30);

/// File names of the policy and the packets in the folder of a run, short for messages.
pub const POLICY: &str = "policy.nft";
pub const PACKETS: &str = "packets.pcap";

/// Output and exit code of a twin.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Exit code; None if ended by a signal, or killed because it did not end.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    end: String,
}

pub struct Asker {
    folder: PathBuf,
}

/// The output that both twins have in common, or the difference in one line.
pub type Answer = Result<Said, String>;

impl Asker {
    /// Makes a separate folder, deleted on drop.
    pub fn new() -> anyhow::Result<Asker> {
        for twin in TWINS {
            ensure!(
                twin.binary().is_file(),
                "there is no {}: run make build",
                twin.binary().display()
            );
        }
        let folder = root().join(format!("build/differential-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Asker { folder })
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).with_context(|| path.display().to_string())
    }

    fn start(&self, twin: Twin, arguments: &[String]) -> anyhow::Result<Child> {
        let file = |end: &str| File::create(self.folder.join(format!("{}.{end}", twin.name())));
        Command::new(twin.binary())
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(file("out")?)
            .stderr(file("err")?)
            .spawn()
            .with_context(|| twin.binary().display().to_string())
    }

    fn end(&self, twin: Twin, child: &mut Child) -> anyhow::Result<Said> {
        let status = wait_within(child, PATIENCE);
        if status.is_none() {
            child.kill()?;
            child.wait()?;
        }
        let read = |end: &str| fs::read(self.folder.join(format!("{}.{end}", twin.name())));
        let end = match status {
            None => format!("does not end within {} s", PATIENCE.as_secs()),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (_, signal) => format!("signal {}", signal.unwrap_or(0)),
            },
        };
        Ok(Said {
            code: status.and_then(|status| status.code()),
            stdout: read("out")?,
            stderr: read("err")?,
            end,
        })
    }

    /// Runs both twins at once and compares their output.
    pub fn ask(&self, arguments: &[&str]) -> anyhow::Result<Answer> {
        let arguments: Vec<String> = arguments
            .iter()
            .map(|argument| argument.to_string())
            .collect();
        let mut children = TWINS.map(|twin| self.start(twin, &arguments));
        let mut said = Vec::new();
        for (twin, child) in TWINS.iter().zip(&mut children) {
            let child = child
                .as_mut()
                .map_err(|error| anyhow::anyhow!("{error:#}"))?;
            said.push(self.end(*twin, child)?);
        }
        Ok(compare(&said[0], &said[1]))
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        // If this fails, the files stay in build/.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the common output if the outputs are equal and both twins ended by themselves.
fn compare(rust: &Said, c: &Said) -> Answer {
    if rust.end != c.end || rust.code.is_none() {
        let words = |said: &Said| format!("{} {}", said.end, line(&said.stderr, 0));
        return Err(format!("rust: {}; c: {}", words(rust), words(c)));
    }
    for (name, ours, theirs) in [
        ("stderr", &rust.stderr, &c.stderr),
        ("stdout", &rust.stdout, &c.stdout),
    ] {
        if ours != theirs {
            let at = first_difference(ours, theirs);
            return Err(format!(
                "{name} line {}: rust: {}; c: {}",
                at + 1,
                line(ours, at),
                line(theirs, at)
            ));
        }
    }
    Ok(rust.clone())
}

/// Returns the number of the first line that differs, from 0.
fn first_difference(a: &[u8], b: &[u8]) -> usize {
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    a[..same].iter().filter(|byte| **byte == b'\n').count()
}

/// Returns the line with a number, from 0, truncated for a message.
pub fn line(bytes: &[u8], number: usize) -> String {
    const LONGEST: usize = 400;
    let line = bytes
        .split(|byte| *byte == b'\n')
        .nth(number)
        .unwrap_or(b"");
    let text = String::from_utf8_lossy(line);
    text.chars().take(LONGEST).collect()
}

/// Returns the file name of a saved policy or text, for a message.
pub fn name(path: &Path) -> String {
    path.file_name()
        .map_or(String::new(), |name| name.to_string_lossy().into_owned())
}
