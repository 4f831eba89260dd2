// SPDX-License-Identifier: GPL-2.0-or-later
//! twinwall-agent: brings the policy of a channel to this host (docs/FLEET.md).

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use fleet::agent::{host_name, Agent, Settings};
use fleet::etcd::{Etcd, Login, Place};
use fleet::failure::{at, request, Result};
use fleet::http::{Tls, Url};
use fleet::local::protocol::SOCKET;
use fleet::pointer::is_name;
use fleet::store::{self, Store};

/// Bring the policy of a channel to this host
///
/// It needs no rights: root's service (twinwall-fleet.socket) verifies the
/// signatures, and runs fwctl apply, confirm and revert.
#[derive(Parser)]
#[command(version, term_width = 80)]
struct Options {
    /// The servers of etcd: https://HOST:PORT, with commas between
    #[arg(
        long,
        value_name = "URLS",
        env = "TWINWALL_FLEET_ETCD",
        value_delimiter = ','
    )]
    #[arg(required_unless_present = "folder", conflicts_with = "folder")]
    etcd: Vec<String>,
    /// A folder in place of etcd: https://HOST/FOLDER or file:///FOLDER
    #[arg(long, value_name = "URL", env = "TWINWALL_FLEET_FOLDER")]
    folder: Option<String>,
    /// The channel whose policy this host takes
    #[arg(long, value_name = "NAME", env = "TWINWALL_FLEET_CHANNEL")]
    channel: String,
    /// The name of this host (default: the machine's)
    #[arg(long, value_name = "ID", env = "TWINWALL_FLEET_HOST")]
    host: Option<String>,
    /// A file with USER:PASSWORD for etcd
    #[arg(long, value_name = "FILE", env = "TWINWALL_FLEET_LOGIN")]
    login: Option<PathBuf>,
    /// Certificates of authorities, in PEM (default: the system's)
    #[arg(long, value_name = "FILE", env = "TWINWALL_FLEET_CA")]
    ca: Option<PathBuf>,
    /// The folder for bundles
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/twinwall-agent")]
    staging: PathBuf,
    /// The socket of root's service
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    local: PathBuf,
    /// Address of the firewall's metrics, for `fwctl fleet targets`
    #[arg(long, value_name = "ADDRESS:PORT", env = "TWINWALL_FLEET_METRICS")]
    metrics: Option<String>,
    /// A file for the node exporter's textfile collector
    #[arg(long, value_name = "FILE", env = "TWINWALL_FLEET_TEXTFILE")]
    textfile: Option<PathBuf>,
    /// Seconds between two looks at the store (default: about 24)
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    look: Option<u64>,
}

fn login(path: &Path) -> Result<Login> {
    let text = std::fs::read_to_string(path).map_err(at(path))?;
    let (user, password) = text.trim().split_once(':').ok_or_else(|| {
        let shown = path.display();
        request(format_args!(
            "{shown}: it is not USER:PASSWORD: write it so"
        ))
    })?;
    let (user, password) = (user.to_owned(), password.to_owned());
    Ok(Login { user, password })
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
    let mut urls = options.etcd.iter().chain(&options.folder);
    let tls = match urls.any(|url| url.starts_with("https:")) || options.ca.is_some() {
        true => Tls::read(options.ca.as_deref())?,
        false => Tls::without(),
    };
    let store = match &options.folder {
        Some(folder) => Store::Folder(store::Place::parse(folder, &tls)?),
        None => Store::etcd(Etcd::new(Place {
            endpoints: options
                .etcd
                .iter()
                .map(|url| Url::parse(url))
                .collect::<Result<_>>()?,
            tls: tls.clone(),
            login: options.login.as_deref().map(login).transpose()?,
        })),
    };
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
