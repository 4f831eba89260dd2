// SPDX-License-Identifier: GPL-2.0-or-later
//! Appearance of subjects: colours that colour-blind readers can distinguish, plus a marker and a dash.

use crate::subject::UNFILTERED;

/// Red, green and blue, 0 to 255.
pub type Rgb = (u8, u8, u8);

pub const BLACK: Rgb = (0, 0, 0);
pub const WHITE: Rgb = (255, 255, 255);
/// Colour of axes and tick labels.
pub const AXIS: Rgb = (68, 68, 68);
/// Colour of small print.
pub const FAINT: Rgb = (102, 102, 102);
pub const GRID: Rgb = (226, 226, 226);
/// Colour of reference lines.
pub const REFERENCE: Rgb = (119, 119, 119);

// Okabe and Ito, "Color Universal Design", 2008, without its yellow, which is invisible on white paper.
const ORANGE: Rgb = (230, 159, 0);
const SKY_BLUE: Rgb = (86, 180, 233);
const BLUISH_GREEN: Rgb = (0, 158, 115);
const BLUE: Rgb = (0, 114, 178);
const VERMILION: Rgb = (213, 94, 0);
const REDDISH_PURPLE: Rgb = (204, 121, 167);

const BROWN: Rgb = (128, 60, 0);
const OCHRE: Rgb = (181, 137, 0);
const NAVY: Rgb = (20, 50, 110);
const STEEL: Rgb = (96, 125, 170);

/// Known subjects, which look the same in the figures of all results. Warm colours for Rust, cold colours for C, so
/// that a pair of twins is recognisable. A peer has one colour, and another marker when tuned.
const KNOWN: [(&str, Rgb, Marker); 36] = [
    (UNFILTERED, BLACK, Marker::Circle),
    ("accept", FAINT, Marker::Diamond),
    ("nftables", BLUISH_GREEN, Marker::Cross),
    ("nftables-tracked", BLUISH_GREEN, Marker::Diamond),
    ("stage-rust", VERMILION, Marker::Circle),
    ("stage-c", BLUE, Marker::Square),
    ("squid", REDDISH_PURPLE, Marker::Up),
    ("suricata-bypass", BROWN, Marker::Square),
    ("opensnitch-way", STEEL, Marker::Diamond),
    ("rust-raw-fast", VERMILION, Marker::Circle),
    ("c-raw-fast", BLUE, Marker::Square),
    ("rust-mnl-fast", REDDISH_PURPLE, Marker::Diamond),
    ("c-mnl-fast", BLUISH_GREEN, Marker::Diamond),
    ("rust-classic-fast", ORANGE, Marker::Up),
    ("c-classic-fast", SKY_BLUE, Marker::Up),
    ("rust-classic-paper", BROWN, Marker::Down),
    ("c-classic-paper", NAVY, Marker::Down),
    ("rust-paper-64MiB", OCHRE, Marker::Cross),
    ("c-paper-64MiB", STEEL, Marker::Cross),
    ("rust-raw-paper", BROWN, Marker::Circle),
    ("c-raw-paper", NAVY, Marker::Square),
    ("rust-mnl-paper", BROWN, Marker::Diamond),
    ("c-mnl-paper", NAVY, Marker::Diamond),
    ("libnetfilter_queue", SKY_BLUE, Marker::Circle),
    ("libnetfilter_queue-tuned", SKY_BLUE, Marker::Diamond),
    ("nfq", ORANGE, Marker::Circle),
    ("nfq-tuned", ORANGE, Marker::Diamond),
    ("nfqueue", REDDISH_PURPLE, Marker::Circle),
    ("nfqueue-tuned", REDDISH_PURPLE, Marker::Square),
    ("go-nfqueue", STEEL, Marker::Circle),
    ("go-nfqueue-tuned", STEEL, Marker::Diamond),
    ("netfilterqueue", OCHRE, Marker::Circle),
    ("netfilterqueue-tuned", OCHRE, Marker::Diamond),
    ("suricata", BROWN, Marker::Square),
    ("suricata-tuned", BROWN, Marker::Up),
    ("nfqws", BLUISH_GREEN, Marker::Circle),
];
/// Colours of all subjects that are not in KNOWN, in turn.
const OTHERS: [Rgb; 7] = [
    BLUISH_GREEN,
    REDDISH_PURPLE,
    ORANGE,
    SKY_BLUE,
    OCHRE,
    STEEL,
    BROWN,
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Marker {
    Circle,
    Square,
    Diamond,
    Up,
    Down,
    Cross,
}

const MARKERS: [Marker; 6] = [
    Marker::Circle,
    Marker::Square,
    Marker::Diamond,
    Marker::Up,
    Marker::Down,
    Marker::Cross,
];

/// Alternating lengths of strokes and gaps, in pixels; empty for a solid line.
pub type Dash = &'static [f64];

pub const SOLID: Dash = &[];
pub const DASHED: Dash = &[7.0, 4.0];
const DOTTED: Dash = &[2.0, 3.0];
const SPARSE: Dash = &[2.0, 8.0];
const DASH_DOT: Dash = &[8.0, 3.0, 2.0, 3.0];
/// Dashes of reference lines.
pub const REFERENCE_DASHES: [Dash; 3] = [DOTTED, DASH_DOT, SPARSE];
const DASHES: [Dash; 4] = [SOLID, DASHED, DOTTED, DASH_DOT];

/// Appearance of one subject in all figures of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    pub colour: Rgb,
    pub marker: Marker,
    pub dash: Dash,
    /// True if the marker is hollow. A copy has a hollow marker, because it has the same colour as its original.
    pub hollow: bool,
}

/// Returns the name without `@QUEUES` and `#COPY`.
pub fn base_name(subject: &str) -> &str {
    subject.split(['@', '#']).next().unwrap_or(subject)
}

/// Returns the number of queues in `name@2`; 1 for a name without it.
pub fn queues(subject: &str) -> u16 {
    let name = subject.split('#').next().unwrap_or(subject);
    let number = name
        .split_once('@')
        .and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(1)
}

fn known(base: &str) -> Option<&'static (&'static str, Rgb, Marker)> {
    KNOWN.iter().find(|(name, _, _)| *name == base)
}

/// Returns the appearance of `subject`, which is an element of `subjects`.
pub fn look(subject: &str, subjects: &[String]) -> Look {
    let base = base_name(subject);
    let hollow = subject.contains('#');
    let (colour, marker, turn) = match known(base) {
        Some((name, colour, marker)) => (*colour, *marker, usize::from(*name == "accept") * 2),
        None => other(base, subjects),
    };
    // The dash moves on by one for a copy, and by one for each doubling of the number of queues.
    let turn = turn + usize::from(hollow) + queues(subject).ilog2() as usize;
    Look {
        colour,
        marker,
        dash: DASHES[turn % DASHES.len()],
        hollow,
    }
}

/// Returns colour, marker and index into DASHES of a subject that is not in KNOWN, by its index among those subjects:
/// first the colours that no known subject of the result has, then all colours again, in each pass with another dash
/// than in the pass before.
fn other(base: &str, subjects: &[String]) -> (Rgb, Marker, usize) {
    let (mut others, mut taken) = (Vec::new(), Vec::new());
    for name in subjects.iter().map(|name| base_name(name)) {
        match known(name) {
            Some((_, colour, _)) => taken.push(*colour),
            None if !others.contains(&name) => others.push(name),
            None => {}
        }
    }
    let (used, free): (Vec<Rgb>, Vec<Rgb>) = OTHERS
        .into_iter()
        .partition(|colour| taken.contains(colour));
    let place = others.iter().position(|name| *name == base).unwrap_or(0);
    let turn = used.len() + place;
    let colour = [used, free].concat()[turn % OTHERS.len()];
    let marker = MARKERS[place % MARKERS.len()];
    (colour, marker, 2 * (turn / OTHERS.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment;

    fn looks(names: &[&str]) -> Vec<Look> {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        names.iter().map(|name| look(name, &names)).collect()
    }

    #[test]
    fn no_two_subjects_of_the_shipped_experiments_look_alike() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
        for file in experiment::files(&folder).unwrap() {
            let experiment = experiment::Experiment::read(&file).unwrap();
            let names: Vec<String> = experiment.subjects.iter().map(|s| s.name()).collect();
            let looks: Vec<Look> = names.iter().map(|name| look(name, &names)).collect();
            for (index, look) in looks.iter().enumerate() {
                let first = looks.iter().position(|other| other == look);
                assert_eq!(first, Some(index), "{names:?}");
            }
        }
    }

    #[test]
    fn a_subject_looks_the_same_in_all_experiments() {
        let all = [
            &["none", "c-raw-fast", "rust-raw-fast"][..],
            &["rust-raw-fast", "a-peer", "accept", "c-raw-fast"],
        ];
        let found = all.map(|names| {
            let looks = looks(names);
            let of = |name| looks[names.iter().position(|other| *other == name).unwrap()];
            ["rust-raw-fast", "c-raw-fast"].map(of)
        });
        assert_eq!(found[0], found[1]);
    }

    #[test]
    fn families_keep_their_colours() {
        let looks = looks(&[
            "none",
            "rust-raw-fast",
            "c-raw-fast",
            "a-peer",
            "rust-raw-fast#2",
        ]);
        assert_eq!(looks[0].colour, BLACK);
        assert_eq!((looks[1].colour, looks[2].colour), (VERMILION, BLUE));
        assert_eq!(looks[3].colour, BLUISH_GREEN);
        assert_eq!((looks[4].colour, looks[4].hollow), (VERMILION, true));
    }

    #[test]
    fn others_take_no_colour_of_a_known_one() {
        let found = looks(&["none", "a-variant", "nftables", "a-peer", "a-variant#2"]);
        let colours: Vec<Rgb> = found.iter().map(|look| look.colour).collect();
        let expected = [BLACK, REDDISH_PURPLE, BLUISH_GREEN, ORANGE, REDDISH_PURPLE];
        assert_eq!(colours, expected);
    }

    #[test]
    fn others_without_a_free_colour_have_another_dash() {
        let others: Vec<String> = (0..OTHERS.len()).map(|place| place.to_string()).collect();
        let mut names = vec!["nftables"];
        names.extend(others.iter().map(String::as_str));
        let found = looks(&names);
        let last = found[OTHERS.len()];
        assert_eq!((last.colour, last.dash), (BLUISH_GREEN, DOTTED));
        let free = &found[..OTHERS.len()];
        assert!(free.iter().all(|look| look.dash == SOLID), "{free:?}");
    }

    #[test]
    fn names_have_parts() {
        assert_eq!(
            (base_name("c-raw-fast@4#2"), queues("c-raw-fast@4#2")),
            ("c-raw-fast", 4)
        );
        assert_eq!((base_name("none"), queues("none")), ("none", 1));
    }
}
