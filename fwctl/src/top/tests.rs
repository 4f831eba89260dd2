// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the screen with replies of a real firewall, before and after a second of a flood (samples/*.jsonl: status,
//! stats, rules).

use std::net::IpAddr;

use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use ratatui::Terminal;

use super::draw::{self, Mode};
use super::sample::Sample;
use super::talkers::{Heard, Talk};
use super::view::{Sort, View, Watch};

fn sample(lines: &str) -> Sample {
    let mut lines = lines.lines();
    let mut next = || lines.next().expect("three lines");
    Sample {
        status: serde_json::from_str(next()).unwrap(),
        stats: serde_json::from_str(next()).unwrap(),
        rules: serde_json::from_str(next()).unwrap(),
    }
}

fn first() -> Sample {
    sample(include_str!("samples/first.jsonl"))
}

fn second() -> Sample {
    sample(include_str!("samples/second.jsonl"))
}

fn talk() -> Talk {
    let mut talk = Talk::default();
    for (address, packets, refused) in [("127.0.0.1", 9000, 3000), ("2001:db8::17", 12, 0)] {
        let address: IpAddr = address.parse().unwrap();
        let name = None;
        let heard = Heard {
            packets,
            refused,
            name,
        };
        talk.heard.insert(address, heard);
    }
    talk.missed = 1234;
    talk
}

fn view_of(second: Sample) -> View {
    let mut watch = Watch::default();
    assert!(watch.view(first(), Talk::default()).is_none());
    watch.view(second, talk()).unwrap()
}

fn drawn(view: &View, mode: &Mode, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| {
            draw::draw(frame, view, mode);
        })
        .unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let line = |y| {
        let cells = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    (0..buffer.area.height).map(line).collect()
}

const MODE: Mode = Mode {
    sort: Sort::Rate,
    scrolled: 0,
    paused: false,
    error: None,
};

#[test]
fn a_screen_of_80_by_24_has_everything() {
    let text = text(&drawn(&view_of(second()), &MODE, 80, 24));
    println!("{text}");
    for expected in [
        " c-firewall 0.1.0  pid ",
        "web.nft generation 1",
        " LEDGER RECONCILED  lost 0",
        " packets ",
        " queues ",
        " rules (1 to 5 of 5, by rate) ",
        " top talkers (1.23k packets missed) ",
        "2001:db8::17",
        " q quit  p pause  s sort  ↑↓ scroll",
    ] {
        assert!(text.contains(expected), "\"{expected}\" is not in\n{text}");
    }
    // The rules with the highest rates come first, without the initial values of counters.
    let place = |rule| text.find(rule).expect(rule);
    assert!(place("web.nft:7") < place("web.nft:4"), "{text}");
    assert!(text.contains("udp dport 9999 counter accept"), "{text}");
}

#[test]
fn rates_are_those_between_the_samples() {
    let (before, after) = (first(), second());
    let accepted = |sample: &Sample| sample.stats.total.verdicts["accept"] as f64;
    let passed_s = (after.stats.time_ms - before.stats.time_ms) as f64 / 1000.0;
    let rate = (accepted(&after) - accepted(&before)) / passed_s;
    let view = view_of(after);
    assert_eq!(view.kinds[0].name, "accept");
    assert!((view.kinds[0].rate - rate).abs() < 0.001 && rate > 1.0);
    let rules: f64 = view.rules.iter().map(|rule| rule.rate).sum();
    assert!(rules > 1.0 && view.queues.len() == 2);
}

#[test]
fn the_ledger_is_green_or_red() {
    let color = |view: &View, mode: &Mode| drawn(view, mode, 80, 24)[(1, 1)].bg;
    assert_eq!(color(&view_of(second()), &MODE), Color::Green);

    let mut lossy = second();
    lossy.status.queues[0].user_drop = Some(5);
    assert_eq!(color(&view_of(lossy), &MODE), Color::Yellow);

    let mut broken = second();
    broken.status.ledger.reconciled = false;
    broken.status.ledger.difference = 7;
    let broken = view_of(broken);
    assert_eq!(color(&broken, &MODE), Color::Red);
    let text = text(&drawn(&broken, &MODE, 80, 24));
    assert!(
        text.contains(" LEDGER NOT RECONCILED  7 packets are unaccounted for"),
        "{text}"
    );
}

#[test]
fn only_kinds_that_indicate_a_problem_are_red() {
    let (mut before, mut after) = (first(), second());
    for verdict in ["mark", "repeat", "requeue"] {
        for (sample, packets) in [(&mut before, 1), (&mut after, 500)] {
            let verdicts = &mut sample.stats.total.verdicts;
            verdicts.insert(verdict.to_owned(), packets);
        }
    }
    (before.stats.total.lost, after.stats.total.lost) = (Some(1), Some(2));
    let mut watch = Watch::default();
    watch.view(before, Talk::default());
    let buffer = drawn(&watch.view(after, talk()).unwrap(), &MODE, 80, 24);
    let text = text(&buffer);
    for (kind, color) in [
        ("accept", Color::Green),
        ("mark", Color::Reset),
        ("repeat", Color::Reset),
        ("requeue", Color::Reset),
        ("lost", Color::Red),
    ] {
        let line = text.lines().position(|line| line.starts_with(kind));
        assert_eq!(
            buffer[(0, line.unwrap() as u16)].fg,
            color,
            "{kind}\n{text}"
        );
    }
}

#[test]
fn a_firewall_that_does_not_answer_is_told() {
    let mode = Mode {
        error: Some("it does not answer"),
        ..MODE
    };
    let buffer = drawn(&view_of(second()), &mode, 80, 24);
    assert_eq!(buffer[(1, 1)].bg, Color::Red);
    assert!(text(&buffer).contains(" NO ANSWER  it does not answer"));
}

#[test]
fn rules_are_sorted_as_asked() {
    for (sort, first_rule) in [(Sort::Rate, "web.nft:7"), (Sort::Place, "web.nft:4")] {
        let mode = Mode { sort, ..MODE };
        let text = text(&drawn(&view_of(second()), &mode, 100, 30));
        let first = text.lines().find(|line| line.contains("web.nft:")).unwrap();
        assert!(first.contains(first_rule), "{text}");
        assert!(text.contains(&format!("by {}", sort.name())), "{text}");
    }
}

#[test]
fn what_has_no_room_is_scrolled_to() {
    let view = view_of(second());
    let sort = Sort::Place;
    // The panel has room for two rules.
    let screen = |scrolled| {
        text(&drawn(
            &view,
            &Mode {
                sort,
                scrolled,
                ..MODE
            },
            80,
            15,
        ))
    };
    assert!(
        screen(0).contains(" rules (1 to 2 of 5, by place) "),
        "{}",
        screen(0)
    );
    let next = screen(1);
    assert!(next.contains(" rules (2 to 3 of 5, by place) "), "{next}");
    assert!(
        !next.contains("web.nft:4") && next.contains("web.nft:5"),
        "{next}"
    );
    // The last rule stays at the end of the panel.
    assert!(
        screen(99).contains(" rules (4 to 5 of 5, by place) "),
        "{}",
        screen(99)
    );
}

/// Returns the head of the table of talkers, and the line of a talker.
fn talker_lines(view: &View, width: u16) -> [String; 2] {
    let text = text(&drawn(view, &MODE, width, 24));
    let line = |begin: &str| {
        let found = text.lines().find(|line| line.starts_with(begin));
        found
            .unwrap_or_else(|| panic!("{begin}: {text}"))
            .to_owned()
    };
    [line("from "), line("127.0.0.1 ")]
}

#[test]
fn talkers_have_names_where_there_are_any() {
    let name = "a-rather-long-name-of-a-host.department.example.com";
    let mut named = talk();
    for heard in named.heard.values_mut().filter(|heard| heard.refused > 0) {
        heard.name = Some(name.to_owned());
    }
    let mut watch = Watch::default();
    watch.view(first(), Talk::default());
    let view = watch.view(second(), named).unwrap();
    let [head, line] = talker_lines(&view, 140);
    println!("{head}\n{line}");
    assert!(head.ends_with("refused/s name"), "{head}");
    assert!(line.ends_with(name), "{line}");
    let [_, line] = talker_lines(&view, 80);
    println!("{line}");
    assert!(line.contains("a-rather-long-name-of-a-host"), "{line}");
    let [head, line] = talker_lines(&view_of(second()), 140);
    assert!(
        head.ends_with("refused/s") && !line.contains("rather"),
        "{head}"
    );
}

#[test]
fn no_size_is_too_small() {
    let view = view_of(second());
    for (width, height) in [(200, 60), (79, 19), (40, 12), (20, 5), (3, 2), (1, 1)] {
        drawn(&view, &MODE, width, height);
    }
}

#[test]
fn a_counter_that_began_anew_gives_no_rate() {
    let mut watch = Watch::default();
    watch.view(second(), Talk::default());
    let mut restarted = first();
    restarted.stats.time_ms = second().stats.time_ms + 1000;
    let view = watch.view(restarted, Talk::default()).unwrap();
    assert!(view.kinds.iter().all(|kind| kind.rate == 0.0));
}

#[test]
fn talkers_are_remembered_for_some_seconds() {
    let mut watch = Watch::default();
    watch.view(first(), Talk::default());
    let begin = first().stats.time_ms;
    let mut look = |second: u64, talk| {
        let mut sample = second_at(begin + second * 1000);
        sample.status.time_ms = begin;
        watch.view(sample, talk).unwrap()
    };
    let view = look(1, talk());
    assert_eq!(
        (view.talkers[0].rate, view.talkers_lately[0].rate),
        (9000.0, 9000.0)
    );
    let view = look(3, Talk::default());
    assert!(view.talkers.is_empty());
    assert_eq!(view.talkers_lately[0].rate, 3000.0);
    let view = look(8, Talk::default());
    assert!(view.talkers_lately.is_empty());
}

fn second_at(time_ms: u64) -> Sample {
    let mut sample = second();
    sample.stats.time_ms = time_ms;
    sample
}
