// SPDX-License-Identifier: GPL-2.0-or-later
//! fwctl top, on a real terminal and without a terminal.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{ensure, Context};
use nix::pty::{openpty, Winsize};
use serde_json::Value;
use testbed::place::LOCALHOST;
use testbed::proc;
use testbed::twin::Twin;
use testbed::wait::{until, wait_within, PATIENCE};
use twinwall_tests::case::Row;

use super::ctl::{Place, ACCEPTED, DROPPED};

pub const ROWS: &[Row] = &[
    ("top-json", json),
    ("top-without-a-terminal", no_terminal),
    ("top-on-a-terminal", on_a_terminal),
    ("top-ended-by-a-signal", ended_by_a_signal),
    ("top-outlives-the-firewall", outlives),
    ("top-ends-with-its-terminal", ends_with_its_terminal),
    ("top-shows-names", names),
];

const ROWS_OF_IT: u16 = 24;
const COLUMNS: u16 = 80;

/// Program on a separate terminal, with the contents of its screen.
struct Terminal {
    child: Child,
    keys: File,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    fn start(command: Command) -> anyhow::Result<Terminal> {
        Terminal::wide(command, COLUMNS)
    }

    fn wide(mut command: Command, columns: u16) -> anyhow::Result<Terminal> {
        let size = Winsize {
            ws_row: ROWS_OF_IT,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(&size, None)?;
        let end = || anyhow::Ok(Stdio::from(pty.slave.try_clone()?));
        command.stdin(end()?).stdout(end()?).stderr(end()?);
        let child = command.env("TERM", "xterm-256color").spawn()?;
        drop(pty.slave);
        let keys = File::from(pty.master);
        let mut output = keys.try_clone()?;
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS_OF_IT, columns, 0)));
        let drawn = Arc::clone(&screen);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                drawn
                    .lock()
                    .expect("no reader panics")
                    .process(&bytes[..count]);
            }
        });
        Ok(Terminal {
            child,
            keys,
            screen,
        })
    }

    fn press(&mut self, key: &str) -> anyhow::Result<()> {
        Ok(self.keys.write_all(key.as_bytes())?)
    }

    fn text(&self) -> String {
        self.screen
            .lock()
            .expect("no reader panics")
            .screen()
            .contents()
    }

    /// Waits until the screen contains these words.
    fn shows(&self, words: &str) -> anyhow::Result<()> {
        until(words, PATIENCE, || Ok(self.text().contains(words)))
            .with_context(|| format!("on the screen is\n{}", self.text()))
    }

    /// Waits until the program ends. Fails unless the exit code is `code` and the terminal is restored.
    fn ends(mut self, code: i32) -> anyhow::Result<()> {
        let status = wait_within(&mut self.child, PATIENCE).context("it does not end")?;
        ensure!(status.code() == Some(code), "{status}");
        until("the terminal is given back", PATIENCE, || {
            let parser = self.screen.lock().expect("no reader panics");
            Ok(!parser.screen().alternate_screen() && !parser.screen().hide_cursor())
        })?;
        let settings = nix::sys::termios::tcgetattr(&self.keys)?;
        let local = settings.local_flags;
        let usual = nix::sys::termios::LocalFlags::ICANON | nix::sys::termios::LocalFlags::ECHO;
        ensure!(local.contains(usual), "the terminal is left raw: {local:?}");
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Numbers of packets in lines of `top --json`: sums of rates, times the intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    accepted: f64,
    dropped: f64,
    refused: f64,
    queued: f64,
}

impl Sums {
    fn add(&mut self, line: &Value) -> anyhow::Result<()> {
        let seconds = line["interval_s"].as_f64().context("interval_s")?;
        let packets = |rate: &Value| -> anyhow::Result<f64> {
            let rate = rate.as_f64().with_context(|| line.to_string())?;
            Ok(rate * seconds)
        };
        self.accepted += packets(&line["rules"][0]["rate"])?;
        self.dropped += packets(&line["rules"][1]["rate"])?;
        self.queued += packets(&line["queues"][0]["rate"])?;
        let talkers = line["talkers"].as_array().context("talkers")?;
        if let Some(talker) = talkers.first() {
            self.refused += packets(&talker["refused_rate"])?;
        }
        Ok(())
    }

    /// Returns true if all packets are counted that `json` sends. Fails if more are.
    fn are_complete(&self) -> anyhow::Result<bool> {
        let sums = [
            (self.accepted.round(), 40.0),
            (self.dropped.round(), 10.0),
            (self.refused.round(), 10.0),
        ];
        ensure!(sums.iter().all(|(sum, sent)| sum <= sent), "{self:?}");
        Ok(sums.iter().all(|(sum, sent)| sum == sent) && self.queued.round() >= 50.0)
    }
}

fn json(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let mut child = place
        .command()?
        .args(["top", "--json", "--interval", "0.5"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
    let mut read = || -> anyhow::Result<Value> {
        let line = lines.next().context("top has ended")??;
        Ok(serde_json::from_str(&line)?)
    };
    // Packets during top's first sample may be counted for only a part of it; the first line ends that sample.
    read()?;
    place.until_followed(1)?;
    place.send(ACCEPTED, 40)?;
    place.send(DROPPED, 10)?;
    let (mut sums, mut line) = (Sums::default(), Value::Null);
    until("all packets, then a line without one", PATIENCE, || {
        let before = sums;
        line = read()?;
        sums.add(&line)?;
        Ok(before.are_complete()? && sums == before)
    })
    .with_context(|| format!("{sums:?}, {line}"))?;
    child.kill()?;
    child.wait()?;
    ensure!(line["ledger"]["reconciled"] == true, "{line}");
    let said = place.fwctl(&["top", "--json", "--interval", "0.1", "--count", "2"])?;
    ensure!(said.code(0)?.lines().count() == 2, "{}", said.stdout);
    Ok(())
}

fn no_terminal(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    place
        .fwctl(&["top"])?
        .error(2, "top draws on a terminal, and there is none: use --json")
}

/// Starts top on a terminal, and waits until it shows the ledger.
fn start(place: &Place) -> anyhow::Result<Terminal> {
    let mut command = place.command()?;
    command.args(["top", "--interval", "0.2"]);
    let terminal = Terminal::start(command)?;
    terminal.shows(" LEDGER RECONCILED ")?;
    Ok(terminal)
}

/// Sends packets until top shows their sender; top removes a talker after some seconds without a packet.
fn shows_talker(terminal: &Terminal, place: &Place) -> anyhow::Result<()> {
    until("top shows the sender", PATIENCE, || {
        place.send(ACCEPTED, 1)?;
        Ok(terminal.text().contains("127.0.0.1"))
    })
    .with_context(|| terminal.text())
}

fn on_a_terminal(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let mut terminal = start(&place)?;
    terminal.shows(twin.program())?;
    terminal.shows("web.nft:5")?;
    place.send(DROPPED, 7)?;
    // The rule's counter, at the end of its sparkline.
    terminal.shows("7 udp dport 9002 counter drop")?;
    shows_talker(&terminal, &place)?;
    terminal.press("s")?;
    terminal.shows("by packets")?;
    terminal.press("p")?;
    terminal.shows("PAUSED")?;
    // On a smaller terminal top shows less, and can scroll.
    let size = Winsize {
        ws_row: 12,
        ws_col: 60,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    set_size(&terminal, &size)?;
    until("it is drawn anew", PATIENCE, || {
        let text = terminal.text();
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        Ok(text.lines().count() <= 12 && last.is_some_and(|last| last.contains("q quit")))
    })
    .with_context(|| terminal.text())?;
    terminal.shows(" rules (1 to 1 of 2, ")?;
    terminal.press("\x1b[B")?;
    terminal.shows(" rules (2 to 2 of 2, ")?;
    terminal.press("\x1b[A")?;
    terminal.shows(" rules (1 to 1 of 2, ")?;
    terminal.press("q")?;
    terminal.ends(0)
}

/// Sets the size of the terminal, of the program on it and of the parsed screen.
fn set_size(terminal: &Terminal, size: &Winsize) -> anyhow::Result<()> {
    use std::os::fd::AsRawFd;
    let mut parser = terminal.screen.lock().expect("no reader panics");
    parser.set_size(size.ws_row, size.ws_col);
    drop(parser);
    // SAFETY: the kernel reads one winsize, which `size` is.
    let set = unsafe { libc::ioctl(terminal.keys.as_raw_fd(), libc::TIOCSWINSZ, size) };
    ensure!(set == 0, "{}", std::io::Error::last_os_error());
    // The terminal is not top's controlling terminal, so the kernel sends no signal.
    proc::signal(terminal.child.id(), libc::SIGWINCH);
    Ok(())
}

fn ended_by_a_signal(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let terminal = start(&place)?;
    proc::signal(terminal.child.id(), libc::SIGTERM);
    terminal.ends(0)
}

/// Checks that top ends when its terminal is closed. No signal reports that, since it is not top's controlling
/// terminal.
fn ends_with_its_terminal(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let size = Winsize {
        ws_row: ROWS_OF_IT,
        ws_col: COLUMNS,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pty = openpty(&size, None)?;
    // Without this, top would inherit the other end. A clone is closed in the started program.
    let mut other_end = File::from(pty.master.try_clone()?);
    drop(pty.master);
    let end = || anyhow::Ok(Stdio::from(pty.slave.try_clone()?));
    let mut command = place.command()?;
    command.args(["top", "--interval", "0.2"]);
    command.stdin(end()?).stdout(end()?).stderr(end()?);
    let mut child = command.env("TERM", "xterm-256color").spawn()?;
    drop((command, pty.slave));
    let (mut drawn, mut bytes) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&drawn).contains("LEDGER") {
        let count = other_end.read(&mut bytes)?;
        drawn.extend_from_slice(&bytes[..count]);
    }
    drop(other_end);
    let ended = wait_within(&mut child, PATIENCE);
    let _ = child.kill(); // if it has not ended
    ensure!(ended.context("it goes on")?.code() == Some(0));
    Ok(())
}

/// Checks that top reports that the firewall is gone, and that keys still work.
fn outlives(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let mut terminal = start(&place)?;
    let Place {
        firewall,
        folder: _folder,
        ..
    } = place;
    firewall.stop()?;
    terminal.shows(" NO ANSWER ")?;
    terminal.press("q")?;
    terminal.ends(0)
}

/// Checks that names are shown beside the clients, up to the screen's width, and that top has no column for names until
/// a client has shown a name.
fn names(twin: Twin) -> anyhow::Result<()> {
    const POLICY: &str =
        "table inet t {\n\tchain c {\n\t\ttype filter hook output priority 0; policy accept;\n\
        \t\thttp host \"denied.example\" counter drop\n\t}\n}\n";
    const NAME: &str = "a-long-name-of-a-host.in-a-department.of-a-company.example";
    let place = Place::with(twin, POLICY, &[])?;
    let listener = place
        .namespace
        .enter(|| TcpListener::bind((LOCALHOST, 0)))?;
    let to = listener.local_addr()?;
    let top = |columns| {
        let mut command = place.command()?;
        command.args(["top", "--interval", "0.5"]);
        Terminal::wide(command, columns)
    };
    let (mut narrow, mut wide) = (top(80)?, top(140)?);
    place.until_followed(2)?;
    for terminal in [&narrow, &wide] {
        shows_talker(terminal, &place)?;
        ensure!(!terminal.text().contains("name"), "{}", terminal.text());
    }
    let mut client = place.namespace.enter(|| TcpStream::connect(to))?;
    let (mut server, _) = listener.accept()?;
    let request = format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    client.write_all(request.as_bytes())?;
    server.read_exact(&mut vec![0; request.len()])?;
    let has = |terminal: &Terminal, name: &str| {
        let text = terminal.text();
        text.contains("refused/s name") && text.contains(&format!(" {name}"))
    };
    until("both show the name", PATIENCE, || {
        client.write_all(b"x")?;
        Ok(has(&wide, NAME) && has(&narrow, &NAME[..40]))
    })
    .with_context(|| format!("{}\n{}", narrow.text(), wide.text()))?;
    for terminal in [&mut narrow, &mut wide] {
        terminal.press("q")?;
    }
    narrow.ends(0)?;
    wide.ends(0)
}
