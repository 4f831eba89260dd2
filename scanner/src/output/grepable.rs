// SPDX-License-Identifier: GPL-2.0-or-later
//! nmap's grepable format (nmap's reference guide, "Grepable Output"): one line per result, since results are written as
//! they arrive. Ports have seven fields between slashes; a slash in a field becomes `|`, as in nmap. Readers detect the
//! format by the first line, which must name nmap.

use std::io::{self, Write};

use super::{date, printable, End, Head, Line, Output};

#[derive(Default)]
pub struct Grepable {
    service: Option<&'static str>,
    hosts: u64,
}

impl Output for Grepable {
    fn begin(&mut self, head: &Head, to: &mut dyn Write) -> io::Result<()> {
        self.service = head.service;
        self.hosts = head.hosts;
        writeln!(
            to,
            "# Nmap (twinwall-scanner {}) scan initiated {} as: {}",
            env!("CARGO_PKG_VERSION"),
            date(head.started),
            printable(head.command.as_bytes())
        )?;
        writeln!(
            to,
            "# Ports scanned: TCP({};{}) UDP(0;) SCTP(0;) PROTOCOLS(0;)",
            head.port_count, head.ports
        )
    }

    fn result(&mut self, line: &Line, to: &mut dyn Write) -> io::Result<()> {
        let version = printable(
            line.answer
                .split(|&byte| byte == b'\n')
                .next()
                .unwrap_or(b""),
        );
        writeln!(
            to,
            "Host: {} ({})\tPorts: {}/{}/tcp//{}//{}/",
            line.address,
            line.name.unwrap_or(""),
            line.port,
            line.state.name(),
            self.service.unwrap_or(""),
            version.replace('/', "|").replace(',', ";"),
        )
    }

    fn end(&mut self, end: &End, to: &mut dyn Write) -> io::Result<()> {
        writeln!(
            to,
            "# Nmap done at {} -- {} scanned in {:.2} seconds",
            date(std::time::SystemTime::now()),
            match self.hosts {
                1 => "1 IP address (1 host up)".to_string(),
                hosts => format!("{hosts} IP addresses ({hosts} hosts up)"),
            },
            end.elapsed.as_secs_f64()
        )
    }
}
