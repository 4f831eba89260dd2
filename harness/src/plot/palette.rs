// SPDX-License-Identifier: GPL-2.0-or-later
//! How subjects look: colours that colour-blind readers tell apart, and a marker and a dash for all others.

use crate::subject::UNFILTERED;

/// Red, green and blue, 0 to 255.
pub type Rgb = (u8, u8, u8);

pub const BLACK: Rgb = (0, 0, 0);
pub const WHITE: Rgb = (255, 255, 255);
/// Axes and their numbers.
pub const AXIS: Rgb = (68, 68, 68);
/// Small print.
pub const FAINT: Rgb = (102, 102, 102);
pub const GRID: Rgb = (226, 226, 226);
/// Reference lines.
pub const REFERENCE: Rgb = (119, 119, 119);

// Okabe and Ito, "Color Universal Design", 2008. Without its yellow, which white paper swallows.
const ORANGE: Rgb = (230, 159, 0);
const SKY_BLUE: Rgb = (86, 180, 233);
const BLUISH_GREEN: Rgb = (0, 158, 115);
const BLUE: Rgb = (0, 114, 178);
const VERMILION: Rgb = (213, 94, 0);
const REDDISH_PURPLE: Rgb = (204, 121, 167);

/// Warm colours for Rust, cold ones for C, so that a pair of twins is seen as one.
const RUST: [Rgb; 3] = [VERMILION, ORANGE, REDDISH_PURPLE];
const C: [Rgb; 3] = [BLUE, SKY_BLUE, BLUISH_GREEN];
const OTHERS: [Rgb; 3] = [BLUISH_GREEN, REDDISH_PURPLE, ORANGE];

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

/// Lengths of strokes and gaps in turn; empty for a solid line.
pub type Dash = &'static [f64];

pub const SOLID: Dash = &[];
pub const DASHED: Dash = &[7.0, 4.0];
const DOTTED: Dash = &[2.0, 3.0];
const DASH_DOT: Dash = &[8.0, 3.0, 2.0, 3.0];
/// Reference lines.
pub const REFERENCE_DASHES: [Dash; 2] = [DOTTED, DASH_DOT];
const DASHES: [Dash; 4] = [SOLID, DASHED, DOTTED, DASH_DOT];

/// How one subject looks in all figures of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    pub colour: Rgb,
    pub marker: Marker,
    pub dash: Dash,
    /// Copies of a subject have its colour, but a hollow marker.
    pub hollow: bool,
}

/// The name without `@QUEUES` and `#COPY`.
pub fn base_name(subject: &str) -> &str {
    subject.split(['@', '#']).next().unwrap_or(subject)
}

/// How many queues `name@2` has; 1 for a name without.
pub fn queues(subject: &str) -> u16 {
    let name = subject.split('#').next().unwrap_or(subject);
    let number = name
        .split_once('@')
        .and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(1)
}

/// The look of `subject` among `subjects`, of which it is one.
pub fn look(subject: &str, subjects: &[String]) -> Look {
    let index = subjects
        .iter()
        .position(|name| name == subject)
        .unwrap_or(0);
    let base = base_name(subject);
    let family = family(base);
    let mut relatives: Vec<&str> = Vec::new();
    for name in subjects.iter().map(|name| base_name(name)) {
        if self::family(name) == family && !relatives.contains(&name) {
            relatives.push(name);
        }
    }
    let place = relatives.iter().position(|name| *name == base).unwrap_or(0);
    let colour = match family {
        Family::Unfiltered => BLACK,
        Family::Accept => FAINT,
        Family::Rust => RUST[place % RUST.len()],
        Family::C => C[place % C.len()],
        Family::Other => OTHERS[place % OTHERS.len()],
    };
    let hollow = subject.contains('#');
    let turn = match family {
        Family::Unfiltered => 0,
        Family::Accept => 2,
        // Each further use of the same colours, and each number of queues, has another dash.
        _ => place / OTHERS.len() + usize::from(hollow) + queues(subject).ilog2() as usize,
    };
    Look {
        colour,
        marker: MARKERS[index % MARKERS.len()],
        dash: DASHES[turn % DASHES.len()],
        hollow,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Family {
    Unfiltered,
    Accept,
    Rust,
    C,
    Other,
}

fn family(base: &str) -> Family {
    match base.split('-').next() {
        _ if base == UNFILTERED => Family::Unfiltered,
        _ if base == "accept" => Family::Accept,
        Some("rust") => Family::Rust,
        Some("c") => Family::C,
        _ => Family::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(names: &[&str]) -> Vec<Look> {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        names.iter().map(|name| look(name, &names)).collect()
    }

    #[test]
    fn no_two_subjects_of_the_shipped_experiments_look_alike() {
        let twins = [
            "none",
            "accept",
            "rust-raw-fast",
            "c-raw-fast",
            "rust-raw-fast#2",
            "c-classic-paper",
        ];
        let backends = [
            "none",
            "rust-classic-fast",
            "c-classic-fast",
            "rust-mnl-fast",
            "c-mnl-fast",
            "rust-raw-fast",
            "c-raw-fast",
            "rust-raw-fast#2",
        ];
        let scale = [
            "none",
            "rust-raw-fast",
            "rust-raw-fast@2",
            "rust-raw-fast@4",
            "c-raw-fast",
            "c-raw-fast@2",
            "c-raw-fast@4",
        ];
        for names in [&twins[..], &backends, &scale] {
            let looks = looks(names);
            for (index, look) in looks.iter().enumerate() {
                let alike = |other: &&Look| (other.colour, other.dash) == (look.colour, look.dash);
                let first = looks.iter().position(|other| alike(&other));
                assert_eq!(first, Some(index), "{names:?}");
            }
        }
    }

    #[test]
    fn families_keep_their_colours() {
        let looks = looks(&[
            "none",
            "rust-raw-fast",
            "c-raw-fast",
            "suricata",
            "rust-raw-fast#2",
        ]);
        assert_eq!(looks[0].colour, BLACK);
        assert_eq!((looks[1].colour, looks[2].colour), (VERMILION, BLUE));
        assert_eq!(looks[3].colour, BLUISH_GREEN);
        assert_eq!((looks[4].colour, looks[4].hollow), (VERMILION, true));
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
