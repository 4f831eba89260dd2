// SPDX-License-Identifier: GPL-2.0-or-later
//! File names: expands `%Y%m%d-%H%M%S`.

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};

/// Makes the C library read the time zone only once, at the first use. Otherwise it would check the zone file at each
/// call, which the sandbox forbids. Must be called while there is one thread.
pub fn keep_zone() {
    if std::env::var_os("TZ").is_none() {
        std::env::set_var("TZ", ":/etc/localtime");
    }
}

/// Expands a template (strftime(3)) with the local time of `seconds` since 1970.
pub fn at(template: &str, seconds: i64) -> String {
    let mut text = [0 as libc::c_char; 4096];
    let Ok(form) = CString::new(template) else {
        return template.to_owned();
    };
    // SAFETY: localtime_r(3) fills the tm, for which all zeros is valid; strftime(3) writes at most the buffer's length and
    // terminates the text with a zero, or returns 0.
    let text = unsafe {
        let mut broken_down: libc::tm = std::mem::zeroed();
        libc::localtime_r(&seconds, &mut broken_down);
        match libc::strftime(text.as_mut_ptr(), text.len(), form.as_ptr(), &broken_down) {
            0 => return template.to_owned(),
            _ => CStr::from_ptr(text.as_ptr()),
        }
    };
    text.to_string_lossy().into_owned()
}

/// Inserts a number before the first extension of a file name that is already in use; 0 leaves it unchanged.
pub fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extension) = match name.split_at_checked(1) {
        // A dot at the start begins no extension.
        Some((_, rest)) => name.split_at(1 + rest.find('.').unwrap_or(rest.len())),
        None => (&*name, ""),
    };
    path.with_file_name(format!("{stem}-{number}{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_time_and_a_number() {
        let name = at("d/%Y-%%-%H.pcapng", 86_400 * 200);
        assert!(
            name.starts_with("d/1970-%-") && name.ends_with(".pcapng"),
            "{name}"
        );
        assert_eq!(at("plain", 0), "plain");
        for (name, number, wanted) in [
            ("d.e/x.pcapng.zst", 2, "d.e/x-2.pcapng.zst"),
            ("x", 1, "x-1"),
            (".x.y", 1, ".x-1.y"),
            ("x.pcapng", 0, "x.pcapng"),
        ] {
            assert_eq!(numbered(Path::new(name), number), Path::new(wanted));
        }
    }
}
