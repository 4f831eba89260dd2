// SPDX-License-Identifier: GPL-2.0-or-later
//! Port lists: `22,80,443,8000-8100`, `-100`, `60000-`, and `-` for all ports from 1 on.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Port numbers, sorted, without duplicates.
    list: Vec<u16>,
}

impl Ports {
    /// Parses a list of ports. The error quotes the wrong word, and states the expected form or that a range ends
    /// before it begins.
    pub fn parse(text: &str) -> Result<Ports, String> {
        let mut wanted = vec![false; 65536];
        for word in text.split(',') {
            let (first, last) = range(word.trim()).ok_or_else(|| {
                format!("\"{word}\": a port from 1 to 65535 or a range of them is expected")
            })?;
            if first > last {
                return Err(format!("\"{word}\": it ends before it begins"));
            }
            wanted[usize::from(first)..=usize::from(last)].fill(true);
        }
        let list = (1..=65535).filter(|&port: &u16| wanted[usize::from(port)]);
        Ok(Ports {
            list: list.collect(),
        })
    }

    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> u64 {
        self.list.len() as u64
    }

    /// Returns the port at a position in the list, from 0.
    ///
    /// # Panics
    /// If `member` is not below the length of the list.
    pub fn get(&self, member: u64) -> u16 {
        self.list[member as usize]
    }

    pub fn position(&self, port: u16) -> Option<u64> {
        self.list.binary_search(&port).ok().map(|at| at as u64)
    }

    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.list.iter().copied()
    }

    /// Formats the list in its shortest form: `22,80,8000-8100`.
    pub fn text(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        for run in self.list.chunk_by(|a, b| a + 1 == *b) {
            match run {
                [one] => words.push(one.to_string()),
                _ => words.push(format!("{}-{}", run[0], run[run.len() - 1])),
            }
        }
        words.join(",")
    }
}

fn range(word: &str) -> Option<(u16, u16)> {
    match word.split_once('-') {
        None => port(word).map(|port| (port, port)),
        Some((first, last)) => {
            let bound = |text: &str, open| match text {
                "" => Some(open),
                _ => port(text),
            };
            Some((bound(first, 1)?, bound(last, 65535)?))
        }
    }
}

fn port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| text.parse().ok())
        .flatten()
        .filter(|&port| port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let ports = Ports::parse("443, 22,8000-8002,80,22").unwrap();
        assert_eq!(
            ports.iter().collect::<Vec<_>>(),
            [22, 80, 443, 8000, 8001, 8002]
        );
        assert_eq!(ports.text(), "22,80,443,8000-8002");
        assert_eq!(ports.position(443), Some(2));
        assert_eq!(ports.position(444), None);
        assert_eq!(Ports::parse("-").unwrap().len(), 65535);
        assert_eq!(Ports::parse("-3").unwrap().text(), "1-3");
        assert_eq!(Ports::parse("65534-").unwrap().text(), "65534-65535");
    }

    #[test]
    fn errors() {
        for text in ["", "0", "65536", "a", "1,,2", "1-2-3", "+5", "1 2"] {
            assert!(
                Ports::parse(text).unwrap_err().contains("from 1 to 65535"),
                "{text}"
            );
        }
        assert!(Ports::parse("9-1").unwrap_err().contains("it ends before"));
    }
}
