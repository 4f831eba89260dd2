// SPDX-License-Identifier: GPL-2.0-or-later
//! `connections`: lists the connections that the firewall follows, page by page.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use serde_json::{json, Value};

use crate::arguments::{Arguments, Connections};
use crate::client;
use crate::failure::{tell, Exit, Failure};
use crate::output;
use crate::table::{self, Side};
use crate::units::span;

/// A connection, as docs/CONTROL.md describes it. Unknown keys are ignored.
#[derive(Clone, Debug, Deserialize)]
struct Connection {
    protocol: String,
    client: IpAddr,
    client_port: u16,
    server: IpAddr,
    server_port: u16,
    state: String,
    /// Protocol in which the client shows a name, e.g. "tls"; None: no name is complete yet, or the protocol has none.
    shows: Option<String>,
    name: Option<String>,
    age_ms: u64,
}

#[derive(Deserialize)]
struct Page {
    connections: Vec<Value>,
    /// Position at which the next page starts; None: this is the last page.
    next: Option<u64>,
}

/// Number of blanks before the continuation lines of a connection.
const INDENT: usize = 4;

fn row(connection: &Connection) -> [String; 7] {
    let end = |address, port| SocketAddr::new(address, port).to_string();
    let text = |text: &Option<String>| text.clone().unwrap_or("-".to_owned());
    [
        connection.state.clone(),
        connection.protocol.clone(),
        end(connection.client, connection.client_port),
        end(connection.server, connection.server_port),
        span(connection.age_ms / 1000),
        text(&connection.shows),
        text(&connection.name),
    ]
}

/// Formats connections for people, as a table.
fn text(connections: &[Connection]) -> Vec<String> {
    let names = ["state", "over", "client", "server", "age", "shows", "name"];
    let rows: Vec<_> = std::iter::once(names.map(str::to_owned))
        .chain(connections.iter().map(row))
        .collect();
    let mut sides = [Side::Left; 7];
    sides[4] = Side::Right;
    table::lines(sides, &rows)
}

/// Prints connections. Returns false if stdout can't be written.
fn print(arguments: &Arguments, connections: Vec<Value>) -> Result<bool, Failure> {
    if arguments.json {
        let lines: Vec<String> = connections.iter().map(Value::to_string).collect();
        return Ok(output::json(&lines));
    }
    let read = connections.into_iter().map(serde_json::from_value);
    let read: Result<Vec<Connection>, _> = read.collect();
    let read = read.map_err(|error| {
        let text = format!(
            "unsupported entry of a connection ({error}): use fwctl and firewall of the same version"
        );
        Failure::new(Exit::Refused, text)
    })?;
    Ok(match read.is_empty() {
        true => output::line(
            "no connections: the policy reads no names, or there are none of this kind",
        ),
        false => output::fitting(&text(&read), INDENT),
    })
}

pub fn run(arguments: &Arguments, asked: &Connections) -> Result<Exit, Failure> {
    let mut client = client::connect(&arguments.socket)?;
    let limit = usize::try_from(asked.limit).unwrap_or(usize::MAX);
    let mut connections = Vec::new();
    let mut from = Some(0);
    while let (Some(place), true) = (from, connections.len() <= limit) {
        let request =
            json!({"command": "connections", "undecided": asked.undecided, "from": place});
        let page: Page = client.ask(&request)?.read()?;
        // If the next page does not advance, the listing ends.
        from = page.next.filter(|next| *next > place);
        connections.extend(page.connections);
    }
    let has_more = connections.len() > limit;
    connections.truncate(limit);
    if print(arguments, connections)? && has_more {
        tell(
            "note",
            format!("there are more than {limit}: give a larger --limit"),
        );
    }
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_stands_on_a_line() {
        let connection = |name: &str| Connection {
            protocol: "tcp".to_owned(),
            client: "2001:db8::1".parse().unwrap(),
            client_port: 40000,
            server: "192.0.2.9".parse().unwrap(),
            server_port: 443,
            state: "named".to_owned(),
            shows: Some("tls".to_owned()),
            name: Some(name.to_owned()),
            age_ms: 65_000,
        };
        let nameless = Connection {
            state: "undecided".to_owned(),
            shows: None,
            name: None,
            ..connection("")
        };
        assert_eq!(
            text(&[connection("a.example"), nameless]).join("\n"),
            "state      over  client               server               age  shows  name\n\
             named      tcp   [2001:db8::1]:40000  192.0.2.9:443  1 min 5 s  tls    a.example\n\
             undecided  tcp   [2001:db8::1]:40000  192.0.2.9:443  1 min 5 s  -      -"
        );
    }
}
