// SPDX-License-Identifier: GPL-2.0-or-later
//! Generic netlink by neli's router, which reads in a thread of its own and distributes answers by their sequence
//! numbers.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::{anyhow, bail, ensure, Context, Result};
use exchange::neli_messages::{
    data_of, family_of, is_part, message, missing_in, name_value, Message,
};
use exchange::{control, lab, Genl};
use neli::consts::nl::NlmF;
use neli::consts::socket::NlFamily;
use neli::err::RouterError;
use neli::nl::{NlPayload, Nlmsghdr};
use neli::router::synchronous::{NlRouter, NlRouterReceiverHandle};
use neli::utils::Groups;

struct Router {
    router: NlRouter,
    explains: bool,
    /// A dump that was begun and not read to its end.
    dump: Option<NlRouterReceiverHandle<u16, Message>>,
}

impl Router {
    fn ask(
        &self,
        family: u16,
        flags: NlmF,
        payload: Message,
    ) -> Result<NlRouterReceiverHandle<u16, Message>> {
        let answers = self.router.send(family, flags, NlPayload::Payload(payload));
        answers.map_err(|error| anyhow!("{error}"))
    }

    /// Sends a request; returns its single answer.
    fn answer(&self, family: u16, payload: Message) -> Result<Nlmsghdr<u16, Message>> {
        let answer = self.ask(family, NlmF::empty(), payload)?.next();
        answer
            .context("an answer")?
            .map_err(|error| anyhow!("{error}"))
    }

    fn ask_parts(&self, family: u16, parts: u32) -> Result<NlRouterReceiverHandle<u16, Message>> {
        let parts = parts.to_ne_bytes();
        let request = message(lab::COUNT, lab::VERSION, Some((lab::PARTS, &parts)))?;
        self.ask(family, NlmF::DUMP, request)
    }
}

/// Reads a dump to its end; returns the number of parts that were read.
fn count_parts(parts: NlRouterReceiverHandle<u16, Message>) -> Result<usize> {
    let mut count = 0;
    for part in parts {
        if !is_part(&part.map_err(|error| anyhow!("{error}"))?) {
            break;
        }
        count += 1;
    }
    Ok(count)
}

impl Genl for Router {
    fn open() -> Result<Router> {
        let (router, _) = NlRouter::connect(NlFamily::Generic, None, Groups::empty())
            .map_err(|error| anyhow!("{error}"))?;
        Ok(Router {
            router,
            explains: false,
            dump: None,
        })
    }

    fn family(&mut self, name: &str) -> Result<u16> {
        let name = name_value(name);
        let request = message(control::GETFAMILY, 1, Some((control::FAMILY_NAME, &name)))?;
        family_of(&self.answer(control::ID, request)?)
    }

    fn echo(&mut self, family: u16, data: &[u8]) -> Result<usize> {
        let request = message(lab::ECHO, lab::VERSION, Some((lab::DATA, data)))?;
        data_of(&self.answer(family, request)?)
    }

    fn dump(&mut self, family: u16, parts: u32) -> Result<usize> {
        count_parts(self.ask_parts(family, parts)?)
    }

    /// Requests a dump and reads its first part. The router's thread receives the other parts even if they are not
    /// read.
    fn dump_begin(&mut self, family: u16, parts: u32) -> Result<()> {
        let mut parts = self.ask_parts(family, parts)?;
        let first = parts.next().context("a part")?;
        let first = first.map_err(|error| anyhow!("{error}"))?;
        ensure!(is_part(&first), "dump: over at once");
        self.dump = Some(parts);
        Ok(())
    }

    fn dump_rest(&mut self) -> Result<()> {
        count_parts(self.dump.take().context("a dump")?).map(drop)
    }

    /// Sends an echo request without its attribute. Returns the missing attribute's type, or None if the router's error
    /// lacks it.
    fn refused(&mut self, family: u16) -> Result<Option<u32>> {
        if !self.explains {
            let told = self.router.enable_ext_ack(true);
            told.map_err(|error| anyhow!("{error}"))?;
            self.explains = true;
        }
        let request = message(lab::ECHO, lab::VERSION, None)?;
        let refusal = self.ask(family, NlmF::ACK, request)?.next();
        match refusal.context("a refusal")? {
            Err(RouterError::Nlmsgerr(error)) => Ok(missing_in(&error).ok()),
            Err(error) => Err(anyhow!("{error}")),
            Ok(_) => bail!("not a refusal"),
        }
    }
}

fn main() -> ExitCode {
    exchange::run::<Router>()
}
