//! The screen: head, list, details, messages and dialogs. All text of the instance is escaped here again,
//! whoever answered. No I/O.

use orchestrator_admin::ascii::format_duration;
use orchestrator_subsystem::output::escape_line;
use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout, Position, Rect},
    text::{Line as TextLine, Span, Text},
    widgets::{Cell, Paragraph, Row as TableRow, Table, Wrap},
};

use crate::cli::top::{
    dialogs, drawer,
    listing::{Fold, Form, Line},
    palette::{Palette, mark},
    rows::{count, micros},
    state::{Mode, State},
};

/// Width from which the details are beside the list, and height from which they are below it. Otherwise they
/// cover it.
const WIDE: u16 = 100;
const HIGH: u16 = 20;
/// Most lines of a message.
const MESSAGE_MAX: usize = 4;

/// Column of the list besides the name.
struct Column {
    head: &'static str,
    width: u16,
    /// Width of the list from which the column is shown.
    from: u16,
    alignment: Alignment,
    value: fn(&State, &Line) -> String,
}

const COLUMNS: [Column; 6] = [
    Column {
        head: "STATE",
        width: 11,
        from: 64,
        alignment: Alignment::Left,
        value: |_, line| line.row.state.clone(),
    },
    Column {
        head: "RESTARTS",
        width: 8,
        from: 50,
        alignment: Alignment::Right,
        value: |_, line| count(line.row.restarts),
    },
    Column {
        head: "DEPTH",
        width: 6,
        from: 30,
        alignment: Alignment::Right,
        value: |_, line| count(line.row.depth as u64),
    },
    Column {
        head: "RATE/S",
        width: 8,
        from: 38,
        alignment: Alignment::Right,
        value: |state, line| match line.row.rate {
            _ if !state.has_rates => "-".to_owned(),
            rate if rate < 100_000.0 => format!("{rate:.1}"),
            rate => count(rate as u64),
        },
    },
    Column {
        head: "P99",
        width: 5,
        from: 72,
        alignment: Alignment::Right,
        value: |_, line| micros(line.row.p99_us),
    },
    Column {
        head: "LINK",
        width: 16,
        from: 80,
        alignment: Alignment::Left,
        value: |_, line| line.row.link.clone(),
    },
];

/// Draws the screen at the wall clock `now_ms`, in milliseconds since 1970.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, palette: Palette, now_ms: u64) {
    let area = frame.area();
    let banner = state.away.as_ref().map(|away| {
        let at = i64::try_from(away.since_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let at = at.map_or_else(String::new, |at| at.strftime("%H:%M:%S UTC").to_string());
        let ago = format_duration(now_ms.saturating_sub(away.since_ms));
        format!("no answer since {at} ({ago}), trying again: {}", escape_line(&away.reason))
    });
    let message = state.message.as_ref().map(|message| escape_line(&message.text));
    let height = |text: &Option<String>| {
        let lines = text.as_ref().map_or(0, |text| lines_of(text, area.width).min(MESSAGE_MAX));
        Constraint::Length(u16::try_from(lines).unwrap_or(u16::MAX))
    };
    let heights =
        [Constraint::Length(1), height(&banner), Constraint::Min(0), height(&message), Constraint::Length(1)];
    let [head, above, body, below, foot] = Layout::vertical(heights).areas(area);
    frame.render_widget(self::head(state), head);
    let error = palette.error();
    frame.render_widget(
        Paragraph::new(banner.unwrap_or_default()).style(error).wrap(Wrap { trim: false }),
        above,
    );
    draw_body(frame, state, palette, body);
    let style = if state.message.as_ref().is_some_and(|message| message.is_error) {
        error
    } else {
        Palette::strong()
    };
    frame.render_widget(
        Paragraph::new(message.unwrap_or_default()).style(style).wrap(Wrap { trim: false }),
        below,
    );
    draw_foot(frame, state, foot);
    match &state.mode {
        Mode::List | Mode::Filter => {}
        Mode::Help => dialogs::draw_help(frame, area),
        Mode::Reason(command) => dialogs::draw_reason(frame, area, command),
        Mode::Confirm(command) => dialogs::draw_confirmation(frame, area, command),
    }
}

/// Estimates the number of lines of a text that is wrapped.
pub(super) fn lines_of(text: &str, width: u16) -> usize {
    text.chars().count().div_ceil(usize::from(width.max(1))).max(1)
}

fn head(state: &State) -> TextLine<'static> {
    let form = if state.listing.form == Form::Tree { "tree" } else { "flat" };
    let mut text = format!(
        "  up {}  {} lines  {form} by {}",
        format_duration(state.tree.uptime_ms),
        state.lines.len(),
        state.listing.sort.name()
    );
    if !state.listing.filter.is_empty() {
        text.push_str(&format!("  /{}", escape_line(&state.listing.filter)));
    }
    TextLine::from(vec![Span::styled(escape_line(&state.tree.root.path), Palette::strong()), Span::raw(text)])
}

fn draw_body(frame: &mut Frame<'_>, state: &mut State, palette: Palette, body: Rect) {
    if state.drawer.is_none() || state.child().is_none() {
        return draw_list(frame, state, palette, body);
    }
    let halves = [Constraint::Fill(1), Constraint::Fill(1)];
    let [list, details] = if body.width >= WIDE {
        Layout::horizontal(halves).areas(body)
    } else if body.height >= HIGH {
        Layout::vertical([Constraint::Fill(2), Constraint::Fill(3)]).areas(body)
    } else {
        return drawer::draw(frame, state, palette, body);
    };
    draw_list(frame, state, palette, list);
    drawer::draw(frame, state, palette, details);
}

fn draw_list(frame: &mut Frame<'_>, state: &State, palette: Palette, area: Rect) {
    let columns: Vec<&Column> = COLUMNS.iter().filter(|column| area.width >= column.from).collect();
    let others: u16 = columns.iter().map(|column| column.width + 1).sum();
    let name_width = area.width.saturating_sub(others);
    let heads = columns.iter().map(|column| cell(column.head.to_owned(), column.alignment));
    let head = TableRow::new(std::iter::once(Cell::from("CHILD")).chain(heads)).style(Palette::strong());
    let visible = usize::from(area.height.saturating_sub(1));
    // The selected line is in the middle, except near the ends.
    let first = state.selected.saturating_sub(visible / 2).min(state.lines.len().saturating_sub(visible));
    let lines = state.lines.iter().enumerate().skip(first).take(visible);
    let rows = lines.map(|(number, line)| {
        let is_peer = line.row.peer.is_some();
        let value = |column: &&Column| match column.head {
            "LINK" => Cell::from(link(line, palette)),
            _ if is_peer => Cell::default(),
            "STATE" => Cell::from(Span::styled((column.value)(state, line), palette.state(&line.row.state))),
            _ => cell((column.value)(state, line), column.alignment),
        };
        let name = Cell::from(name(state, line, palette, usize::from(name_width)));
        let row = TableRow::new(std::iter::once(name).chain(columns.iter().map(value)));
        if number == state.selected { row.style(Palette::selected()) } else { row }
    });
    let widths = columns.iter().map(|column| match column.head {
        "LINK" => Constraint::Min(column.width),
        _ => Constraint::Length(column.width),
    });
    let widths = std::iter::once(Constraint::Length(name_width)).chain(widths);
    frame.render_widget(Table::new(rows, widths).header(head), area);
    if state.lines.is_empty() && visible > 0 {
        let text = format!("no child matches {}: Esc clears the filter", escape_line(&state.listing.filter));
        frame.render_widget(Paragraph::new(text), Rect { y: area.y + 1, height: 1, ..area });
    }
}

fn cell(text: String, alignment: Alignment) -> Cell<'static> {
    Cell::from(Text::from(escape_line(text)).alignment(alignment))
}

fn name(state: &State, line: &Line, palette: Palette, width: usize) -> TextLine<'static> {
    let indent = 2 * line.level;
    let fold = match line.fold {
        Fold::Leaf => " ",
        Fold::Open => "▾",
        Fold::Folded => "▸",
    };
    let mark = if line.row.peer.is_some() { " " } else { mark(&line.row.state) };
    let name = escape_line(&line.name);
    let name = match state.listing.form {
        Form::Tree => name,
        Form::Flat => shortened(&name, width.saturating_sub(4)),
    };
    TextLine::from(vec![
        Span::raw(format!("{}{fold} ", " ".repeat(indent))),
        Span::styled(mark, palette.state(&line.row.state)),
        Span::raw(format!(" {name}")),
    ])
}

fn link(line: &Line, palette: Palette) -> Span<'static> {
    let text = escape_line(&line.row.link);
    // The last word of a link is its state.
    match line.row.link.rsplit(' ').next() {
        Some(state) if line.row.peer.is_none() && !state.is_empty() => {
            Span::styled(text, palette.state(state))
        }
        _ => Span::raw(text),
    }
}

/// Keeps the end of a path that is too long.
fn shortened(path: &str, width: usize) -> String {
    let length = path.chars().count();
    if length <= width {
        return path.to_owned();
    }
    let rest: String = path.chars().skip(length + 1 - width.max(1)).collect();
    format!("…{rest}")
}

fn draw_foot(frame: &mut Frame<'_>, state: &State, foot: Rect) {
    if state.mode == Mode::Filter {
        let text = format!("/{}", escape_line(&state.listing.filter));
        let end = u16::try_from(text.chars().count()).unwrap_or(u16::MAX).min(foot.width.saturating_sub(1));
        frame.render_widget(Paragraph::new(text), foot);
        return frame.set_cursor_position(Position { x: foot.x + end, y: foot.y });
    }
    let text = "? keys  q quit  / filter  Enter details  t tree/flat  s sort  r restart";
    frame.render_widget(Paragraph::new(text).style(Palette::quiet()), foot);
}

#[cfg(test)]
mod tests;
