// SPDX-License-Identifier: GPL-2.0-or-later
//! The terminal of `top`: initialised, drawn on, polled for keys, and always restored.

use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::draw::{self, Mode};
use super::sample;
use super::talkers::Talkers;
use super::view::{Sort, View, Watch};
use crate::failure::{words, Exit, Failure};

/// Interval between checks for signals and samples.
const STEP_MS: u8 = 50;

/// Number of rules that a page key scrolls.
const PAGE: isize = 10;

/// Effect of a key or a resize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Quit,
    Pause,
    Sort,
    /// Scrolls down by a number of rules; a negative number scrolls up.
    Scroll(isize),
    Redraw,
    Nothing,
}

fn asked(event: &Event) -> Asked {
    let key = match event {
        Event::Resize(..) => return Asked::Redraw,
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        _ => return Asked::Nothing,
    };
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Asked::Quit,
        KeyCode::Char('c') if control => Asked::Quit,
        KeyCode::Char('p' | ' ') => Asked::Pause,
        KeyCode::Char('s') => Asked::Sort,
        KeyCode::Up | KeyCode::Char('k') => Asked::Scroll(-1),
        KeyCode::Down | KeyCode::Char('j') => Asked::Scroll(1),
        KeyCode::PageUp => Asked::Scroll(-PAGE),
        KeyCode::PageDown => Asked::Scroll(PAGE),
        KeyCode::Home => Asked::Scroll(isize::MIN),
        KeyCode::End => Asked::Scroll(isize::MAX),
        KeyCode::Char('l') if control => Asked::Redraw,
        _ => Asked::Nothing,
    }
}

/// State of the screen: shown data, order, scrolling, pause and error.
struct Screen {
    view: Option<View>,
    sort: Sort,
    scrolled: usize,
    paused: bool,
    error: Option<String>,
}

impl Screen {
    fn draw(&mut self, terminal: &mut DefaultTerminal) -> io::Result<()> {
        let error = self.error.as_deref();
        let mode = Mode {
            sort: self.sort,
            scrolled: self.scrolled,
            paused: self.paused,
            error,
        };
        let mut scrolled = 0;
        terminal.draw(|frame| match &self.view {
            Some(view) => scrolled = draw::draw(frame, view, &mode),
            None => draw::draw_waiting(frame, error),
        })?;
        self.scrolled = scrolled;
        Ok(())
    }
}

/// Waits for a key, for at most `limit`. Returns true if the terminal's other end is closed. This is checked before
/// crossterm reads, since crossterm would read the end of file forever.
fn has_gone(limit: PollTimeout) -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    // A signal also ends the wait.
    let _ = poll(&mut polled, limit);
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    polled[0]
        .revents()
        .is_some_and(|told| told.intersects(gone))
}

fn watch(
    terminal: &mut DefaultTerminal,
    socket: &Path,
    interval: Duration,
    talkers: &Talkers,
    ended: &AtomicBool,
) -> io::Result<()> {
    let samples = sample::start(socket.to_owned(), interval);
    let mut watch = Watch::default();
    let mut screen = Screen {
        view: None,
        sort: Sort::Rate,
        scrolled: 0,
        paused: false,
        error: None,
    };
    screen.draw(terminal)?;
    while !ended.load(Ordering::Relaxed) && !has_gone(STEP_MS.into()) {
        let mut changed = false;
        if event::poll(Duration::ZERO)? {
            match asked(&event::read()?) {
                Asked::Quit => break,
                Asked::Pause => screen.paused = !screen.paused,
                Asked::Sort => screen.sort = screen.sort.next(),
                Asked::Scroll(by) => screen.scrolled = screen.scrolled.saturating_add_signed(by),
                Asked::Redraw => terminal.clear()?,
                Asked::Nothing => continue,
            }
            changed = true;
        }
        match samples.try_recv() {
            Ok(Ok(sample)) => {
                let view = watch.view(sample, talkers.take());
                screen.error = None;
                if !screen.paused {
                    screen.view = view.or(screen.view.take());
                }
                changed = true;
            }
            Ok(Err(failure)) => {
                screen.error = Some(failure.text);
                changed = true;
            }
            Err(TryRecvError::Empty) => {}
            // The thread that samples does not end before this function.
            Err(TryRecvError::Disconnected) => break,
        }
        if changed {
            screen.draw(terminal)?;
        }
    }
    Ok(())
}

/// Shows the firewall's state until a key or a signal ends the display.
pub fn run(socket: &Path, interval: Duration, talkers: &Talkers) -> Result<Exit, Failure> {
    let fail = |error: io::Error| {
        let words = words(&error);
        Failure::new(
            Exit::Usage,
            format_args!("the terminal: {words}: use --json, or status"),
        )
    };
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended)).map_err(fail)?;
    }
    // This also makes a panic restore the terminal.
    let mut terminal = ratatui::try_init().map_err(fail)?;
    let shown = watch(&mut terminal, socket, interval, talkers, &ended);
    let restored = ratatui::try_restore();
    if has_gone(PollTimeout::ZERO) {
        // Dropping the terminal would report on stderr that it can't be restored, and stderr is gone.
        mem::forget(terminal);
        return Ok(Exit::Fine);
    }
    restored.map_err(fail)?;
    shown.map_err(fail)?;
    Ok(Exit::Fine)
}
