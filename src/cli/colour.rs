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

/// Cuts the lines of `table` to the width of the terminal, if standard output is one.
pub(crate) fn fit_stdout(table: &str) -> String {
    let out = std::io::stdout();
    let size = if out.is_terminal() { rustix::termios::tcgetwinsize(&out).ok() } else { None };
    let width = size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
    width.map_or_else(|| table.to_owned(), |width| cut(table, width))
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
    fn lines_have_colours_and_no_control_characters() {
        let colours = [None, Some(AnsiColor::Red)];
        assert_eq!(
            painted("head\nlost\u{1b}[2J\nrest\n", colours),
            "head\n\u{1b}[31mlost\\u{1b}[2J\u{1b}[0m\nrest\n"
        );
    }
}
