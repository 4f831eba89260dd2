// SPDX-License-Identifier: GPL-2.0-or-later
//! Keys file: the public keys that a host trusts. These are minisign's public keys, one per line; `need N` requires
//! signatures of N keys.

use base64::prelude::{Engine, BASE64_STANDARD};
use minisign::{PublicKey, SecretKey, SecretKeyBox};
use serde::{Deserialize, Serialize};

use crate::failure::{request, Result};

/// Maximum number of public keys in a keys file.
const KEYS_MAX: usize = 16;
/// Value of `kind` in a rotation (the signed message with the new keys of a channel's hosts).
pub const ROTATION: &str = "twinwall-keys";

/// Public keys that a host trusts, and the minimum number of them that must have signed a message.
#[derive(Clone, Debug)]
pub struct Keys {
    pub need: usize,
    pub keys: Vec<PublicKey>,
}

/// Rotation: new keys, signed with the old keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// Kind of the message, always ROTATION.
    pub kind: String,
    pub channel: String,
    /// Serial number of the rotation, larger than that of the previous rotation.
    pub serial: u64,
    /// Text of the new keys file.
    pub keys: String,
}

impl Keys {
    /// Parses the text of a keys file. Fails with the line that is wrong, or with the number of keys if there are too
    /// many or too few.
    /// - file: name of the file, for messages.
    pub fn parse(file: &str, text: &str) -> Result<Keys> {
        let mut read = Keys {
            need: 1,
            keys: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            let refuse = |cause: &str, cure: &str| {
                request(format_args!("{file}:{}: {cause}: {cure}", number + 1))
            };
            if line.is_empty() || line.starts_with('#') || line.starts_with("untrusted comment:") {
                continue;
            }
            if let Some(need) = line.strip_prefix("need ") {
                let need = need.trim().parse().ok().filter(|need| *need > 0);
                read.need = need.ok_or_else(|| refuse("no number", "write need 1, or more"))?;
                continue;
            }
            let key = PublicKey::from_base64(line);
            let key = key.map_err(|_| {
                refuse(
                    "no public key of minisign",
                    "copy the second line of the .pub file",
                )
            })?;
            let is_known = |one: &PublicKey| one.keynum() == key.keynum() || *one == key;
            if read.keys.iter().any(is_known) {
                return Err(refuse("the key is listed twice", "remove the line"));
            }
            read.keys.push(key);
        }
        let count = read.keys.len();
        if count == 0 || count > KEYS_MAX || count < read.need {
            return Err(request(format_args!(
                "{file}: {count} keys, of which {} must sign: write as many keys as must sign, at most {KEYS_MAX}",
                read.need
            )));
        }
        Ok(read)
    }
}

/// Parses a secret key of minisign.
/// - file: name of the file, for messages.
/// - password: password of the key, if it has one.
pub fn secret(file: &str, text: &str, password: Option<String>) -> Result<SecretKey> {
    let fail = |error: minisign::PError| {
        request(format_args!(
            "{file}: {error}: name a secret key of minisign, with its password in TWINWALL_KEY_PASSWORD if it has one"
        ))
    };
    if let Some(password) = password {
        let sealed = SecretKeyBox::from_string(text).map_err(fail)?;
        return sealed.into_secret_key(Some(password)).map_err(fail);
    }
    // minisign 0.11 writes no checksum into a key without a password, but `into_unencrypted_secret_key` requires it.
    let line = text.lines().nth(1).unwrap_or_default().trim();
    let bytes = BASE64_STANDARD.decode(line).unwrap_or_default();
    let key = SecretKey::from_bytes(&bytes).map_err(fail)?;
    match key.is_encrypted() {
        false => Ok(key),
        true => Err(request(format_args!(
            "{file}: the key has a password: set TWINWALL_KEY_PASSWORD"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minisign::KeyPair;

    #[test]
    fn a_keys_file_says_its_mistake() {
        let key = KeyPair::generate_unencrypted_keypair()
            .unwrap()
            .pk
            .to_base64();
        let read = Keys::parse("k", &format!("# web\nuntrusted comment: x\n{key}\n")).unwrap();
        assert_eq!((read.need, read.keys.len()), (1, 1));
        for (text, words) in [
            (String::new(), "k: 0 keys"),
            (format!("need 2\n{key}\n"), "of which 2 must sign"),
            (format!("{key}\n{key}\n"), "k:2: the key is listed twice"),
            ("need x\n".to_owned(), "k:1: no number"),
            ("need 0\n".to_owned(), "k:1: no number"),
            (format!("{key}AAAA\n"), "k:1: no public key"),
        ] {
            let said = Keys::parse("k", &text).unwrap_err().text;
            assert!(said.contains(words), "{said}");
        }
    }
}
