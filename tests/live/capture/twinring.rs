// SPDX-License-Identifier: GPL-2.0-or-later
//! capture, tcpdump and dumpcap with rings of the module `twinring`, in a virtual machine.

use std::process::Command;

use anyhow::{ensure, Context};
use testbed::folder::Folder;
use testbed::skip::{not_installed, skip};
use testbed::twin::{built, root};

use super::fields;
use crate::kernel::machine;

const COUNT: usize = 20;
const SCRIPT: &str = "tests/live/capture/guest/twinring";
/// Exit code of `vm/run` if the machine can't run here.
const CANNOT_RUN: i32 = 77;
const TOOLS: [&str; 5] = ["bash", "od", "tcpdump", "dumpcap", "grep"];
const POLICIES: [&str; 9] = [
    "RX_RING",
    "GFPNORETRY",
    "VZALLOC",
    "GFPRETRY",
    "TRANSHUGE",
    "HUGETLB",
    "BOTH",
    "DAX",
    "VMALLOC_HUGE",
];

/// Exit code, recorded file and output of one program.
struct Recorded<'a> {
    name: &'a str,
    code: &'a str,
    file: Vec<u8>,
    said: &'a str,
}

impl Recorded<'_> {
    /// Parses the text of one program, after `begin `.
    fn parse(text: &str) -> anyhow::Result<Recorded<'_>> {
        let (name, rest) = text.split_once('\n').context("a name")?;
        let (code, rest) = rest.split_once('\n').context("a code")?;
        let (file, said) = rest.split_once("said\n").context("what it said")?;
        let bytes = file.split_whitespace();
        let file = bytes.map(|byte| u8::from_str_radix(byte, 16));
        Ok(Recorded {
            name,
            code,
            file: file.collect::<Result<_, _>>()?,
            said,
        })
    }

    /// Returns true if the file has the number of each datagram exactly once, in order.
    fn is_whole(&self) -> bool {
        let mut rest = self.file.as_slice();
        let whole = (0..COUNT).all(|number| {
            let digits = format!("{number:08}");
            let at = rest.windows(8).position(|part| part == digits.as_bytes());
            rest = at.map_or(rest, |at| &rest[at + 8..]);
            at.is_some()
        });
        whole && !rest.windows(3).any(|part| part == b"000")
    }
}

fn run() -> anyhow::Result<String> {
    machine::build()?;
    let mut command = Command::new(root().join("vm/run"));
    let module = root().join("build/kernel/modules/twinwall_twinring.ko");
    let library = built("libtwinring-pcap.so");
    command.args(["--memory", "512", "--timeout", "1200", "--console"]);
    command.arg(root().join("build/kernel/console-capture"));
    command.arg("--ko").arg(module);
    for tool in TOOLS {
        let found = std::env::split_paths("/usr/bin:/usr/sbin:/bin")
            .map(|folder| folder.join(tool))
            .find(|file| file.exists());
        let found = found.ok_or_else(|| not_installed(tool))?;
        command.arg("--file").arg(found);
    }
    for file in ["/etc/passwd", "/etc/group"] {
        command.args(["--file", file]);
    }
    let lab = built("capture-lab");
    ensure!(lab.exists(), "there is no {}: make lab", lab.display());
    for file in [
        root().join(SCRIPT),
        built("capture"),
        lab.clone(),
        library.clone(),
    ] {
        command.arg("--file").arg(file);
    }
    command.args(["--", "bash"]).arg(root().join(SCRIPT));
    command.arg(built("capture")).arg(lab).arg(library);
    let output = command.arg(COUNT.to_string()).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(CANNOT_RUN) {
        return Err(skip(said));
    }
    let text = String::from_utf8(output.stdout)?;
    ensure!(text.ends_with("done\n"), "vm/run: {said}: {text}");
    ensure!(said.contains("there is no /dev/twinring"), "{said}");
    Ok(text)
}

/// Expected output of `capture-lab pages`: page-table entries with the policies RX_RING (as AF_PACKET), DAX and BOTH
/// (see kernel/README.md).
const PAGES: &str = "\
twinring: 8 MiB
  program's side: 2,048 x 4K
  kernel's side:  4 x 2M
twinring: 8 MiB
  program's side: 4 x 2M
  kernel's side:  4 x 2M
twinring: 8 MiB
  program's side: 4 x 2M
  kernel's side:  4 x 2M
";

pub fn every_program_records() -> anyhow::Result<()> {
    let text = run()?;
    ensure!(text.starts_with(PAGES), "not {PAGES}, but {text:.400}");
    let parts = text.trim_end_matches("done\n").split("begin ").skip(1);
    let mut names = Vec::new();
    for part in parts {
        let one = Recorded::parse(part)?;
        let (name, said) = (one.name, one.said);
        ensure!(one.code == "exit 0", "{name}: {}: {said}", one.code);
        ensure!(one.is_whole(), "{name}: not all, or twice: {said}");
        let (program, pages) = name.split_once(' ').context("a program")?;
        let wanted = match (program, pages) {
            ("capture", _) => format!("ledger: kernel {COUNT} = delivered {COUNT} + ring drops 0"),
            (_, "without") => "it does nothing".to_owned(),
            _ => format!("libtwinring-pcap: {pages}, 4 blocks of 2 MiB"),
        };
        ensure!(said.contains(&wanted), "{name}: {said}");
        if program == "capture" {
            let folder = Folder::shared()?;
            let file = folder.file("x.pcapng");
            std::fs::write(&file, &one.file)?;
            let ports = fields(&file, "udp.dstport")?;
            ensure!(ports == "9\n".repeat(COUNT), "{name}: tshark sees {ports}");
        }
        names.push(name);
    }
    let ours = ["4k", "thp", "hugetlb"].map(|pages| format!("capture {pages}"));
    let theirs = POLICIES.map(|policy| [format!("tcpdump {policy}"), format!("dumpcap {policy}")]);
    let mut all: Vec<String> = ours
        .into_iter()
        .chain(theirs.into_iter().flatten())
        .collect();
    all.push("tcpdump without".to_owned());
    ensure!(names == all, "{names:?}");
    Ok(())
}
