//! Dialogs over the screen: the keys, the reason of a command and its confirmation. No I/O.

use orchestrator_subsystem::output::escape_line;
use ratatui::{
    Frame,
    layout::{Constraint, Position, Rect},
    text::{Line as TextLine, Span},
    widgets::{Block, Borders, Clear, Paragraph, Wrap},
};

use crate::cli::top::{keys::HELP, palette::Palette, prompt::Command};

/// Width of a dialog, if the screen has it.
const WIDTH: u16 = 66;
/// Width of the first column of the help.
const KEYS: usize = 18;

/// Draws the keys.
pub(super) fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let line = |(keys, effect): &(&str, &'static str)| {
        TextLine::from(vec![Span::styled(format!("{keys:<KEYS$}"), Palette::strong()), Span::raw(*effect)])
    };
    draw(frame, area, "keys", HELP.iter().map(line).collect());
}

/// Draws the field for the reason of a command.
pub(super) fn draw_reason(frame: &mut Frame<'_>, area: Rect, command: &Command) {
    let lines = vec![
        TextLine::raw(format!("reason: {}", escape_line(&command.reason))),
        TextLine::raw(command.verb.effect),
        TextLine::styled("Enter continues, Esc cancels", Palette::quiet()),
    ];
    let inside = draw(frame, area, &title(command), lines);
    let length = u16::try_from("reason: ".len() + command.reason.chars().count()).unwrap_or(u16::MAX);
    let (width, height) = (inside.width.max(1), inside.height.max(1));
    let y = inside.y + (length / width).min(height - 1);
    frame.set_cursor_position(Position { x: inside.x + length % width, y });
}

/// Draws the question before a command is sent.
pub(super) fn draw_confirmation(frame: &mut Frame<'_>, area: Rect, command: &Command) {
    let reason = if command.reason.is_empty() { "none".to_owned() } else { escape_line(&command.reason) };
    let question = format!("y: {} it    n: cancel", command.verb.name);
    let lines =
        vec![TextLine::styled(question, Palette::strong()), TextLine::raw(format!("reason: {reason}"))];
    draw(frame, area, &title(command), lines);
}

fn title(command: &Command) -> String {
    format!("{} {}", command.verb.name, escape_line(&command.path))
}

/// Draws a box in the middle of the screen and returns the area inside of it.
fn draw(frame: &mut Frame<'_>, area: Rect, title: &str, lines: Vec<TextLine<'_>>) -> Rect {
    let width = WIDTH.min(area.width);
    let per_line = usize::from(width.saturating_sub(2).max(1));
    let height: usize = lines.iter().map(|line| line.width().div_ceil(per_line).max(1)).sum();
    let height = u16::try_from(height + 2).unwrap_or(u16::MAX).min(area.height);
    let dialog = area.centered(Constraint::Length(width), Constraint::Length(height));
    let block = Block::new().borders(Borders::ALL).title(title.to_owned());
    let inside = block.inner(dialog);
    frame.render_widget(Clear, dialog);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), dialog);
    inside
}
