// SPDX-License-Identifier: GPL-2.0-or-later
//! D-Bus by zbus, through the daemon.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::thread::park;

use anyhow::Result;
use exchange::dbus::{serve, Bus, LAB_NAME, LAB_PATH};
use exchange::measure::{self, Exchange};
use exchange::service::{self, calculate, judge, tick, Client, OPERATIONS};
use serde_bytes::{ByteBuf, Bytes};
use zbus::blocking::connection::{Builder, Connection};
use zbus::fdo::Error;
use zbus::message::Message;
use zbus::zvariant::DynamicType;

/// The D-Bus object that the server offers.
struct Lab;

#[zbus::interface(name = "org.twinwall.Lab")]
impl Lab {
    fn name(&self) -> &'static str {
        service::NAME
    }

    fn version(&self) -> (u32, u32, u32) {
        service::VERSION
    }

    fn ping(&self) {}

    fn add(&self, a: i32, b: i32) -> i32 {
        calculate(0, a, b)
    }

    fn subtract(&self, a: i32, b: i32) -> i32 {
        calculate(1, a, b)
    }

    fn multiply(&self, a: i32, b: i32) -> i32 {
        calculate(2, a, b)
    }

    fn divide(&self, a: i32, b: i32) -> i32 {
        calculate(3, a, b)
    }

    fn tick(&self) -> Result<u64, Error> {
        tick().map_err(|error| Error::Failed(error.to_string()))
    }

    fn verdict(&self, packet: ByteBuf) -> Result<(u32, u32), Error> {
        judge(&packet).ok_or_else(|| Error::InvalidArgs("no packet".into()))
    }
}

/// The client, which calls the server's object over a bus.
struct Zbus {
    connection: Connection,
    // Dropped last, after the connection.
    _bus: Bus,
}

impl Zbus {
    fn ask(&self, method: &str, body: &(impl serde::Serialize + DynamicType)) -> Result<Message> {
        let (name, path) = (Some(LAB_NAME), LAB_PATH);
        Ok(self
            .connection
            .call_method(name, path, Some(LAB_NAME), method, body)?)
    }
}

impl Client for Zbus {
    fn name(&mut self) -> Result<String> {
        Ok(self.ask("Name", &())?.body().deserialize()?)
    }

    fn version(&mut self) -> Result<(u32, u32, u32)> {
        Ok(self.ask("Version", &())?.body().deserialize()?)
    }

    fn ping(&mut self) -> Result<()> {
        self.ask("Ping", &()).map(drop)
    }

    fn calculate(&mut self, operation: usize, a: i32, b: i32) -> Result<i32> {
        let answer = self.ask(OPERATIONS[operation], &(a, b))?;
        Ok(answer.body().deserialize()?)
    }

    fn tick(&mut self) -> Result<u64> {
        Ok(self.ask("Tick", &())?.body().deserialize()?)
    }

    fn verdict(&mut self, packet: &[u8]) -> Result<(u32, u32)> {
        let answer = self.ask("Verdict", &Bytes::new(packet))?;
        Ok(answer.body().deserialize()?)
    }
}

fn server(address: &str, ready: &dyn Fn()) -> Result<()> {
    let builder = Builder::address(address)?.serve_at(LAB_PATH, Lab)?;
    let _connection = builder.name(LAB_NAME)?.build()?;
    ready();
    loop {
        park();
    }
}

fn open(operation: &str, bytes: usize) -> Result<Exchange> {
    let bus = Bus::start()?;
    let peers = bus.peers();
    let client = Zbus {
        connection: Builder::address(&*bus.address)?.build()?,
        _bus: bus,
    };
    Ok(Exchange {
        once: service::once(operation, bytes, client)?,
        peers,
    })
}

fn main() -> ExitCode {
    match serve(server) {
        None => measure::run(open),
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
