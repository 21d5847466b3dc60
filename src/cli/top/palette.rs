//! Styles and marks of states. Without colors, states still differ by their marks.

use ratatui::style::{Color, Modifier, Style};

/// Styles of the screen, of the terminal's own eight colors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Palette {
    pub(super) has_color: bool,
}

impl Palette {
    /// Reads `NO_COLOR` (no-color.org).
    pub(super) fn from_env() -> Self {
        Self { has_color: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }

    fn color(self, color: Color) -> Style {
        if self.has_color { Style::new().fg(color) } else { Style::new() }
    }

    /// Style of a child or a link in `state`.
    pub(super) fn state(self, state: &str) -> Style {
        match state {
            "running" | "up" => self.color(Color::Green),
            "paused" | "blocked" | "starting" | "stopping" | "connecting" => self.color(Color::Yellow),
            "stopped" | "idle" => Style::new().add_modifier(Modifier::DIM),
            _ => self.color(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    /// Style of errors and of the lost connection.
    pub(super) fn error(self) -> Style {
        self.color(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn chart(self) -> Style {
        self.color(Color::Cyan)
    }

    /// Style of heads and names.
    pub(super) fn strong() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Style of less important text.
    pub(super) fn quiet() -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn selected() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// The marks of the web console differ by state in the same way.
pub(super) fn mark(state: &str) -> &'static str {
    match state {
        "running" => "●",
        "paused" => "‖",
        "blocked" => "!",
        "starting" => "◆",
        "stopping" => "▼",
        "stopped" => "○",
        "backing_off" => "▲",
        "stuck" => "✖",
        "given_up" => "■",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_style_has_a_color_if_colors_are_off() {
        let plain = Palette { has_color: false };
        for state in ["running", "paused", "stopped", "stuck", "up", "down", "unanswered"] {
            assert_eq!((plain.state(state).fg, plain.state(state).bg), (None, None), "{state}");
        }
        assert_eq!((plain.error().fg, plain.chart().fg), (None, None));
        assert_eq!(Palette { has_color: true }.state("running").fg, Some(Color::Green));
    }

    #[test]
    fn marks_of_states_differ() {
        let states = [
            "running",
            "paused",
            "blocked",
            "starting",
            "stopping",
            "stopped",
            "backing_off",
            "stuck",
            "given_up",
            "",
        ];
        let marks: std::collections::BTreeSet<_> = states.iter().map(|state| mark(state)).collect();
        assert_eq!(marks.len(), states.len());
    }
}
