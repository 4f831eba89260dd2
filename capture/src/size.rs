// SPDX-License-Identifier: GPL-2.0-or-later
//! Parses sizes and times of the command line.

use std::time::Duration;

/// Parses a size to bytes: `64M` (binary), `1GB` (decimal), or a number of bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is no size: 64M, 1GB");
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit: u64 = match unit {
        "" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

/// Limits at which a new file begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    pub bytes: Option<u64>,
    pub time: Option<Duration>,
}

/// Minimum of a file's size limit, in bytes: each file has room for at least one chunk of packets.
const SMALLEST: u64 = 1_000_000;

/// Parses `1GB,10min`: a size, a time (`s`, `min`, `h`), or both.
pub fn rotation(text: &str) -> Result<Rotation, String> {
    let mut rotation = Rotation::default();
    for part in text.split(',') {
        let seconds = [("s", 1), ("min", 60), ("h", 3600)];
        let time = seconds.iter().find_map(|(unit, seconds)| {
            let number: u64 = part.strip_suffix(unit)?.parse().ok()?;
            number.checked_mul(*seconds).filter(|time| *time > 0)
        });
        match time {
            Some(time) if rotation.time.is_none() => {
                rotation.time = Some(Duration::from_secs(time));
            }
            None if rotation.bytes.is_none() => {
                let bytes = bytes(part)
                    .map_err(|_| format!("\"{part}\" is neither a size nor a time: 1GB,10min"))?;
                if bytes < SMALLEST {
                    return Err(format!("\"{part}\" is less than 1MB"));
                }
                rotation.bytes = Some(bytes);
            }
            _ => return Err(format!("\"{part}\" says it twice: one size, one time")),
        }
    }
    Ok(rotation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_or_decimal() {
        assert_eq!(bytes("64M"), Ok(64 << 20));
        assert_eq!(bytes("1GB"), Ok(1_000_000_000));
        assert_eq!(bytes("4096"), Ok(4096));
        for text in [
            "",
            "M",
            "1X",
            "-1",
            "1 M",
            "99999999999999999999",
            "18446744073709551615K",
        ] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_rotation_is_a_size_or_a_time_or_both() {
        let both = rotation("1GB,10min").unwrap();
        assert_eq!(both.bytes, Some(1_000_000_000));
        assert_eq!(both.time, Some(Duration::from_secs(600)));
        assert_eq!(rotation("2h").unwrap().bytes, None);
        assert_eq!(rotation("30s").unwrap().time, Some(Duration::from_secs(30)));
        for text in ["", "0s", "1GB,1GB", "1s,2s", "10", "1GB,", "x"] {
            assert!(rotation(text).is_err(), "{text}");
        }
    }
}
