// SPDX-License-Identifier: GPL-2.0-or-later
//! twinwall-agent: brings the policy of a channel to this host (docs/FLEET.md).

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use fleet::agent::{host_name, Agent, Settings};
use fleet::failure::{request, Result};
use fleet::local::protocol::SOCKET;
use fleet::options::StoreOptions;
use fleet::pointer::is_name;

/// Fetch the policy of a channel, and have it applied on this host
///
/// It needs no rights: a service of root (twinwall-fleet.socket) verifies the
/// signatures, and runs fwctl apply, confirm and revert.
#[derive(Parser)]
#[command(version, term_width = 80)]
#[command(
    after_help = "Exit status: 2 bad command line, or a file of it can't be read; it does not end else."
)]
struct Options {
    #[command(flatten)]
    store: StoreOptions,
    /// The channel whose policy this host applies
    #[arg(long, value_name = "NAME", env = "TWINWALL_FLEET_CHANNEL")]
    channel: String,
    /// The name of this host (default: the machine's hostname)
    #[arg(long, value_name = "ID", env = "TWINWALL_FLEET_HOST")]
    host: Option<String>,
    /// The folder for bundles
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/twinwall-agent")]
    staging: PathBuf,
    /// The socket of the service of root
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    local: PathBuf,
    /// Address of the firewall's metrics, for `fwctl fleet targets`
    #[arg(long, value_name = "ADDRESS:PORT", env = "TWINWALL_FLEET_METRICS")]
    metrics: Option<String>,
    /// A file for the node exporter's textfile collector
    #[arg(long, value_name = "FILE", env = "TWINWALL_FLEET_TEXTFILE")]
    textfile: Option<PathBuf>,
    /// Seconds between two reads of the store (default: about 24)
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    look: Option<u64>,
}

fn prepare(options: Options) -> Result<Agent> {
    let host = options.host.unwrap_or_else(host_name);
    for name in [&host, &options.channel] {
        if !is_name(name) {
            return Err(request(format_args!(
                "{name}: no name: write 1 to 64 of a-z, A-Z, 0-9, -, _ and ."
            )));
        }
    }
    let tls = options.store.tls()?;
    let store = options.store.open(&tls, options.store.login()?)?;
    let settings = Settings {
        host,
        channel: options.channel,
        staging: options.staging,
        local: options.local,
        tls,
        metrics: options.metrics,
        textfile: options.textfile,
        look: options.look.map(Duration::from_secs),
    };
    Ok(Agent::new(settings, store))
}

fn main() -> ExitCode {
    match prepare(Options::parse()) {
        Ok(agent) => agent.run(),
        Err(failure) => {
            eprintln!("error: {}", failure.text);
            ExitCode::from(2)
        }
    }
}
