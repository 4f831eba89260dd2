// SPDX-License-Identifier: GPL-2.0-or-later
//! `fleet init`: users and roles in etcd, and files for the operator and for each host.

use std::fs::{self, DirBuilder};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use fleet::failure::{at, request, system, Result};
use fleet::{file, roles};
use minisign::KeyPair;

use super::arguments::Init;
use crate::failure::Exit;
use crate::output;

/// Returns a password of 128 random bits.
fn password() -> Result<String> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    let mut opened = fs::File::open(source).map_err(at(source))?;
    opened.read_exact(&mut bytes).map_err(at(source))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    file::replace(&folder.join(name), text.as_bytes())
}

/// Returns the text of a host's /etc/twinwall/fleet.conf, which the units twinwall-agent and twinwall-fleet@ read.
fn configuration(asked: &Init, host: &str) -> String {
    format!(
        "# /etc/twinwall/fleet.conf\nTWINWALL_FLEET_ETCD={}\nTWINWALL_FLEET_CHANNEL={}\nTWINWALL_FLEET_HOST={host}\n\
         TWINWALL_FLEET_LOGIN=/etc/twinwall/fleet.login\n",
        asked.servers.etcd.join(","),
        asked.channel
    )
}

pub fn run(asked: &Init) -> Result<Exit> {
    let out = &asked.out;
    let made = DirBuilder::new().mode(0o700).create(out);
    made.map_err(|error| {
        request(format_args!(
            "{}: {error}: name a folder that is not there",
            out.display()
        ))
    })?;
    let pair = KeyPair::generate_unencrypted_keypair()
        .map_err(|error| system(format_args!("a key pair: {error}: try again")))?;
    let texts = pair.pk.to_box().and_then(|public| {
        let secret = pair.sk.to_box(None)?;
        Ok((public.into_string(), secret.into_string()))
    });
    let (public, secret) =
        texts.map_err(|error| system(format_args!("a key pair: {error}: try again")))?;
    write(out, "fleet.key", &secret)?;
    write(out, "fleet.keys", &public)?;
    let mut etcd = super::etcd(&asked.servers)?;
    let operator = password()?;
    roles::add_operator(&mut etcd, &operator)?;
    write(
        out,
        "operator.login",
        &format!("{}:{operator}\n", roles::OPERATOR),
    )?;
    for host in &asked.host {
        let secret = password()?;
        roles::add_host(&mut etcd, &asked.channel, host, &secret)?;
        let folder = out.join(host);
        file::make_folder(&folder)?;
        write(&folder, "fleet.conf", &configuration(asked, host))?;
        write(
            &folder,
            "fleet.login",
            &format!("{}:{secret}\n", roles::host_user(host)),
        )?;
        write(&folder, "fleet.keys", &public)?;
    }
    if asked.enable_auth {
        let root = password()?;
        write(out, "root.login", &format!("root:{root}\n"))?;
        roles::enable(&mut etcd, &root)?;
    }
    output::line(&format!(
        "{}: keep fleet.key and operator.login; copy each host's folder to its /etc/twinwall",
        out.display()
    ));
    Ok(Exit::Fine)
}
