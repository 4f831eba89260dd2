// SPDX-License-Identifier: GPL-2.0-or-later
//! Files with lists of names that a policy's sets include: `file "blocklist.txt"`.

use std::io;
use std::path::{Path, PathBuf};

use crate::source::Source;
use crate::{token, tree};

impl Source {
    /// Returns a copy of the policy in which the path of each file with a list of names is replaced. Fails if `change`
    /// fails.
    /// - change: is called with a file's absolute path, and returns the path to write into the copy.
    pub fn map_lists(
        &self,
        mut change: impl FnMut(&Path) -> io::Result<PathBuf>,
    ) -> io::Result<Source> {
        let tokens = token::tokens(&self.text);
        let sets = tree::read(&tokens).sets;
        let mut paths: Vec<usize> = sets
            .into_iter()
            .flat_map(|set| set.inner)
            .filter(|at| {
                *at > 0 && tokens.get(at - 1) == "file" && tokens.get(*at).starts_with('"')
            })
            .collect();
        paths.sort_unstable();
        paths.dedup();
        let mut mapped = self.clone();
        for at in paths.into_iter().rev() {
            let start = tokens.start(at);
            let path = self.folder(start).join(tokens.get(at).trim_matches('"'));
            let changed = change(&std::path::absolute(&path)?)?;
            let text = format!("\"{}\"", changed.display());
            mapped
                .text
                .replace_range(start..start + tokens.get(at).len(), &text);
        }
        Ok(mapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_lists_are_replaced() {
        let text = "table inet f {\n\tset s {\n\t\ttype hostname; file \"a.txt\"\n\t\tfile \"/b.txt\"\n\t}\n\tchain c { counter comment \"file\" }\n}\n";
        let source = crate::text("/etc/p.nft", text).unwrap();
        let mut seen = Vec::new();
        let mapped = source.map_lists(|path| {
            seen.push(path.display().to_string());
            Ok(PathBuf::from("/kept"))
        });
        assert_eq!(seen, ["/b.txt", "/etc/a.txt"]);
        let expected = text.replace("a.txt", "/kept").replace("/b.txt", "/kept");
        assert_eq!(mapped.unwrap().text, expected);
        assert!(source.map_lists(|_| Err(io::Error::other("gone"))).is_err());
    }
}
