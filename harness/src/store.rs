// SPDX-License-Identifier: GPL-2.0-or-later
//! The files of a result folder. Rows are appended a round at a time and are on the disk before the next round starts.
//! Files of rounds are compressed; each addition is a member of the gzip file, so that a crash loses only the last
//! addition.

mod raw;
mod rows;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use flate2::Compression;

pub use raw::raw_start;
pub use rows::{CellName, PairRow, PercentileRow, RoundRow, Row, Sample, SeriesRow, Summary};

pub const METADATA: &str = "metadata.json";
pub const RAW: &str = "raw.jsonl.gz";
/// Ending of compressed files.
const GZ: &str = ".gz";
/// Round number of rows without a timed round: counted system calls, and values of a whole load in slices.
pub const UNTIMED: u32 = 0;

/// Rows that are appended together: those of one round, of one load in slices, or of all counted system calls.
#[derive(Default)]
pub struct Round {
    pub samples: Vec<Sample>,
    pub series: Vec<SeriesRow>,
    pub percentiles: Vec<PercentileRow>,
    /// Output of tools: (name, text).
    pub raw: Vec<(String, String)>,
}

/// A result folder.
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Starts a new result: removes an earlier result and all SVG files from the folder, and no other files.
    pub fn create(folder: &Path) -> Result<Store> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let store = Store::open(folder);
        for name in [
            METADATA,
            RAW,
            Summary::FILE,
            PairRow::FILE,
            "report.md",
            "report.html",
        ] {
            remove_if_there(&folder.join(name))?;
        }
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let ending = path.extension();
            if ending.is_some_and(|ending| ending == "svg") && path.is_file() {
                fs::remove_file(&path).with_context(|| path.display().to_string())?;
            }
        }
        store.rewrite::<Sample>(&[])?;
        store.rewrite::<SeriesRow>(&[])?;
        store.rewrite::<PercentileRow>(&[])?;
        Ok(store)
    }

    /// Opens an existing result.
    pub fn open(folder: &Path) -> Store {
        Store {
            folder: folder.into(),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Appends a round's rows. They are on the disk when this returns.
    pub fn append(&self, round: &Round) -> Result<()> {
        self.append_rows(&round.samples)?;
        self.append_rows(&round.series)?;
        self.append_rows(&round.percentiles)?;
        self.write_raw(&round.raw)
    }

    /// Removes the data of an interrupted round or load: rows and output of tools for which `kept` is false, by load
    /// and round, and a broken last line.
    /// - loads: all loads of the result.
    pub fn cut(&self, loads: &[CellName], kept: impl Fn(&CellName, u32) -> bool) -> Result<()> {
        self.cut_rows::<Sample>(&kept)?;
        self.cut_rows::<SeriesRow>(&kept)?;
        self.cut_rows::<PercentileRow>(&kept)?;
        self.cut_raw(loads, &kept)
    }

    /// Returns all rows of a kind; none if the file is missing.
    pub fn read<R: Row>(&self) -> Result<Vec<R>> {
        let Some(mut reader) = self.reader::<R>()? else {
            return Ok(Vec::new());
        };
        let rows = reader.deserialize();
        rows.map(|row| row.with_context(|| self.place::<R>()))
            .collect()
    }

    /// Replaces all rows of a kind; a crash leaves the old file or the new one.
    pub fn rewrite<R: Row>(&self, rows: &[R]) -> Result<()> {
        let mut writer = csv::WriterBuilder::new()
            .has_headers(false)
            .from_writer(Vec::new());
        writer.write_record(R::COLUMNS)?;
        for row in rows {
            writer.serialize(row)?;
        }
        self.replace(R::FILE, &packed(R::FILE, writer.into_inner()?)?)?;
        // Results of older versions are not compressed.
        match R::FILE.strip_suffix(GZ) {
            Some(plain) => remove_if_there(&self.folder.join(plain)),
            None => Ok(()),
        }
    }

    /// Replaces a file; a crash leaves the old contents or the new contents.
    pub fn replace(&self, name: &str, contents: &[u8]) -> Result<()> {
        let (file, new) = (
            self.folder.join(name),
            self.folder.join(format!("{name}.new")),
        );
        let write = || -> io::Result<()> {
            let mut handle = File::create(&new)?;
            handle.write_all(contents)?;
            handle.sync_all()?;
            fs::rename(&new, &file)?;
            File::open(&self.folder)?.sync_all()
        };
        write().with_context(|| file.display().to_string())
    }

    fn append_rows<R: RoundRow>(&self, rows: &[R]) -> Result<()> {
        let mut writer = csv::WriterBuilder::new()
            .has_headers(false)
            .from_writer(Vec::new());
        for row in rows {
            writer.serialize(row)?;
        }
        let bytes = match rows.is_empty() {
            true => return Ok(()),
            false => packed(R::FILE, writer.into_inner()?)?,
        };
        let append = || -> io::Result<()> {
            let mut file = OpenOptions::new()
                .append(true)
                .open(self.folder.join(R::FILE))?;
            file.write_all(&bytes)?;
            file.sync_all()
        };
        append().with_context(|| self.place::<R>())
    }

    fn cut_rows<R: RoundRow>(&self, kept: &impl Fn(&CellName, u32) -> bool) -> Result<()> {
        let rows: Vec<R> = match self.reader::<R>()? {
            // Only the last line can be incomplete.
            Some(mut reader) => reader.deserialize().map_while(|row| row.ok()).collect(),
            None => Vec::new(),
        };
        let kept: Vec<R> = rows
            .into_iter()
            .filter(|row| kept(&row.cell(), row.round()))
            .collect();
        self.rewrite(&kept)
    }

    fn reader<R: Row>(&self) -> Result<Option<csv::Reader<Box<dyn Read>>>> {
        let plain = R::FILE.strip_suffix(GZ);
        for name in [R::FILE].into_iter().chain(plain) {
            let file = match File::open(self.folder.join(name)) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(|| self.place::<R>()),
            };
            let bytes: Box<dyn Read> = match name.ends_with(GZ) {
                true => Box::new(MultiGzDecoder::new(file)),
                false => Box::new(file),
            };
            return Ok(Some(csv::Reader::from_reader(bytes)));
        }
        Ok(None)
    }

    fn place<R: Row>(&self) -> String {
        self.folder.join(R::FILE).display().to_string()
    }
}

/// Compresses the contents of a file, or bytes to be appended to it, if the file's name ends in GZ; otherwise returns
/// them unchanged.
fn packed(name: &str, contents: Vec<u8>) -> io::Result<Vec<u8>> {
    if !name.ends_with(GZ) {
        return Ok(contents);
    }
    let mut member = GzEncoder::new(Vec::new(), Compression::best());
    member.write_all(&contents)?;
    member.finish()
}

fn remove_if_there(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| file.display().to_string())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is deleted on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder =
                std::env::temp_dir().join(format!("twinwall-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn sample(round: u32, value: f64) -> Sample {
        Sample {
            round,
            position: 2,
            subject: "rust-raw-fast#2".into(),
            workload: "udp-flood".into(),
            path: "loopback".into(),
            payload_bytes: 18,
            policy: None,
            metric: "delivered_rate".into(),
            unit: "kpps".into(),
            value,
        }
    }

    fn round_of(samples: Vec<Sample>) -> Round {
        Round {
            samples,
            ..Round::default()
        }
    }

    /// Returns the lines of [`RAW`]: (name, text).
    fn raw_lines(folder: &Folder) -> Vec<(String, String)> {
        let file = File::open(folder.0.join(RAW)).unwrap();
        let mut text = String::new();
        MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .map(|line: serde_json::Value| {
                let field = |name: &str| line[name].as_str().unwrap().to_string();
                (field("name"), field("text"))
            })
            .collect()
    }

    #[test]
    fn rows_come_back_as_they_were_written() {
        let folder = Folder::new("rows");
        let store = Store::create(&folder.0).unwrap();
        let rows = [sample(1, 0.1 + 0.2), sample(1, 1e-300), sample(2, 3.0)];
        store.append(&round_of(rows[..2].to_vec())).unwrap();
        store.append(&round_of(rows[2..].to_vec())).unwrap();
        assert_eq!(store.read::<Sample>().unwrap(), rows);
        let pair = PairRow {
            workload: "tcp-stream".into(),
            path: "veth".into(),
            payload_bytes: 65536,
            policy: Some("prefix-set-100".parse().unwrap()),
            metric: "throughput".into(),
            a: "a".into(),
            b: "b".into(),
            ratio: Some(1.25),
            low: Some(1.0),
            high: Some(1.5),
            noise_low: None,
            noise_high: None,
            finding: "words, with a comma; \"quoted\"".into(),
        };
        store.rewrite(std::slice::from_ref(&pair)).unwrap();
        assert_eq!(store.read::<PairRow>().unwrap(), [pair]);
    }

    #[test]
    fn the_columns_stand_in_the_first_line() {
        let folder = Folder::new("columns");
        Store::create(&folder.0).unwrap();
        let file = File::open(folder.0.join(Sample::FILE)).unwrap();
        let mut text = String::new();
        MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
        assert_eq!(
            text,
            "round,position,subject,workload,path,payload_bytes,policy,metric,unit,value\n"
        );
    }

    #[test]
    fn an_interrupted_round_is_cut_off() {
        let folder = Folder::new("cut");
        let store = Store::create(&folder.0).unwrap();
        store
            .append(&round_of(vec![
                sample(UNTIMED, 0.5),
                sample(1, 1.0),
                sample(2, 2.0),
            ]))
            .unwrap();
        let mut file = OpenOptions::new()
            .append(true)
            .open(folder.0.join(Sample::FILE))
            .unwrap();
        let half = packed(Sample::FILE, b"2,1,rust-raw-fast,udp".to_vec()).unwrap();
        file.write_all(&half[..half.len() / 2]).unwrap();
        assert!(store.read::<Sample>().is_err());
        store.cut(&[], |_, round| round <= 1).unwrap();
        assert_eq!(
            store.read::<Sample>().unwrap(),
            [sample(UNTIMED, 0.5), sample(1, 1.0)]
        );
    }

    #[test]
    fn a_new_result_removes_the_old_one_and_nothing_else() {
        let folder = Folder::new("new");
        let store = Store::create(&folder.0).unwrap();
        store.append(&round_of(vec![sample(1, 1.0)])).unwrap();
        for name in [METADATA, RAW, "report.md", "figure.svg", "notes.txt"] {
            fs::write(folder.0.join(name), "x").unwrap();
        }
        let store = Store::create(&folder.0).unwrap();
        assert_eq!(store.read::<Sample>().unwrap(), []);
        let mut left: Vec<String> = fs::read_dir(&folder.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "notes.txt",
                "percentiles.csv.gz",
                "samples.csv.gz",
                "series.csv.gz"
            ]
        );
    }

    #[test]
    fn a_result_of_an_older_version_is_read_and_compressed() {
        let folder = Folder::new("plain");
        let store = Store::create(&folder.0).unwrap();
        let rows = [sample(1, 1.0), sample(2, 2.0)];
        store.rewrite(&rows).unwrap();
        let (file, plain) = (
            folder.0.join(Sample::FILE),
            folder.0.join(Sample::FILE.strip_suffix(GZ).unwrap()),
        );
        let mut text = Vec::new();
        let packed = File::open(&file).unwrap();
        MultiGzDecoder::new(packed).read_to_end(&mut text).unwrap();
        fs::write(&plain, text).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(store.read::<Sample>().unwrap(), rows);
        store.cut(&[], |_, round| round == 1).unwrap();
        assert_eq!(store.read::<Sample>().unwrap(), rows[..1]);
        assert!(file.exists() && !plain.exists());
    }

    #[test]
    fn what_tools_said_lies_in_one_file_in_order() {
        let folder = Folder::new("raw");
        let store = Store::create(&folder.0).unwrap();
        let said = |name: &str| (name.to_string(), format!("{name}\n\"quoted\"\n"));
        for raw in [vec![said("a"), said("b")], vec![], vec![said("c")]] {
            let round = Round {
                raw,
                ..Round::default()
            };
            store.append(&round).unwrap();
        }
        assert_eq!(raw_lines(&folder), ["a", "b", "c"].map(said));
    }

    #[test]
    fn the_output_of_an_interrupted_round_is_cut_off() {
        let folder = Folder::new("raw-cut");
        let store = Store::create(&folder.0).unwrap();
        let plain = sample(1, 1.0).cell();
        let filtered = CellName {
            policy: Some("ports-10".parse().unwrap()),
            ..plain.clone()
        };
        let said = |round: u32, load: &CellName| {
            let name = format!("{}none-out.json", raw_start(round, load));
            (name, "{}\n".to_string())
        };
        let append = |raw: Vec<(String, String)>| {
            let round = Round {
                raw,
                ..Round::default()
            };
            store.append(&round).unwrap();
        };
        let kept = [said(UNTIMED, &plain), said(1, &plain)];
        let dropped = [said(1, &filtered), said(2, &plain)];
        append([kept.clone(), dropped].concat());
        let mut file = OpenOptions::new()
            .append(true)
            .open(folder.0.join(RAW))
            .unwrap();
        let half = packed(RAW, b"{\"name\": \"002-udp".to_vec()).unwrap();
        file.write_all(&half[..half.len() / 2]).unwrap();
        let loads = [filtered, plain.clone()];
        store
            .cut(&loads, |load, round| *load == plain && round <= 1)
            .unwrap();
        assert_eq!(raw_lines(&folder), kept);
        append(vec![said(2, &plain)]);
        assert_eq!(raw_lines(&folder).len(), 3);
    }
}
