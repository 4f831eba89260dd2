// SPDX-License-Identifier: GPL-2.0-or-later
//! Text of a policy with its included files inserted, and the origin of each line.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::token::{self, Kind};

/// Maximum depth of included files, as in nft.
const DEPTH_MAX: usize = 16;

/// Position in a policy: FILE:LINE, with lines from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Function that checks a file or folder before it is read. It fails with the reason.
pub type Check<'a> = &'a dyn Fn(&Path) -> io::Result<()>;

/// Text of a policy, with the files that it includes inserted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    pub text: String,
    /// For each line of the text: index of its file in `files`, and its line there, from 0.
    lines: Vec<(usize, usize)>,
    files: Vec<PathBuf>,
}

impl Source {
    /// Returns the file and line of a byte of the text.
    pub fn place(&self, at: usize) -> Place {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count();
        self.place_of_line(line + 1)
    }

    /// Returns the file and line from which a line of the text was read.
    /// - line: number of the line in the text, from 1.
    pub fn place_of_line(&self, line: usize) -> Place {
        let found = line.checked_sub(1).and_then(|line| self.lines.get(line));
        let (file, line) = found.copied().unwrap_or_default();
        Place {
            file: self.path(file).display().to_string(),
            line: line + 1,
        }
    }

    fn path(&self, file: usize) -> &Path {
        self.files.get(file).map_or(Path::new(""), PathBuf::as_path)
    }

    /// Returns the folder of the file from which a byte of the text was read.
    pub fn folder(&self, at: usize) -> PathBuf {
        let file = PathBuf::from(self.place(at).file);
        file.parent().map_or(PathBuf::new(), Path::to_owned)
    }

    fn add(&mut self, line: &str, file: usize, number: usize) {
        self.text.push_str(line);
        self.text.push('\n');
        self.lines.push((file, number));
    }

    fn add_text(&mut self, path: &Path, text: &str, depth: usize, check: Check) -> io::Result<()> {
        if depth > DEPTH_MAX {
            let text = format!("{}: more than {DEPTH_MAX} nested files", path.display());
            return Err(io::Error::other(text));
        }
        let file = self.files.len();
        self.files.push(path.to_owned());
        for (number, line) in text.lines().enumerate() {
            let Some(wanted) = included(line) else {
                check_line(line, path, number)?;
                self.add(line, file, number);
                continue;
            };
            let folder = path.parent().unwrap_or(Path::new(""));
            for path in matching(&folder.join(wanted), check)? {
                check(&path)?;
                let text = read(&path)?;
                self.add_text(&path, &text, depth + 1, check)?;
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path);
    text.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Fails if a line includes a file beside other commands: nft would read that file unchecked, and this crate not at
/// all.
fn check_line(line: &str, path: &Path, number: usize) -> io::Result<()> {
    let tokens = token::tokens(line);
    let is_include = |at| tokens.kind(at) == Kind::Word && tokens.get(at) == "include";
    if !(0..tokens.list.len()).any(is_include) {
        return Ok(());
    }
    let place = format!("{}:{}", path.display(), number + 1);
    let text = format!("{place}: an include beside another command: write it on a line of its own");
    Err(io::Error::other(text))
}

/// Returns the file that a line includes, if the line has nothing else.
fn included(line: &str) -> Option<String> {
    let tokens = token::tokens(line);
    let name = tokens.get(1).strip_prefix('"')?.strip_suffix('"')?;
    let is_alone = (2..tokens.list.len()).all(|at| tokens.kind(at) == Kind::End);
    (tokens.get(0) == "include" && is_alone).then(|| name.to_owned())
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// Checks the folders in which a pattern finds its files: a user who can write to a folder can remove a file from it.
fn check_folders(pattern: &Path, check: Check) -> io::Result<()> {
    let Some(folder) = pattern.parent() else {
        return Ok(());
    };
    if is_pattern(folder) {
        let mut found = matching(folder, check)?.into_iter();
        return found.try_for_each(|folder| check(&folder));
    }
    check(folder)
}

/// Returns the files that an include names, in order. A pattern may match no file. The file of a plain name must exist;
/// otherwise reading it fails.
fn matching(path: &Path, check: Check) -> io::Result<Vec<PathBuf>> {
    if !is_pattern(path) {
        return Ok(vec![path.to_owned()]);
    }
    check_folders(path, check)?;
    let pattern = path.to_string_lossy();
    // glob(3), which nft calls, reads these differently.
    if ["[^", "[[", "**", "\\"]
        .iter()
        .any(|part| pattern.contains(part))
    {
        let text = format!("{pattern}: write the pattern with *, ? and [a-z] only");
        return Err(io::Error::other(text));
    }
    let options = glob::MatchOptions {
        require_literal_leading_dot: true,
        ..glob::MatchOptions::new()
    };
    let found = glob::glob_with(&pattern, options);
    let found = found.map_err(|error| io::Error::other(error.to_string()))?;
    Ok(found.flatten().collect())
}

/// Reads a text named `name` with its included files. The path of an included file is relative to the folder of the
/// file that includes it. Fails if a file can't be read.
pub fn text(name: &str, text: &str) -> io::Result<Source> {
    let mut source = Source::default();
    source.add_text(Path::new(name), text, 1, &|_| Ok(()))?;
    Ok(source)
}

/// Reads a policy file with its included files.
pub fn file(path: &str) -> io::Result<Source> {
    checked_file(path, &|_| Ok(()))
}

/// Reads a policy's file with its included files. Each file, and each folder in which a pattern finds files, is checked
/// before it is opened.
pub fn checked_file(path: &str, check: Check) -> io::Result<Source> {
    let path = Path::new(path);
    check(path)?;
    let mut source = Source::default();
    source.add_text(path, &read(path)?, 1, check)?;
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_know_their_files() {
        let folder = std::env::temp_dir().join(format!("stage-source-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("b.nft"), "in b\n").unwrap();
        fs::write(folder.join("c.nft"), "in c\n").unwrap();
        let path = folder.join("a.nft");
        fs::write(
            &path,
            "first\ninclude \"*.nft.d\"\ninclude \"b.nft\"\nlast\n",
        )
        .unwrap();
        let source = file(path.to_str().unwrap()).unwrap();
        assert_eq!(source.text, "first\nin b\nlast\n");
        assert_eq!(source.place(8).line, 1);
        assert!(source.place(8).file.ends_with("b.nft"));
        assert_eq!(source.place(12).line, 4);
        fs::write(&path, "include \"[bc]*\"\ninclude \"b*\"\ninclude \"c*\"\n").unwrap();
        assert!(file(path.to_str().unwrap())
            .unwrap()
            .text
            .ends_with("in b\nin c\n"));
        fs::write(&path, "include \"gone.nft\"\n").unwrap();
        assert!(file(path.to_str().unwrap()).is_err());
        for line in [
            "include \"b.nft\"; accept",
            "accept; include \"b.nft\"",
            "include \\\n\"b.nft\"",
        ] {
            fs::write(&path, line).unwrap();
            let error = file(path.to_str().unwrap()).unwrap_err().to_string();
            assert!(error.contains("a.nft:1: an include beside"), "{error}");
        }
        fs::write(
            &path,
            "include \"b.nft\"; # why\naccept comment \"include\"\n",
        )
        .unwrap();
        let source = file(path.to_str().unwrap()).unwrap();
        assert_eq!(source.text, "in b\naccept comment \"include\"\n");
        fs::remove_dir_all(&folder).unwrap();
    }
}
