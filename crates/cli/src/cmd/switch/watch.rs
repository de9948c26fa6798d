//! `weir switch stats --watch` on a terminal: what came, left and was dropped over time, and below it the ledger as rates.

use super::view;
use crate::cmd::layout::BAD;
use anyhow::Context as _;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::EnterAlternateScreen;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Paragraph, RenderDirection, Sparkline};
use ratatui::{DefaultTerminal, Frame, TerminalOptions, Viewport};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_switch::Stats;
use weir_switch::stats::WorkerReport;
use weir_units::Pps;

/// Readings that are kept: as many as the widest terminal shows.
const KEPT: usize = 512;
/// Lines that one rate has over time.
const TREND: u16 = 2;
/// Columns before them, for the rate itself.
const LABEL: u16 = 34;
/// Terminals of fewer lines have room for the ledger only.
const LOW: u16 = 20;
/// The longest time after which a signal is seen.
const GLANCE: Duration = Duration::from_millis(100);

/// Shows readings one after another, until a key or a signal ends it. The terminal is as it was then, also where the
/// switch ends first.
///
/// # Errors
/// Where the switch does not answer any more, or the terminal cannot be written to.
pub(super) fn run(mut read: impl FnMut() -> anyhow::Result<Stats>, every: Duration) -> anyhow::Result<()> {
    let mut screen = Screen::new(read()?);
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    ctrlc::set_handler(move || flag.store(true, Ordering::SeqCst))?;
    let mut show = || -> anyhow::Result<()> {
        let mut terminal = open().context("the terminal")?;
        let mut next = Instant::now() + every;
        while !ended.load(Ordering::SeqCst) && !screen.is_over {
            if Instant::now() >= next {
                next = Instant::now() + every;
                if !screen.is_held {
                    screen.add(read()?);
                }
            }
            terminal.draw(|frame| screen.draw(frame)).context("the terminal")?;
            if event::poll(GLANCE.min(next.saturating_duration_since(Instant::now())))?
                && let Event::Key(key) = event::read()?
            {
                screen.press(key);
            }
        }
        Ok(())
    };
    let shown = show();
    ratatui::restore();
    shown
}

/// Takes the screen. A terminal that does not know its size, as serial consoles, is taken for a usual one.
fn open() -> std::io::Result<DefaultTerminal> {
    let viewport = match ratatui::crossterm::terminal::size() {
        Ok((0, _) | (_, 0)) | Err(_) => Viewport::Fixed(Rect::new(0, 0, 80, 24)),
        Ok(_) => return ratatui::try_init(),
    };
    ratatui::crossterm::execute!(std::io::stdout(), EnterAlternateScreen)?;
    ratatui::try_init_with_options(TerminalOptions { viewport })
}

/// A rate over time.
#[derive(Default)]
struct Trend {
    words: &'static str,
    /// The newest first, in packets per second.
    rates: VecDeque<u64>,
}

impl Trend {
    fn add(&mut self, rate: f64) {
        self.rates.truncate(KEPT - 1);
        self.rates.push_front(rate.round() as u64);
    }

    fn draw(&self, frame: &mut Frame, area: Rect) {
        let [label, line] = Layout::horizontal([Constraint::Length(LABEL), Constraint::Min(0)]).areas(area);
        let shown: Vec<u64> = self.rates.iter().copied().take(usize::from(line.width)).collect();
        let pps =
            |rate: Option<u64>| rate.map_or_else(|| "-".to_owned(), |rate| Pps(rate as f64).to_string());
        let most = shown.iter().copied().max();
        let words = vec![
            Line::from(vec![
                Span::raw(format!("{:<9}", self.words)),
                Span::styled(pps(shown.first().copied()), Modifier::BOLD),
            ]),
            Line::from(format!("{:<9}{}", "at most", pps(most))),
        ];
        frame.render_widget(Text::from(words), label);
        let bars = Sparkline::default().data(shown).max(most.unwrap_or(0).max(1));
        frame.render_widget(bars.direction(RenderDirection::RightToLeft), line);
    }
}

/// What is on the screen.
struct Screen {
    now: Stats,
    before: Option<Stats>,
    trends: [Trend; 3],
    /// The first line of the ledger that is shown, and as many as were shown last.
    top: usize,
    page: usize,
    is_held: bool,
    is_over: bool,
}

impl Screen {
    fn new(now: Stats) -> Self {
        let trends = ["received", "sent", "dropped"]
            .map(|words| Trend { words, rates: VecDeque::with_capacity(KEPT) });
        Self { now, before: None, trends, top: 0, page: 1, is_held: false, is_over: false }
    }

    /// The next reading.
    fn add(&mut self, now: Stats) {
        let since = now.since(&self.now);
        let seconds = (since.uptime_ns as f64 * 1e-9).max(1e-3);
        let counted: [fn(&WorkerReport) -> u64; 3] =
            [|worker| worker.received, |worker| worker.sent, WorkerReport::dropped];
        for (trend, counted) in self.trends.iter_mut().zip(counted) {
            trend.add(since.workers.iter().map(counted).sum::<u64>() as f64 / seconds);
        }
        self.before = Some(std::mem::replace(&mut self.now, now));
    }

    fn press(&mut self, key: KeyEvent) {
        if key.kind != KeyEventKind::Press {
            return;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => self.is_over = true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => self.is_over = true,
            KeyCode::Char(' ' | 'p') => self.is_held = !self.is_held,
            KeyCode::Up | KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.top += 1,
            KeyCode::PageUp => self.top = self.top.saturating_sub(self.page),
            KeyCode::PageDown => self.top += self.page,
            KeyCode::Home => self.top = 0,
            KeyCode::End => self.top = usize::MAX,
            _ => {}
        }
    }

    fn draw(&mut self, frame: &mut Frame) {
        let trends = if frame.area().height < LOW { 0 } else { TREND * self.trends.len() as u16 + 1 };
        let rows =
            [Constraint::Length(1), Constraint::Length(trends), Constraint::Min(0), Constraint::Length(1)];
        let [head, over_time, body, foot] = Layout::vertical(rows).areas(frame.area());
        let ledger = view::render(&self.now, self.before.as_ref());
        let (title, ledger) = ledger.split_once('\n').unwrap_or((&ledger, ""));
        frame.render_widget(plain(title), head);
        if trends > 0 {
            let each = Layout::vertical([TREND; 3].map(Constraint::Length)).areas::<3>(over_time);
            self.trends.iter().zip(each).for_each(|(trend, area)| trend.draw(frame, area));
        }
        let lines: Vec<Line> = ledger.lines().skip_while(|line| line.is_empty()).map(line).collect();
        let (all, page) = (lines.len(), usize::from(body.height));
        self.page = page.max(1);
        self.top = self.top.min(all.saturating_sub(page));
        let seen: Vec<Line> = lines.into_iter().skip(self.top).take(page).collect();
        let below = all - self.top - seen.len();
        frame.render_widget(Paragraph::new(seen), body);
        let what = match (self.is_held, &self.before) {
            (true, _) => "held",
            (false, None) => "since the start; rates follow",
            (false, Some(_)) => "rates",
        };
        let keys = format!(
            " {what} · {} lines above, {below} below · ↑ ↓ PgUp PgDn · space holds · q ends",
            self.top
        );
        frame.render_widget(Line::styled(keys, Modifier::REVERSED), foot);
    }
}

/// Text without the styles of a command that prints.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// A line of the ledger: headings bold, and what is wrong in red where colours are wanted.
fn line(printed: &str) -> Line<'static> {
    let is_wrong = printed.contains(&BAD.render().to_string());
    let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let style = match (is_wrong, coloured) {
        (true, true) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        _ if printed.contains('\x1b') => Style::new().add_modifier(Modifier::BOLD),
        _ => Style::new(),
    };
    // The sum that is exact is green on paper; here it is the usual.
    Line::styled(plain(printed), style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen() -> Screen {
        let mut screen = Screen::new(view::tests::stats());
        let mut now = view::tests::stats();
        now.uptime_ns += 500_000_000;
        now.workers[0].received += 1000;
        now.workers[0].sent += 900;
        *now.workers[0].dropped.get_mut("no-match").unwrap() += 100;
        now.workers[0].steps[1].packets += 100;
        now.workers[0].steps[1].cycles += 5000;
        screen.add(now);
        screen
    }

    /// What stands on a terminal of this size.
    fn shown(screen: &mut Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |row: u16| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
        (0..height).map(|at| row(at).trim_end().to_owned() + "\n").collect()
    }

    fn press(screen: &mut Screen, code: KeyCode) {
        screen.press(KeyEvent::new(code, KeyModifiers::NONE));
    }

    #[test]
    fn rates_stand_as_numbers_over_time_and_in_the_ledger() {
        let text = shown(&mut screen(), 90, 40);
        for part in ["received 2.000 kpps", "sent     1.800 kpps", "dropped  200 pps", "█", "Ports", "q ends"]
        {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        let mut idle = screen();
        idle.add(idle.now.clone());
        let text = shown(&mut idle, 90, 40);
        assert!(text.contains("received 0 pps") && text.contains("at most  2.000 kpps"), "{text}");
    }

    #[test]
    fn the_ledger_is_scrolled_to_its_end_and_no_further() {
        let mut screen = screen();
        let first = shown(&mut screen, 90, 12);
        assert!(first.contains("Ports") && !first.contains("Cycles per packet"), "{first}");
        press(&mut screen, KeyCode::End);
        let last = shown(&mut screen, 90, 12);
        assert!(last.contains("lookup") && last.contains(" 0 below"), "{last}");
        press(&mut screen, KeyCode::PageDown);
        assert_eq!(shown(&mut screen, 90, 12), last);
        press(&mut screen, KeyCode::Up);
        assert!(shown(&mut screen, 90, 12).contains(" 1 below"));
        press(&mut screen, KeyCode::Home);
        assert_eq!(shown(&mut screen, 90, 12), first);
    }

    #[test]
    fn no_terminal_is_too_small() {
        for (width, height) in [(1, 1), (3, 20), (34, 21), (35, 21), (200, 2)] {
            shown(&mut screen(), width, height);
        }
    }

    #[test]
    fn keys_hold_and_end_it() {
        let mut screen = screen();
        press(&mut screen, KeyCode::Char(' '));
        assert!(screen.is_held && shown(&mut screen, 90, 30).contains("held"));
        press(&mut screen, KeyCode::Char('c'));
        assert!(!screen.is_over, "that is no Ctrl-C");
        screen.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(screen.is_over);
    }
}
