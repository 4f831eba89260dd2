// SPDX-License-Identifier: GPL-2.0-or-later
//! Options that name the store. They are the same for the agent and for root's service, which read the same fleet.conf.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::etcd::{Etcd, Login, Place};
use crate::failure::Result;
use crate::http::{Tls, Url};
use crate::store::{self, Store};

#[derive(Args, Clone, Debug)]
pub struct StoreOptions {
    /// The servers of etcd: https://HOST:PORT, with commas between
    #[arg(
        long,
        value_name = "URLS",
        env = "TWINWALL_FLEET_ETCD",
        value_delimiter = ','
    )]
    #[arg(required_unless_present = "folder", conflicts_with = "folder")]
    pub etcd: Vec<String>,
    /// A folder in place of etcd: https://HOST/FOLDER or file:///FOLDER
    #[arg(long, value_name = "URL", env = "TWINWALL_FLEET_FOLDER")]
    pub folder: Option<String>,
    /// A file with USER:PASSWORD for etcd
    #[arg(long, value_name = "FILE", env = "TWINWALL_FLEET_LOGIN")]
    pub login: Option<PathBuf>,
    /// Certificates of authorities, in PEM (default: the system's)
    #[arg(long, value_name = "FILE", env = "TWINWALL_FLEET_CA")]
    pub ca: Option<PathBuf>,
}

/// Returns the TLS settings for addresses; without TLS if no address needs it and `ca` is None.
/// - ca: certificates of authorities; None: the system's.
pub fn tls<'a>(mut urls: impl Iterator<Item = &'a String>, ca: Option<&Path>) -> Result<Tls> {
    match urls.any(|url| url.starts_with("https:")) || ca.is_some() {
        true => Tls::read(ca),
        false => Ok(Tls::without()),
    }
}

/// Returns a client of etcd's servers.
pub fn etcd(urls: &[String], tls: &Tls, login: Option<Login>) -> Result<Etcd> {
    let endpoints = urls.iter().map(|url| Url::parse(url));
    Ok(Etcd::new(Place {
        endpoints: endpoints.collect::<Result<_>>()?,
        tls: tls.clone(),
        login,
    }))
}

impl StoreOptions {
    pub fn tls(&self) -> Result<Tls> {
        tls(self.etcd.iter().chain(&self.folder), self.ca.as_deref())
    }

    /// Reads name and password of etcd's user from the file of --login; None: the option is not given.
    pub fn login(&self) -> Result<Option<Login>> {
        self.login.as_deref().map(Login::read).transpose()
    }

    pub fn open(&self, tls: &Tls, login: Option<Login>) -> Result<Store> {
        Ok(match &self.folder {
            Some(folder) => Store::Folder(store::Place::parse(folder, tls)?),
            None => Store::etcd(etcd(&self.etcd, tls, login)?),
        })
    }
}
