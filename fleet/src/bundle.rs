// SPDX-License-Identifier: GPL-2.0-or-later
//! Bundle: a policy with its included files inserted, and the lists that it reads. It is JSON with sorted names, so
//! that the same policy always has the same digest.

use std::collections::BTreeMap;
use std::fs;
use std::io::Error;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::failure::{at, request, system, untrusted, Result};
use crate::file;

/// Maximum size of a bundle in bytes.
pub const BUNDLE_MAX: usize = 16 << 20;
/// Maximum size of a bundle in etcd, in bytes. etcd's limit of a request is 1.5 MiB, and base64 makes four bytes of
/// three.
pub const ETCD_MAX: usize = 1 << 20;
/// Name of the policy's file in a bundle (a key of `files`).
pub const POLICY: &str = "policy.nft";
const BUNDLE: &str = "twinwall-bundle";
const FILES_MAX: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    kind: String,
    /// Texts of files, by paths relative to the policy's folder.
    pub files: BTreeMap<String, String>,
}

/// Returns the SHA-256 of bytes in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns true if a path stays below the folder to which it is joined.
fn is_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

impl Bundle {
    /// Packs a policy with its included files and its lists. Refuses lists outside of the policy's folder, and a list
    /// with the policy's name in the bundle.
    pub fn pack(path: &Path) -> Result<Bundle> {
        let source = apply::source::read(path)?;
        let folder = source.file.parent().unwrap_or(Path::new("/"));
        let mut files = BTreeMap::new();
        // A list's path is relative to the policy's folder, even if an included file of another folder names the list.
        let text = source.text.map_lists(|path| {
            let name = path.strip_prefix(folder).ok().and_then(Path::to_str);
            let name = name.filter(|name| is_inside(name)).ok_or_else(|| {
                let shown = path.display();
                Error::other(format!(
                    "{shown} lies outside of the policy's folder: move it there, and name it without .. and /"
                ))
            })?;
            if name == POLICY {
                let shown = path.display();
                return Err(Error::other(format!(
                    "{shown} has the name of the policy in a bundle: give the list another name"
                )));
            }
            let list = fs::read_to_string(path).map_err(|error| {
                Error::other(format!("{}: {error}: name a list that can be read", path.display()))
            })?;
            files.insert(name.to_owned(), list);
            Ok(PathBuf::from(name))
        });
        let text =
            text.map_err(|error| request(format_args!("{}: list {error}", source.file.display())))?;
        files.insert(POLICY.to_owned(), text.text);
        let kind = BUNDLE.to_owned();
        Ok(Bundle { kind, files })
    }

    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the bundle's bytes and their digest, by which it is stored.
    pub fn packed(&self) -> (Vec<u8>, String) {
        let bytes = self.bytes();
        let digest = digest(&bytes);
        (bytes, digest)
    }

    /// Parses a bundle. Fails if it does not have the digest `expected`, or is not valid.
    pub fn parse(bytes: &[u8], expected: &str) -> Result<Bundle> {
        if bytes.len() > BUNDLE_MAX {
            return Err(untrusted(format_args!(
                "the bundle has {} bytes, more than {BUNDLE_MAX}: make the policy smaller",
                bytes.len()
            )));
        }
        let found = digest(bytes);
        if found != expected {
            return Err(untrusted(format_args!(
                "the bundle is another one or not whole: its digest is {found} instead of {expected}: push again"
            )));
        }
        let broken = |why: &str| untrusted(format_args!("the bundle: {why}: push again"));
        let read: Bundle =
            serde_json::from_slice(bytes).map_err(|error| broken(&error.to_string()))?;
        let is_sound = read.kind == BUNDLE
            && read.files.len() <= FILES_MAX
            && read.files.contains_key(POLICY)
            && read.files.keys().all(|name| is_inside(name));
        match is_sound {
            true => Ok(read),
            false => Err(broken(
                "it has no policy, or names of files that leave its folder",
            )),
        }
    }

    /// Writes the files into a folder. An existing folder is removed first.
    pub fn unpack(&self, folder: &Path) -> Result<()> {
        if let Err(error) = fs::remove_dir_all(folder) {
            if error.kind() != std::io::ErrorKind::NotFound {
                return Err(at(folder)(error));
            }
        }
        for (name, text) in &self.files {
            let path = folder.join(name);
            let parent = path
                .parent()
                .ok_or_else(|| system("a file without a folder: push again"))?;
            file::make_folder(parent)?;
            file::replace(&path, text.as_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed() -> (tempfile::TempDir, Bundle) {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("web.nft", "include \"part.nft\"\n");
        write(
            "part.nft",
            "table inet f {\n\tset bad {\n\t\tfile \"bad.txt\"\n\t}\n}\n",
        );
        write("bad.txt", "example.com\n");
        let bundle = Bundle::pack(&folder.path().join("web.nft")).unwrap();
        (folder, bundle)
    }

    #[test]
    fn a_bundle_has_all_that_the_policy_reads() {
        let (folder, bundle) = packed();
        let bytes = bundle.bytes();
        assert_eq!(Bundle::parse(&bytes, &digest(&bytes)).unwrap(), bundle);
        let to = folder.path().join("to");
        bundle.unpack(&to).unwrap();
        bundle.unpack(&to).unwrap();
        let names: Vec<&String> = bundle.files.keys().collect();
        assert_eq!(names, ["bad.txt", "policy.nft"]);
        let read = |name: &str| fs::read_to_string(to.join(name)).unwrap();
        assert_eq!(read("bad.txt"), "example.com\n");
        assert!(read("policy.nft").starts_with("table inet f {"));
    }

    #[test]
    fn cut_changed_and_leaving_bundles_are_refused() {
        let (folder, bundle) = packed();
        let bytes = bundle.bytes();
        let expected = digest(&bytes);
        assert!(Bundle::parse(&bytes[..bytes.len() - 1], &expected).is_err());
        for name in ["../x", "/etc/x", "a/../../x", "", "."] {
            let mut other = bundle.clone();
            other.files.insert(name.to_owned(), String::new());
            let bytes = other.bytes();
            assert!(Bundle::parse(&bytes, &digest(&bytes)).is_err(), "{name}");
        }
        let mut other = bundle;
        other.files.remove(POLICY);
        let bytes = other.bytes();
        assert!(Bundle::parse(&bytes, &digest(&bytes)).is_err());
        let policy = folder.path().join("web.nft");
        fs::write(&policy, "table inet f { set a { file \"../a\" } }\n").unwrap();
        let said = Bundle::pack(&policy).unwrap_err().text;
        assert!(said.contains("outside of the policy's folder"), "{said}");
        fs::write(folder.path().join(POLICY), "example.com\n").unwrap();
        fs::write(&policy, "table inet f { set a { file \"policy.nft\" } }\n").unwrap();
        let said = Bundle::pack(&policy).unwrap_err().text;
        assert!(said.contains("give the list another name"), "{said}");
    }
}
