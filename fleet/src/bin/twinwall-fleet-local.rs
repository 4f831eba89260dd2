// SPDX-License-Identifier: GPL-2.0-or-later
//! twinwall-fleet-local: root's service of a host, which applies, confirms and reverts (docs/FLEET.md).

use std::cell::OnceCell;
use std::io::{self, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use fleet::local;
use fleet::local::protocol::{self, Answer};
use fleet::local::service::Host;
use fleet::options::StoreOptions;
use fleet::pointer::is_name;

/// Serve one request of twinwall-agent, on stdin and stdout
///
/// systemd starts it for each connection to its socket. It verifies signature,
/// digest and generation itself, connects to the store itself before it confirms,
/// and runs fwctl.
#[derive(Parser)]
#[command(version, term_width = 80)]
#[command(
    after_help = "Exit status: 0 the answer was written, a refusal too; 1 it could not be written; 2 bad command line."
)]
struct Options {
    /// The name of this host, the same as for the agent
    #[arg(long, value_name = "ID", env = "TWINWALL_FLEET_HOST", value_parser = name)]
    host: Option<String>,
    /// The channel whose policy this host applies
    #[arg(long, value_name = "NAME", env = "TWINWALL_FLEET_CHANNEL", value_parser = name)]
    channel: String,
    /// The public keys that must have signed
    #[arg(long, value_name = "FILE", default_value = "/etc/twinwall/fleet.keys")]
    keys: PathBuf,
    /// The folder of the service
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/twinwall/fleet")]
    state: PathBuf,
    /// The folder of `fwctl apply`
    #[arg(long, value_name = "FOLDER", default_value = apply::store::FOLDER)]
    apply_state: PathBuf,
    /// The program fwctl
    #[arg(long, value_name = "FILE", default_value = "/usr/bin/fwctl")]
    fwctl: PathBuf,
    /// The control socket of the firewall whose ledger must reconcile
    #[arg(long, value_name = "PATH", env = "TWINWALL_CONTROL")]
    control: Option<PathBuf>,
    /// The folder of the record that the unit twinwall-record keeps
    #[arg(long, value_name = "FOLDER", default_value = fleet::local::past::RECORD)]
    record: PathBuf,
    #[command(flatten)]
    store: StoreOptions,
    /// Connect to the store, for the service itself
    #[arg(long, hide = true)]
    reach: bool,
}

fn name(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("expected 1 to 64 of a-z, A-Z, 0-9, -, _ and .".to_owned()),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.reach {
        let Err(failure) = local::reach::ask(&options.store, &options.channel) else {
            return ExitCode::SUCCESS;
        };
        eprintln!("error: {}", failure.text);
        return ExitCode::FAILURE;
    }
    let answer = match protocol::read(BufReader::new(io::stdin())) {
        Ok((request, bundle)) => {
            let host = Host {
                id: options.host.unwrap_or_else(fleet::agent::host_name),
                channel: options.channel,
                keys: options.keys,
                folder: options.state,
                apply: options.apply_state,
                fwctl: options.fwctl,
                control: options.control,
                packets: options.record,
                asked: OnceCell::new(),
            };
            host.serve(&request, &bundle)
        }
        Err(failure) => Answer::Error(failure.text),
    };
    if let Answer::Error(text) = &answer {
        eprintln!("error: {text}");
    }
    let line = serde_json::to_string(&answer).unwrap_or_default() + "\n";
    match io::stdout().write_all(line.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
