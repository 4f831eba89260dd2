// SPDX-License-Identifier: GPL-2.0-or-later
//! Draws the screen of `top`.

use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};
use ratatui::Frame;

use super::view::{self, Kind, Queue, RuleRate, Sort, Talker, View};
use crate::rules;
use crate::units::{self, short, span, thousands};

/// Lines of a panel for its title and its column heads.
const PANEL_LINES: u16 = 2;
/// Minimum number of lines of talkers (the sources of the most packets), if there is room for them.
const TALKERS_LINES: u16 = 3;
/// Share of a large screen's height for talkers, as a divisor.
const TALKERS_PART: u16 = 5;
/// Minimum height of the screen, in lines, at which talkers are shown.
const TALKERS_FROM_LINES: u16 = 20;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Widths of the queue columns.
const QUEUE_COLUMNS: [u16; 7] = [5, 6, 7, 5, 5, 6, 5];
/// Sum of the widths of the queue columns and of the gaps between them.
const QUEUES_WIDTH: u16 = 5 + 6 + 7 + 5 + 5 + 6 + 5 + 6;

/// Order, scrolling, pause and error of the display; the data is in the view.
#[derive(Clone, Copy, Debug)]
pub struct Mode<'a> {
    pub sort: Sort,
    /// Number of rules above the first shown rule; a larger number than available shows the last rules.
    pub scrolled: usize,
    pub paused: bool,
    /// Reason for a missing reply of the firewall.
    pub error: Option<&'a str>,
}

/// Draws rates as bars, the latest at the right end. The highest shown rate has a full bar.
fn spark(history: &[f64], width: usize) -> String {
    let shown = &history[history.len().saturating_sub(width)..];
    let max = shown.iter().copied().fold(0.0, f64::max);
    let bars = shown.iter().map(|rate| match rate {
        _ if *rate <= 0.0 => ' ',
        _ => BARS[((rate / max * 8.0).ceil() as usize).clamp(1, 8) - 1],
    });
    let bars: String = bars.collect();
    format!("{bars:>width$}")
}

fn color_of(kind: &Kind) -> Color {
    match kind.name.as_str() {
        "accept" => Color::Green,
        "reject" => Color::Yellow,
        "drop" => Color::Magenta,
        "malformed" | "lost" | "unseen" if kind.rate > 0.0 => Color::Red,
        _ => Color::Reset,
    }
}

/// Returns a path's file name.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn right(text: String) -> Cell<'static> {
    Cell::new(Line::from(text).alignment(Alignment::Right))
}

fn head(names: &[&'static str], left: &[usize]) -> Row<'static> {
    let cells = names
        .iter()
        .enumerate()
        .map(|(at, name)| match left.contains(&at) {
            true => Cell::new(*name),
            false => right((*name).to_owned()),
        });
    Row::new(cells).style(Style::new().add_modifier(Modifier::DIM))
}

fn panel(title: String) -> Block<'static> {
    Block::new()
        .borders(Borders::TOP)
        .border_style(Style::new().fg(Color::DarkGray))
        .title(Span::styled(title, Style::new().bold().fg(Color::Reset)))
}

fn title(view: &View) -> Line<'static> {
    let status = &view.status;
    let up_s = status.uptime_s();
    let policy = status
        .policy
        .as_ref()
        .map_or("no policy".to_owned(), |policy| {
            let name = policy.file.rsplit('/').next().unwrap_or_default();
            format!("{name} generation {}", policy.generation)
        });
    Line::from(vec![
        Span::from(format!(" {} {}", status.program, status.version)).bold(),
        Span::from(format!("  pid {}  up {}  {policy}", status.pid, span(up_s))),
    ])
}

fn ledger(view: &View, mode: &Mode) -> Line<'static> {
    if let Some(error) = mode.error {
        let style = Style::new().fg(Color::White).bg(Color::Red).bold();
        return Line::styled(format!(" NO ANSWER  {error}"), style);
    }
    let ledger = &view.ledger;
    let lost = ledger.lost.map_or("?".to_owned(), thousands);
    let lossy = view.queues.iter().any(|queue| queue.lost_rate > 0.0);
    match ledger.reconciled {
        false => Line::styled(
            format!(
                " LEDGER NOT RECONCILED  {} are unaccounted for, lost {lost}",
                units::count(ledger.difference, "packet")
            ),
            Style::new().fg(Color::White).bg(Color::Red).bold(),
        ),
        true => Line::styled(
            format!(
                " LEDGER RECONCILED  lost {lost}{}",
                if lossy { ", losing now" } else { "" }
            ),
            match lossy {
                true => Style::new().fg(Color::Black).bg(Color::Yellow).bold(),
                false => Style::new().fg(Color::Black).bg(Color::Green),
            },
        ),
    }
}

fn draw_kinds(frame: &mut Frame, area: Rect, view: &View) {
    const FIXED: u16 = 9 + 6 + 6 + 3; // columns and gaps
    let bars = area.width.saturating_sub(FIXED);
    let rows = view.kinds.iter().map(|kind| {
        Row::new([
            Cell::new(kind.name.clone()),
            right(short(kind.rate)),
            Cell::new(spark(&kind.history, bars.into())),
            right(short(kind.packets as f64)),
        ])
        .style(Style::new().fg(color_of(kind)))
    });
    let widths = [9, 6, bars, 6].map(Constraint::Length);
    let table = Table::new(rows, widths)
        .header(head(&["", "/s", "", "all"], &[]))
        .block(panel(" packets ".to_owned()));
    frame.render_widget(table, area);
}

fn queue_row(queue: &Queue) -> Row<'static> {
    let style = match queue {
        _ if !queue.reconciled || queue.lost_rate > 0.0 => Style::new().fg(Color::Red),
        _ => Style::new(),
    };
    Row::new([
        right(queue.queue.to_string()),
        right(short(queue.rate)),
        right(short(queue.waiting as f64)),
        right(short(queue.queue_full as f64)),
        right(short(queue.user_drop as f64)),
        right(short(queue.unseen as f64)),
        right(short(queue.stalled as f64)),
    ])
    .style(style)
}

fn draw_queues(frame: &mut Frame, area: Rect, view: &View) {
    let room = usize::from(area.height.saturating_sub(PANEL_LINES));
    let beyond = view.queues.len().saturating_sub(room);
    let title = match beyond {
        0 => " queues ".to_owned(),
        _ => format!(" queues ({beyond} more) "),
    };
    let widths = QUEUE_COLUMNS.map(Constraint::Length);
    let table = Table::new(view.queues.iter().map(queue_row), widths)
        .header(head(
            &["queue", "/s", "waiting", "full", "udrop", "unseen", "stall"],
            &[],
        ))
        .block(panel(title));
    frame.render_widget(table, area);
}

fn rule_row(rule: &RuleRate, bars: u16) -> Row<'static> {
    let style = match rule.rate {
        rate if rate > 0.0 => Style::new(),
        _ => Style::new().fg(Color::DarkGray),
    };
    Row::new([
        Cell::new(file_name(&rule.rule).to_owned()),
        right(rule.packets.map_or("-".to_owned(), |_| short(rule.rate))),
        Cell::new(spark(&rule.history, bars.into())),
        right(
            rule.packets
                .map_or("-".to_owned(), |packets| short(packets as f64)),
        ),
        Cell::new(rules::plain_text(&rule.text)),
    ])
    .style(style)
}

/// Returns the number of rules above the first shown rule: `scrolled`, limited so that a panel of this height is
/// filled.
fn first_rule(view: &View, height: u16, scrolled: usize) -> usize {
    let room = usize::from(height.saturating_sub(PANEL_LINES));
    scrolled.min(view.rules.len().saturating_sub(room))
}

/// Draws the rules. Returns the number of rules above the first shown rule.
fn draw_rules(frame: &mut Frame, area: Rect, view: &View, mode: &Mode) -> usize {
    let mut rules = view.rules.clone();
    view::sort(&mut rules, mode.sort);
    let room = usize::from(area.height.saturating_sub(PANEL_LINES));
    let above = first_rule(view, area.height, mode.scrolled);
    let title = format!(
        " rules ({} to {} of {}, by {}) ",
        (above + 1).min(rules.len()),
        (above + room).min(rules.len()),
        rules.len(),
        mode.sort.name()
    );
    let place = rules
        .iter()
        .map(|rule| file_name(&rule.rule).chars().count());
    let place = place.max().unwrap_or(0).clamp(4, 24) as u16;
    let bars = (area.width / 6).min(view::HISTORY as u16);
    let widths = [
        Constraint::Length(place),
        Constraint::Length(6),
        Constraint::Length(bars),
        Constraint::Length(6),
        Constraint::Fill(1),
    ];
    let rules = rules.iter().skip(above).take(room);
    let rows = rules.map(|rule| rule_row(rule, bars));
    let table = Table::new(rows, widths)
        .header(head(&["rule", "/s", "", "all", "text"], &[0, 4]))
        .block(panel(title));
    frame.render_widget(table, area);
    above
}

/// Formats a talker (a source address with its rates).
/// - with_name: true if there is a column of names.
fn talker_row(talker: &Talker, with_name: bool) -> Row<'static> {
    let refused = match talker.refused_rate {
        rate if rate > 0.0 => Cell::from(Line::styled(short(rate), Color::Magenta).right_aligned()),
        _ => right("-".to_owned()),
    };
    let mut cells = vec![
        Cell::new(talker.address.to_string()),
        right(short(talker.rate)),
        refused,
    ];
    if with_name {
        cells.push(Cell::new(talker.name.clone().unwrap_or_default()));
    }
    Row::new(cells)
}

fn draw_talkers(frame: &mut Frame, area: Rect, view: &View) {
    if let Some(error) = &view.talk_error {
        let text = Paragraph::new(error.clone()).block(panel(" top talkers ".to_owned()));
        frame.render_widget(text, area);
        return;
    }
    let missed = match view.talk_missed {
        0 => String::new(),
        missed => format!("({} packets missed) ", short(missed as f64)),
    };
    let talkers = &view.talkers_lately;
    let with_name = talkers.iter().any(|talker| talker.name.is_some());
    let mut widths = [40, 6, 9].map(Constraint::Length).to_vec();
    let mut names = vec!["from", "/s", "refused/s"];
    if with_name {
        // Names get the width that addresses don't need.
        let addresses = talkers.iter().map(|talker| talker.address.to_string());
        let longest = addresses.map(|address| address.len()).max().unwrap_or(0);
        widths[0] = Constraint::Length(longest as u16);
        widths.push(Constraint::Fill(1));
        names.push("name");
    }
    let rows = talkers.iter().map(|talker| talker_row(talker, with_name));
    let table = Table::new(rows, widths)
        .header(head(&names, &[0, 3]))
        .block(panel(format!(" top talkers {missed}")));
    frame.render_widget(table, area);
}

fn keys(mode: &Mode) -> Line<'static> {
    let key = |key: &'static str| Span::from(key).bold();
    let pause = if mode.paused { " go on  " } else { " pause  " };
    let mut spans = vec![
        Span::from(" "),
        key("q"),
        " quit  ".into(),
        key("p"),
        pause.into(),
    ];
    spans.extend([key("s"), " sort  ".into(), key("↑↓"), " scroll".into()]);
    if mode.paused {
        spans.push(Span::from("   PAUSED").bold().fg(Color::Yellow));
    }
    Line::from(spans)
}

/// Draws the screen of `top`. Returns the effective scroll position, which is smaller than requested if there are fewer
/// rules.
pub fn draw(frame: &mut Frame, view: &View, mode: &Mode) -> usize {
    let area = frame.area();
    let talkers = match area.height >= TALKERS_FROM_LINES {
        true => TALKERS_LINES.max(area.height / TALKERS_PART) + PANEL_LINES,
        false => 0,
    };
    let kinds = view.kinds.len() as u16 + PANEL_LINES;
    let [title_area, ledger_area, top, rules, talkers, keys_area] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(kinds),
        Constraint::Min(PANEL_LINES + 1),
        Constraint::Length(talkers),
        Constraint::Length(1),
    ])
    .areas(area);
    let [kinds, queues] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(QUEUES_WIDTH)])
            .spacing(1)
            .areas(top);
    frame.render_widget(title(view), title_area);
    frame.render_widget(ledger(view, mode), ledger_area);
    draw_kinds(frame, kinds, view);
    draw_queues(frame, queues, view);
    let scrolled = draw_rules(frame, rules, view, mode);
    if talkers.height > 0 {
        draw_talkers(frame, talkers, view);
    }
    frame.render_widget(keys(mode), keys_area);
    scrolled
}

/// Draws the screen before the first sample.
/// - error: reason for a missing reply of the firewall; None: the first sample is awaited.
pub fn draw_waiting(frame: &mut Frame, error: Option<&str>) {
    let text = error.unwrap_or("waiting for the first figures …");
    frame.render_widget(Paragraph::new(format!(" {text}")), frame.area());
}
