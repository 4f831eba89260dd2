// SPDX-License-Identifier: GPL-2.0-or-later
//! nmap's XML (nmap.dtd, version 1.05), with one host element per result, since results are written as they arrive;
//! parsers accept several of one address.

use std::io::{self, Write};
use std::time::SystemTime;

use super::{date, printable, seconds, End, Head, Line, Output};
use crate::state::Finding;

#[derive(Default)]
pub struct NmapXml {
    service: Option<&'static str>,
}

/// Escapes text for an attribute. Characters below U+0020, U+FFFE and U+FFFF become `?`: XML 1.0 excludes most of them
/// even when escaped.
fn attribute(text: &str) -> String {
    let allowed = |character: char| !matches!(character, '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}');
    let clean: String = text
        .chars()
        .map(|character| if allowed(character) { character } else { '?' })
        .collect();
    quick_xml::escape::escape(clean).into_owned()
}

impl Output for NmapXml {
    fn begin(&mut self, head: &Head, to: &mut dyn Write) -> io::Result<()> {
        self.service = head.service;
        let kind = if head.syn { "syn" } else { "connect" };
        writeln!(to, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
        writeln!(to, "<!DOCTYPE nmaprun>")?;
        writeln!(
            to,
            r#"<nmaprun scanner="twinwall-scanner" args="{}" start="{}" startstr="{}" version="{}" xmloutputversion="1.05">"#,
            attribute(&head.command),
            seconds(head.started),
            date(head.started),
            env!("CARGO_PKG_VERSION"),
        )?;
        writeln!(
            to,
            r#"<scaninfo type="{kind}" protocol="tcp" numservices="{}" services="{}"/>"#,
            head.port_count, head.ports
        )?;
        writeln!(to, r#"<verbose level="0"/>"#)?;
        writeln!(to, r#"<debugging level="0"/>"#)
    }

    fn result(&mut self, line: &Line, to: &mut dyn Write) -> io::Result<()> {
        let kind = if line.address.ip.is_ipv4() {
            "ipv4"
        } else {
            "ipv6"
        };
        write!(
            to,
            r#"<host><status state="up" reason="user-set" reason_ttl="0"/><address addr="{}" addrtype="{kind}"/>"#,
            line.address
        )?;
        if let Some(name) = line.name {
            let name = attribute(name);
            write!(
                to,
                r#"<hostnames><hostname name="{name}" type="user"/></hostnames>"#
            )?;
        }
        write!(
            to,
            r#"<ports><port protocol="tcp" portid="{}"><state state="{}" reason="{}" reason_ttl="0"/>"#,
            line.port,
            line.state.name(),
            line.reason.name()
        )?;
        if line.finding == Finding::Answer {
            let answer = attribute(&printable(line.answer));
            if let Some(service) = self.service {
                let matched = if line.matched == Some(true) { 10 } else { 3 };
                write!(
                    to,
                    r#"<service name="{service}" method="probed" conf="{matched}"/>"#
                )?;
            }
            write!(to, r#"<script id="banner" output="{answer}"/>"#)?;
        }
        writeln!(to, "</port></ports></host>")
    }

    fn end(&mut self, end: &End, to: &mut dyn Write) -> io::Result<()> {
        let now = SystemTime::now();
        let exit = if end.interrupted { "error" } else { "success" };
        let message = if end.interrupted {
            r#" errormsg="interrupted""#
        } else {
            ""
        };
        writeln!(
            to,
            r#"<runstats><finished time="{}" timestr="{}" elapsed="{:.2}" summary="{} of {} targets asked" exit="{exit}"{message}/>"#,
            seconds(now),
            date(now),
            end.elapsed.as_secs_f64(),
            end.sum.done(),
            end.targets,
        )?;
        let hosts = end.sum.done();
        writeln!(
            to,
            r#"<hosts up="{hosts}" down="0" total="{hosts}"/></runstats>"#
        )?;
        writeln!(to, "</nmaprun>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_hold_anything() {
        assert_eq!(
            attribute("a\"<&>'\x01\u{ffff}"),
            "a&quot;&lt;&amp;&gt;&apos;??"
        );
    }
}
