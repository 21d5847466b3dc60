//! Colours of texts for a terminal.

use std::io::IsTerminal;

use anstyle::AnsiColor;
use orchestrator_subsystem::output::escape_lines;

/// True for a terminal, unless `NO_COLOR` is set and not empty (no-color.org).
pub(crate) fn is_wanted(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Escapes the control characters of `text`, and gives each line its colour.
pub(crate) fn painted(text: &str, colours: impl IntoIterator<Item = Option<AnsiColor>>) -> String {
    let mut colours = colours.into_iter();
    let text = escape_lines(text);
    let line = |line: &str| match colours.next().flatten().map(AnsiColor::on_default) {
        Some(style) => format!("{style}{}{style:#}\n", line.trim_end_matches('\n')),
        None => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Leaves out control characters, and adds the colours if standard output shows them.
pub(crate) fn for_stdout(text: &str, colours: Vec<Option<AnsiColor>>) -> String {
    painted(text, if is_wanted(&std::io::stdout()) { colours } else { Vec::new() })
}

/// Lines and columns of the terminal, if standard output is one that tells its size.
fn size() -> Option<(usize, usize)> {
    let out = std::io::stdout();
    let size = if out.is_terminal() { rustix::termios::tcgetwinsize(&out).ok()? } else { return None };
    (size.ws_row > 1 && size.ws_col > 0).then(|| (size.ws_row.into(), size.ws_col.into()))
}

/// Cuts the lines of `table` to the width of the terminal, if standard output is one.
pub(crate) fn fit_stdout(table: &str) -> String {
    size().map_or_else(|| table.to_owned(), |(_, width)| cut(table, width))
}

/// Text that takes the place of everything on the terminal. Lines for which it has no room are counted in the
/// last one.
pub(crate) fn repaint(text: &str) -> String {
    in_place(text, size().map_or(usize::MAX, |(height, _)| height))
}

fn in_place(text: &str, height: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    // The cursor stays on the last line of the terminal.
    let (shown, rest) =
        if lines.len() < height { (lines.len(), 0) } else { (height - 2, lines.len() + 2 - height) };
    let mut frame = "\x1b[H".to_owned();
    frame.extend(lines[..shown].iter().flat_map(|line| [*line, "\x1b[K\n"]));
    if rest > 0 {
        frame.push_str(&format!("… {rest} more lines\x1b[K\n"));
    }
    frame + "\x1b[J"
}

/// Cuts each line of `table` to a width in characters; an ellipsis is the last one of a line that was cut.
fn cut(table: &str, width: usize) -> String {
    let line = |line: &str| match line.char_indices().nth(width) {
        Some(_) => line.chars().take(width - 1).chain(['…']).collect(),
        None => line.to_owned(),
    };
    table.lines().map(|text| line(text) + "\n").collect()
}

/// Red on a terminal, and without control characters.
pub(crate) fn error_line(text: &str) -> String {
    let red = is_wanted(&std::io::stderr()).then_some(AnsiColor::Red);
    painted(&format!("orchestrator: {text}\n"), [red])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_to_the_width() {
        assert_eq!(cut("abcd\nabcde\n├─é─x\n\n", 4), "abcd\nabc…\n├─é…\n\n");
    }

    #[test]
    fn a_frame_fits_its_terminal() {
        assert_eq!(in_place("a\nb\n", 3), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(in_place("a\nb\nc\n", 3), "\x1b[Ha\x1b[K\n… 2 more lines\x1b[K\n\x1b[J");
        assert_eq!(in_place("a\nb\n", 2), "\x1b[H… 2 more lines\x1b[K\n\x1b[J");
    }

    #[test]
    fn lines_have_colours_and_no_control_characters() {
        let colours = [None, Some(AnsiColor::Red)];
        assert_eq!(
            painted("head\nlost\u{1b}[2J\nrest\n", colours),
            "head\n\u{1b}[31mlost\\u{1b}[2J\u{1b}[0m\nrest\n"
        );
    }
}
