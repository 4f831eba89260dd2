// SPDX-License-Identifier: GPL-2.0-or-later
//! Check of the files that are written when the command has ended: the report, and the learned policy.

use std::fs;
use std::path::Path;

use rustix::fs::{access, Access};
use rustix::io::Errno;

use crate::failure::{words, Failure};
use crate::settings::{Settings, Source};

/// Fails if a file can't be written. Creates no file, because the command may fail to start.
fn check_file(path: &Path) -> Result<(), Failure> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let checked = match fs::metadata(path) {
        Ok(data) if data.is_dir() => Err(Errno::ISDIR),
        Ok(_) => access(path, Access::WRITE_OK),
        Err(_) => access(folder, Access::WRITE_OK | Access::EXEC_OK),
    };
    checked.map_err(|error| {
        Failure::new(format_args!(
            "{} can't be written ({}): choose another file",
            path.display(),
            words(&error.into())
        ))
    })
}

/// Fails if the report or the learned policy can't be written.
pub fn check(settings: &Settings) -> Result<(), Failure> {
    let learned = match &settings.source {
        Source::Learn(file) => Some(file),
        _ => None,
    };
    let mut files = settings.report.iter().chain(learned);
    files.try_for_each(|file| check_file(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_found() {
        let folder = std::env::temp_dir().join(format!("cage-output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("report.json");
        check_file(&file).unwrap();
        assert!(!file.exists());
        fs::write(&file, "old").unwrap();
        check_file(&file).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"old");
        for wrong in [&folder, &folder.join("missing/report.json")] {
            let failure = check_file(wrong).unwrap_err();
            assert_eq!(failure.code, crate::failure::CAGE);
            assert!(failure.text.contains("can't be written"), "{failure:?}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
