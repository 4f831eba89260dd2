// SPDX-License-Identifier: GPL-2.0-or-later
//! `init`: makes a first policy of this host, from answers to questions and from the state of the host.

pub mod arguments;
mod ask;
mod docker;
mod expectations;
mod file;
mod policy;
mod resolvers;
mod session;
mod sockets;
mod trial;
mod wish;

use std::io::{stderr, stdin, IsTerminal, Stdin, StdinLock};
use std::path::Path;

use self::arguments::Init;
use self::ask::Dialog;
use self::wish::{Host, Offer, Wish};
use crate::applied;
use crate::arguments::Arguments;
use crate::failure::{tell, Exit, Failure};
use crate::output;

/// Terminal for the questions. They go to stderr, because stdout has the policy.
type Terminal<'a> = Dialog<StdinLock<'a>, std::io::Stderr>;

/// Returns the terminal; None if options forbid questions. Fails if stdin is no terminal.
fn terminal<'a>(asked: &Init, stdin: &'a Stdin) -> Result<Option<Terminal<'a>>, Failure> {
    if asked.yes || asked.print {
        return Ok(None);
    }
    match stdin.is_terminal() {
        true => Ok(Some(Dialog {
            input: stdin.lock(),
            output: stderr(),
        })),
        false => Err(Failure::new(
            Exit::Usage,
            "no question can be asked, since stdin is no terminal: give --yes, or --print",
        )),
    }
}

/// Returns true if the policy accepts new connections to an offered port.
fn is_reached(wish: &Wish, host: &Host, offer: &Offer) -> bool {
    let mut open = wish.open.iter().chain(&host.published);
    offer.is_ssh(&wish.ssh_ports) || open.any(|ports| ports.hold(&offer.ports))
}

/// Prints notes on effects of the policy that an administrator may not expect.
fn note(wish: &Wish, host: &Host) {
    if let Some(why) = host.ssh.disbelief() {
        tell("warning", format!("SSH_CONNECTION is not believed: {why}"));
    }
    let closed = host
        .offers
        .iter()
        .filter(|offer| !is_reached(wish, host, offer));
    let closed: Vec<String> = closed.map(ask::describe).collect();
    if !closed.is_empty() {
        let text = format!(
            "new connections from other hosts no longer reach {}",
            closed.join(", ")
        );
        tell("note", text);
    }
    if !host.published.is_empty() {
        tell("note", "Docker's ports stay open: its rules forward to containers, and this policy is about this host");
    }
    if !wish.names().is_empty() {
        tell("note", "connections to the ports 80 and 443 of other hosts that are open now show no name any more, and end");
    }
}

/// Writes the policy and applies it. If it can't be applied, restores the previous file.
fn apply(asked: &Init, text: &str) -> Result<(), Failure> {
    let path: &Path = &asked.policy;
    let written = file::write(path, text, asked.force)?;
    match applied::apply_file(&asked.place, path, Some(asked.confirm)) {
        Ok(applied) => {
            applied::say_applied(&applied, Some(asked.confirm));
            tell("note", "open another session first, to see that you still can; at boot: systemctl enable twinwall");
            Ok(())
        }
        Err(failure) => {
            written.take_back();
            Err(failure)
        }
    }
}

pub fn run(arguments: &Arguments, asked: &Init) -> Result<Exit, Failure> {
    let stdin = stdin();
    let mut terminal = terminal(asked, &stdin)?;
    if !asked.print {
        applied::need_root("init")?;
        if !asked.force {
            file::check_free(&asked.policy)?;
        }
    }
    let host = Host::find();
    let mut asked = asked.clone();
    if let Some(terminal) = &mut terminal {
        terminal.complete(&mut asked, &host)?;
    }
    let wish = Wish::new(
        &host,
        &asked.ssh_from,
        asked.open.clone(),
        asked.allow.clone(),
    )?;
    let text = policy::text(&wish, &host);
    output::lines(&text.lines().collect::<Vec<_>>());
    note(&wish, &host);
    if asked.print {
        return Ok(Exit::Fine);
    }
    trial::run(arguments, &asked, &text)?;
    if let Some(terminal) = &mut terminal {
        let question = format!(
            "Load it, and go back in {} s unless fwctl confirm keeps it?",
            asked.confirm
        );
        if !terminal.agrees(&question)? {
            terminal.line("nothing was changed")?;
            return Ok(Exit::Fine);
        }
    }
    apply(&asked, &text)?;
    Ok(Exit::Fine)
}
