// SPDX-License-Identifier: GPL-2.0-or-later
//! Text with its signatures, in one value: a store that writes two values could pair them wrongly. The signatures are
//! minisign's (prehashed Ed25519): `minisign -V` verifies them, and `minisign -S` makes them.

use std::io::Cursor;

use minisign::{SecretKey, SignatureBox};
use serde::{Deserialize, Serialize};

use crate::failure::{request, untrusted, Result};
use crate::keys::Keys;

/// Maximum size in bytes of a signed text with its signatures.
pub const SIGNED_MAX: usize = 64 << 10;
const SIGNATURES_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    pub text: String,
    /// Signatures of the text, each in the format of a .minisig file.
    pub signatures: Vec<String>,
}

impl Signed {
    /// Signs a text with each of the keys.
    pub fn sign(text: String, keys: &[SecretKey]) -> Result<Signed> {
        let sign = |key: &SecretKey| {
            let comment = Some("twinwall fleet");
            let made = minisign::sign(None, key, Cursor::new(&text), comment, None);
            made.map(SignatureBox::into_string)
                .map_err(|error| request(format_args!("signing: {error}: name another key")))
        };
        let signatures = keys.iter().map(sign).collect::<Result<_>>()?;
        Ok(Signed { text, signatures })
    }

    /// Parses a value of the store. Verifies nothing.
    pub fn parse(value: &[u8]) -> Result<Signed> {
        let broken =
            |why: String| untrusted(format_args!("it is no signed text: {why}: push again"));
        if value.len() > SIGNED_MAX {
            return Err(broken(format!("it is longer than {SIGNED_MAX} bytes")));
        }
        serde_json::from_slice(value).map_err(|error| broken(error.to_string()))
    }

    pub fn value(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the text if enough of the keys have signed it.
    pub fn verify(&self, keys: &Keys) -> Result<&str> {
        let signatures = self.signatures.iter().take(SIGNATURES_MAX);
        let boxes: Vec<SignatureBox> = signatures
            .filter_map(|text| SignatureBox::from_string(text).ok())
            .collect();
        let has_signed = |key: &&minisign::PublicKey| {
            boxes.iter().any(|one| {
                let text = Cursor::new(&self.text);
                minisign::verify(key, one, text, true, false, false).is_ok()
            })
        };
        let valid = keys.keys.iter().filter(has_signed).count();
        if valid < keys.need {
            return Err(untrusted(format_args!(
                "{valid} of the keys have signed it, {} must: sign with keys that the hosts' keys files have",
                keys.need
            )));
        }
        Ok(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;
    use minisign::KeyPair;
    use std::process::Command;

    fn keys_of(need: usize, pairs: &[&KeyPair]) -> Keys {
        let lines: Vec<String> = pairs.iter().map(|pair| pair.pk.to_base64()).collect();
        Keys::parse("k", &format!("need {need}\n{}", lines.join("\n"))).unwrap()
    }

    fn pair() -> KeyPair {
        KeyPair::generate_unencrypted_keypair().unwrap()
    }

    #[test]
    fn a_signature_holds_for_its_text_and_key_alone() {
        let (ours, foreign) = (pair(), pair());
        let keys = keys_of(1, &[&ours]);
        let signed = Signed::sign("text".to_owned(), std::slice::from_ref(&ours.sk)).unwrap();
        assert_eq!(signed.verify(&keys).unwrap(), "text");
        assert_eq!(Signed::parse(&signed.value()).unwrap(), signed);
        assert!(signed.verify(&keys_of(1, &[&foreign])).is_err());
        let mut other = signed.clone();
        other.text.push(' ');
        assert!(other.verify(&keys).is_err());
        let foreign = Signed::sign("text".to_owned(), &[foreign.sk]).unwrap();
        assert!(foreign.verify(&keys).is_err());
    }

    #[test]
    fn two_of_three_are_two_keys_and_not_one_twice() {
        let (a, b, c) = (pair(), pair(), pair());
        let keys = keys_of(2, &[&a, &b, &c]);
        let sign = |keys: &[&KeyPair]| {
            let keys: Vec<SecretKey> = keys.iter().map(|pair| pair.sk.clone()).collect();
            Signed::sign("text".to_owned(), &keys).unwrap()
        };
        assert!(sign(&[&a, &c]).verify(&keys).is_ok());
        assert!(sign(&[&b]).verify(&keys).is_err());
        assert!(sign(&[&b, &b]).verify(&keys).is_err());
    }

    #[test]
    fn garbage_is_refused() {
        for value in [
            &b""[..],
            b"{}",
            b"{\"text\":1}",
            b"\xff",
            &vec![b' '; SIGNED_MAX + 1],
        ] {
            assert!(Signed::parse(value).is_err());
        }
        let signed = Signed {
            text: "text".to_owned(),
            signatures: vec!["x".to_owned(); 100],
        };
        assert!(signed.verify(&keys_of(1, &[&pair()])).is_err());
    }

    /// Runs Debian's minisign.
    fn minisign(arguments: &[&str]) -> bool {
        let output = Command::new("minisign").args(arguments).output();
        output.expect("make deps").status.success()
    }

    #[test]
    fn debians_minisign_verifies_ours_and_signs_for_us() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
        // Our signature, verified by minisign.
        let ours = pair();
        let signed =
            Signed::sign("a pointer\n".to_owned(), std::slice::from_ref(&ours.sk)).unwrap();
        write("text", &signed.text);
        write("text.minisig", &signed.signatures[0]);
        let key = ours.pk.to_base64();
        assert!(minisign(&["-V", "-q", "-P", &key, "-m", &path("text")]));
        write("text", "another\n");
        assert!(!minisign(&["-V", "-q", "-P", &key, "-m", &path("text")]));
        // minisign's signature, verified by us; then minisign's key signs through us.
        let (public, secret) = (path("key.pub"), path("key.sec"));
        assert!(minisign(&["-G", "-W", "-p", &public, "-s", &secret]));
        write("theirs", "their text\n");
        assert!(minisign(&["-S", "-s", &secret, "-m", &path("theirs")]));
        let keys = Keys::parse("k", &std::fs::read_to_string(&public).unwrap()).unwrap();
        let signed = Signed {
            text: "their text\n".to_owned(),
            signatures: vec![std::fs::read_to_string(path("theirs.minisig")).unwrap()],
        };
        assert!(signed.verify(&keys).is_ok());
        let text = std::fs::read_to_string(&secret).unwrap();
        let key = keys::secret("key.sec", &text, None).unwrap();
        assert!(Signed::sign("x".to_owned(), &[key])
            .unwrap()
            .verify(&keys)
            .is_ok());
    }
}
