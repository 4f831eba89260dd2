// SPDX-License-Identifier: GPL-2.0-or-later
//! A folder of a case's own with a policy in it, a firewall that runs with it, and its control socket.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{ensure, Context};
use serde_json::Value;
use twinwall_tests::case::{Case, PATIENCE};
use twinwall_tests::twin::{Twin, TWINS};

/// A case's body, for one twin.
pub type Body = fn(Twin) -> anyhow::Result<()>;

/// Cases named `PART/NAME/TWIN`.
pub fn of_both(part: &str, bodies: &[(&str, Body)]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, body) in bodies.iter().copied() {
        for twin in TWINS {
            let name = format!("{part}/{name}/{}", twin.name());
            cases.push(Case::new(name, 120, move || body(twin)));
        }
    }
    cases
}

/// A folder that everybody may write to, as the user whom the firewall becomes has to; it goes away with the value.
pub struct Folder(PathBuf);

impl Folder {
    /// `name` must be unlike that of other folders of this process.
    pub fn new(name: &str) -> anyhow::Result<Folder> {
        let folder = format!("twinwall-privilege-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(folder);
        fs::create_dir(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
        Ok(Folder(path))
    }

    /// A path in it.
    pub fn file(&self, name: &str) -> String {
        self.0
            .join(name)
            .to_str()
            .expect("a path in UTF-8")
            .to_owned()
    }

    /// Writes a file that everybody may read.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<String> {
        let file = self.file(name);
        fs::write(&file, text)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
        Ok(file)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lines of the filter table that send what comes in for the port to the queue.
pub const RULES: &str = "-A INPUT -p udp --dport 9999 -j NFQUEUE --queue-num 0
-A INPUT -p tcp --dport 9999 -j NFQUEUE --queue-num 0";

/// Counts and drops what comes in for UDP port 9999; more rules may stand before.
pub fn policy(rules: &str) -> String {
    format!(
        "table inet t {{\n\tchain c {{\n\t\ttype filter hook input priority 0; policy accept;\n{rules}\n\
         \t\tudp dport 9999 counter drop\n\t}}\n}}\n"
    )
}

/// Sends a request to a control socket and gives the first line of the answer.
pub fn ask(socket: &str, request: &str) -> anyhow::Result<Value> {
    let mut stream = UnixStream::connect(socket).context("the control socket")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    writeln!(stream, "{request}")?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    serde_json::from_str(&line).with_context(|| format!("an answer: {line}"))
}

/// The same; the answer must be good.
pub fn command(socket: &str, name: &str) -> anyhow::Result<Value> {
    let answer = ask(socket, &format!(r#"{{"command":"{name}"}}"#))?;
    ensure!(answer["ok"] == true, "{name}: {answer}");
    Ok(answer)
}
