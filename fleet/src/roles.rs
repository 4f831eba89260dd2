// SPDX-License-Identifier: GPL-2.0-or-later
//! Users and roles of etcd: each host reads policies, and writes only its own keys.

use base64::prelude::{Engine, BASE64_STANDARD};
use serde_json::json;

use crate::etcd::Etcd;
use crate::failure::{Kind, Result};
use crate::report::Report;
use crate::store::key;

/// Name of the operator's user, and of the operator's role, in etcd.
pub const OPERATOR: &str = "twinwall-operator";
/// Name of etcd's permission to read; BOTH is the permission to read and write.
const READ: &str = "READ";
const BOTH: &str = "READWRITE";

/// Returns the name of a host's user and role.
pub fn host_user(host: &str) -> String {
    format!("twinwall-host-{host}")
}

/// Sends a request that creates an object; succeeds also if the object exists.
fn once(etcd: &mut Etcd, path: &str, body: serde_json::Value) -> Result<()> {
    match etcd.call(path, &body) {
        Err(failure)
            if failure.kind == Kind::Refused && failure.text.contains("already exists") =>
        {
            Ok(())
        }
        done => done.map(|_| ()),
    }
}

/// Grants a role a permission for the key `name`, or for all keys that begin with `name`.
fn grant(etcd: &mut Etcd, role: &str, right: &str, name: &str, is_prefix: bool) -> Result<()> {
    let mut range = json!({"permType": right, "key": BASE64_STANDARD.encode(name)});
    if is_prefix {
        range["range_end"] = json!(BASE64_STANDARD.encode(crate::etcd::prefix_end(name)));
    }
    let body = json!({"name": role, "perm": range});
    etcd.call("/v3/auth/role/grant", &body).map(|_| ())
}

fn user(etcd: &mut Etcd, name: &str, password: &str, role: &str) -> Result<()> {
    once(
        etcd,
        "/v3/auth/user/add",
        json!({"name": name, "password": password}),
    )?;
    let change = json!({"name": name, "password": password});
    etcd.call("/v3/auth/user/changepw", &change)?;
    let body = json!({"user": name, "role": role});
    etcd.call("/v3/auth/user/grant", &body).map(|_| ())
}

/// Creates the operator's user, who may change all keys of the fleet.
pub fn add_operator(etcd: &mut Etcd, password: &str) -> Result<()> {
    once(etcd, "/v3/auth/role/add", json!({"name": OPERATOR}))?;
    grant(etcd, OPERATOR, BOTH, key::PREFIX, true)?;
    user(etcd, OPERATOR, password, OPERATOR)
}

/// Creates a host's user in etcd, and the host's report unless there is one: `fwctl fleet status` lists the host as
/// silent until its agent reports.
pub fn add_host(etcd: &mut Etcd, channel: &str, host: &str, password: &str) -> Result<()> {
    let role = host_user(host);
    once(etcd, "/v3/auth/role/add", json!({"name": role}))?;
    for name in ["channel/", "policy/", "keys/"] {
        grant(etcd, &role, READ, &key::in_etcd(name), true)?;
    }
    for name in [key::host(host), key::alive(host)] {
        grant(etcd, &role, BOTH, &name, false)?;
    }
    user(etcd, &role, password, &role)?;
    let report = Report {
        channel: channel.to_owned(),
        error: Some("it has not reported yet".to_owned()),
        ..Report::default()
    };
    let text = serde_json::to_vec(&report).unwrap_or_default();
    etcd.put_if(0, &[(&key::host(host), &text)]).map(|_| ())
}

/// Creates etcd's root user, and enables authentication.
pub fn enable(etcd: &mut Etcd, password: &str) -> Result<()> {
    once(etcd, "/v3/auth/role/add", json!({"name": "root"}))?;
    user(etcd, "root", password, "root")?;
    etcd.call("/v3/auth/enable", &json!({})).map(|_| ())
}
