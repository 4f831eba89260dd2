// SPDX-License-Identifier: GPL-2.0-or-later
//! The questions of `init`, on a terminal. A question is asked again until its answer can be parsed. An empty answer
//! selects the default.

use std::io::{BufRead, Write};
use std::str::FromStr;

use cage::allow::Allowed;

use super::arguments::{destination, Init, Origin, Ports};
use super::wish::{Host, Offer};
use crate::failure::{words, Exit, Failure};
use crate::output::printable;

/// Input and output for the questions: a terminal, or buffers of a test.
pub struct Dialog<R, W> {
    pub input: R,
    pub output: W,
}

fn failed(error: &std::io::Error) -> Failure {
    let text = format!("the terminal: {}: give options, and --yes", words(error));
    Failure::new(Exit::Usage, text)
}

fn split<T>(line: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let words = line.split([',', ' ', '\t']).filter(|word| !word.is_empty());
    words
        .map(|word| read(word).map_err(|why| format!("{word}: {why}")))
        .collect()
}

impl<R: BufRead, W: Write> Dialog<R, W> {
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        let written = write!(self.output, "{}", printable(text));
        written
            .and_then(|()| self.output.flush())
            .map_err(|error| failed(&error))
    }

    pub fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.say(text)?;
        writeln!(self.output).map_err(|error| failed(&error))
    }

    /// Asks a question. Returns the answer; fails at the end of the input.
    fn answer(&mut self, question: &str) -> Result<String, Failure> {
        self.say(question)?;
        let mut line = String::new();
        match self.input.read_line(&mut line) {
            Ok(0) => Err(Failure::new(Exit::Usage, "no answer: nothing was changed")),
            Ok(_) => Ok(line.trim().to_owned()),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Asks for a list, until all words of the answer can be parsed. An empty answer is an empty list.
    fn list<T>(
        &mut self,
        question: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, Failure> {
        loop {
            let answer = self.answer(question)?;
            match split(&answer, &read) {
                Ok(list) => return Ok(list),
                Err(why) => self.line(&why)?,
            }
        }
    }

    pub fn agrees(&mut self, question: &str) -> Result<bool, Failure> {
        let answer = self.answer(&format!("{question} [y/N]: "))?;
        Ok(matches!(answer.as_str(), "y" | "Y" | "yes"))
    }

    fn ssh(&mut self, asked: &mut Init, host: &Host) -> Result<(), Failure> {
        if host.ssh_ports.is_empty() || !asked.ssh_from.is_empty() {
            return Ok(());
        }
        if let Some(session) = host.ssh.session {
            let (client, port) = (session.client.ip(), session.server.port());
            self.line(&format!(
                "This session of SSH comes from {client}, to port {port}."
            ))?;
        }
        let question = "SSH may come from (addresses, prefixes, or any) [any]: ";
        asked.ssh_from = self.list(question, Origin::from_str)?;
        Ok(())
    }

    fn open(&mut self, asked: &mut Init, host: &Host) -> Result<(), Failure> {
        if !asked.open.is_empty() {
            return Ok(());
        }
        let others = host
            .offers
            .iter()
            .filter(|offer| !offer.is_ssh(&host.ssh_ports));
        let texts: Vec<String> = others.map(describe).collect();
        if !texts.is_empty() {
            self.line(&format!(
                "Programs of this host offer {}.",
                texts.join(", ")
            ))?;
        }
        asked.open = self.list(
            "Open to everybody (80, 443/udp, 8000-8100) [none]: ",
            Ports::from_str,
        )?;
        Ok(())
    }

    fn allow(&mut self, asked: &mut Init) -> Result<(), Failure> {
        if !asked.allow.is_empty() {
            return Ok(());
        }
        let question =
            "This host may connect to (names, *.names, addresses, prefixes, or any) [any]: ";
        let read = |word: &str| match word {
            "any" => Ok(None),
            _ => destination(word).map(Some),
        };
        let list: Vec<Option<Allowed>> = self.list(question, read)?;
        let is_any = list.contains(&None);
        asked.allow = list.into_iter().flatten().filter(|_| !is_any).collect();
        Ok(())
    }

    /// Asks for the settings that no option gives, and stores them in `asked`.
    pub fn complete(&mut self, asked: &mut Init, host: &Host) -> Result<(), Failure> {
        self.ssh(asked, host)?;
        self.open(asked, host)?;
        self.allow(asked)
    }
}

/// Formats an offer: "tcp 80 (nginx)".
pub fn describe(offer: &Offer) -> String {
    let ports = format!("{} {}", offer.ports.protocol, offer.ports);
    match offer.program.as_str() {
        "" => ports,
        program => format!("{ports} ({program})"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    fn init(words: &[&str]) -> Init {
        let arguments = Arguments::parse_from([&["fwctl", "init"], words].concat());
        match arguments.command {
            Command::Init(init) => *init,
            _ => unreachable!(),
        }
    }

    fn completed(words: &[&str], answers: &str) -> (Result<Init, String>, String) {
        let host = Host {
            ssh_ports: BTreeSet::from([22]),
            offers: BTreeSet::from([Offer {
                ports: "80".parse().unwrap(),
                program: "nginx".to_owned(),
            }]),
            ..Host::default()
        };
        let mut output = Vec::new();
        let mut dialog = Dialog {
            input: answers.as_bytes(),
            output: &mut output,
        };
        let mut asked = init(words);
        let completed = dialog
            .complete(&mut asked, &host)
            .map_err(|failure| failure.text);
        let said = String::from_utf8(output).unwrap();
        (completed.map(|()| asked), said)
    }

    #[test]
    fn what_no_option_says_is_asked() {
        let (asked, said) = completed(&[], "192.0.2.7, 2001:db8::/32\n80 443/udp\n*.example.org\n");
        let asked = asked.unwrap();
        assert_eq!((asked.ssh_from.len(), asked.open.len()), (2, 2));
        assert_eq!(asked.allow[0].to_string(), "*.example.org");
        assert!(said.contains("offer tcp 80 (nginx)."), "{said}");
        let (asked, said) = completed(
            &["--open", "80", "--ssh-from", "any", "--allow", "a.example"],
            "",
        );
        assert!(asked.is_ok() && said.is_empty(), "{said}");
    }

    #[test]
    fn no_answer_is_the_default_and_a_bad_one_is_asked_again() {
        let (asked, said) = completed(&[], "\nmonster\n\nany\n");
        let asked = asked.unwrap();
        assert!(asked.ssh_from.is_empty() && asked.open.is_empty() && asked.allow.is_empty());
        assert!(said.contains("monster: expected a port"), "{said}");
        assert_eq!(said.matches("Open to everybody").count(), 2, "{said}");
        let (asked, _) = completed(&[], "any\n");
        assert_eq!(
            asked.err().as_deref(),
            Some("no answer: nothing was changed")
        );
    }
}
