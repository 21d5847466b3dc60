//! The keys of the screen. No I/O.

use crate::cli::top::{
    input::Key,
    listing::{Fold, Form},
    prompt::{Command, Verb},
    state::{Action, Message, Mode, State},
};

/// Longest filter, in bytes.
const FILTER_MAX: usize = 256;
/// Lines that a page key moves.
const PAGE: usize = 10;

/// The keys with their effects, for the help. A small screen shows the first ones.
pub(super) const HELP: [(&str, &str); 10] = [
    ("q", "quit"),
    ("r x a p u", "restart, stop, start, pause, resume"),
    ("Enter", "open or close details"),
    ("/", "filter; Esc clears it"),
    ("t", "tree or flat list"),
    ("s", "sort by the next column"),
    ("Left Right Space", "fold or open a branch"),
    ("Up Down Home End", "select a child"),
    ("PgUp PgDn", "ten lines of the list, or of open details"),
    ("?", "show these keys"),
];

impl State {
    pub(super) fn press(&mut self, key: Key) -> Option<Action> {
        self.message = None;
        match key {
            Key::Ctrl('c') => return Some(Action::Quit),
            Key::Ctrl('z') => return Some(Action::Suspend),
            Key::Ctrl(_) | Key::Other => return None,
            _ => {}
        }
        match std::mem::replace(&mut self.mode, Mode::List) {
            Mode::List => self.press_in_list(key),
            Mode::Filter => self.press_in_filter(key),
            Mode::Help => None,
            Mode::Reason(command) => self.press_in_reason(command, key),
            Mode::Confirm(command) => self.press_in_confirmation(command, key),
        }
    }

    fn press_in_list(&mut self, key: Key) -> Option<Action> {
        match key {
            Key::Char('q') => return Some(Action::Quit),
            Key::Char('?') => self.mode = Mode::Help,
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Char('t') => {
                let is_tree = self.listing.form == Form::Tree;
                self.listing.form = if is_tree { Form::Flat } else { Form::Tree };
                self.list();
            }
            Key::Char('s') => {
                self.listing.sort = self.listing.sort.next();
                self.list();
            }
            Key::Enter if self.drawer.is_none() => self.drawer = Some(0),
            Key::Enter => self.drawer = None,
            Key::Escape if self.drawer.is_some() => self.drawer = None,
            Key::Escape => {
                self.listing.filter.clear();
                self.list();
            }
            Key::Left | Key::Right | Key::Char(' ') => self.fold(key),
            _ => match Verb::of_key(key) {
                Some(verb) => self.begin_command(verb),
                None => self.scroll(key),
            },
        }
        None
    }

    /// Moves the selection. Page keys scroll the details instead, if they are open.
    fn scroll(&mut self, key: Key) {
        let last = self.lines.len().saturating_sub(1);
        let selected = match (key, &mut self.drawer) {
            (Key::PageUp, Some(top)) => return *top = top.saturating_sub(PAGE),
            (Key::PageDown, Some(top)) => return *top += PAGE,
            (Key::Up | Key::Char('k'), _) => self.selected.saturating_sub(1),
            (Key::Down | Key::Char('j'), _) => self.selected + 1,
            (Key::PageUp, _) => self.selected.saturating_sub(PAGE),
            (Key::PageDown, _) => self.selected + PAGE,
            (Key::Home | Key::Char('g'), _) => 0,
            (Key::End | Key::Char('G'), _) => last,
            _ => return,
        };
        self.select(selected.min(last));
    }

    fn select(&mut self, selected: usize) {
        if selected != self.selected {
            self.drawer = self.drawer.map(|_| 0);
        }
        self.selected = selected;
    }

    fn fold(&mut self, key: Key) {
        let Some(line) = self.lines.get(self.selected) else { return };
        let folded = match key {
            Key::Left => true,
            Key::Right => false,
            _ => line.fold == Fold::Open,
        };
        self.listing.set_folded(line, folded);
        self.list();
    }

    fn begin_command(&mut self, verb: &'static Verb) {
        if let Some(path) = self.line().map(|line| line.row.path.clone()) {
            self.mode = Mode::Reason(Command { verb, path, reason: String::new() });
        }
    }

    fn press_in_filter(&mut self, key: Key) -> Option<Action> {
        let filter = &mut self.listing.filter;
        match key {
            Key::Enter => return None,
            Key::Escape => filter.clear(),
            Key::Backspace => drop(filter.pop()),
            Key::Char(c) if !c.is_control() && filter.len() + c.len_utf8() <= FILTER_MAX => filter.push(c),
            Key::Up | Key::Down => self.scroll(key),
            _ => {}
        }
        if key != Key::Escape {
            self.mode = Mode::Filter;
        }
        self.list();
        None
    }

    fn press_in_reason(&mut self, mut command: Command, key: Key) -> Option<Action> {
        match key {
            Key::Escape => return None,
            Key::Enter => {
                self.mode = Mode::Confirm(command);
                return None;
            }
            Key::Backspace => drop(command.reason.pop()),
            Key::Char(c) => command.type_reason(c),
            _ => {}
        }
        self.mode = Mode::Reason(command);
        None
    }

    fn press_in_confirmation(&mut self, command: Command, key: Key) -> Option<Action> {
        match key {
            Key::Char('y') => {
                let text = format!("{} {}: sent", command.verb.name, command.path);
                self.message = Some(Message { text, is_error: false });
                return Some(Action::Send(command));
            }
            Key::Escape | Key::Char('n') => {}
            _ => self.mode = Mode::Confirm(command),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::top::{listing::Listing, rows::Sort, snapshots::tree};

    fn state() -> State {
        State::new(Listing::new(Sort::Path, String::new()), tree(1_000, 1_000, 10))
    }

    fn press(state: &mut State, key: Key) -> Option<Action> {
        state.press(key)
    }

    fn type_text(state: &mut State, text: &str) {
        text.chars().for_each(|c| assert_eq!(press(state, Key::Char(c)), None));
    }

    fn names(state: &State) -> Vec<&str> {
        state.lines.iter().map(|line| line.name.as_str()).collect()
    }

    #[test]
    fn the_selection_moves_within_the_list() {
        let mut state = state();
        for (key, selected) in [
            (Key::Up, 0),
            (Key::Down, 1),
            (Key::PageDown, 2),
            (Key::Down, 2),
            (Key::Home, 0),
            (Key::End, 2),
            (Key::Char('k'), 1),
        ] {
            assert_eq!(press(&mut state, key), None);
            assert_eq!(state.selected, selected, "{key:?}");
        }
    }

    #[test]
    fn keys_change_the_form_the_order_and_the_folds() {
        let mut state = state();
        type_text(&mut state, "s");
        assert_eq!(names(&state), ["o", "b", "a"], "by restarts");
        type_text(&mut state, "t");
        assert_eq!(names(&state), ["b", "o", "a"]);
        type_text(&mut state, "tg ");
        assert_eq!(names(&state), ["o"]);
        press(&mut state, Key::Right);
        assert_eq!(names(&state).len(), 3);
    }

    #[test]
    fn letters_are_typed_into_the_filter() {
        let mut state = state();
        type_text(&mut state, "/back");
        assert_eq!((names(&state), &state.mode), (vec!["o", "b"], &Mode::Filter));
        press(&mut state, Key::Enter);
        assert_eq!((state.listing.filter.as_str(), &state.mode), ("back", &Mode::List));
        type_text(&mut state, "/q");
        assert_eq!(names(&state), [""; 0]);
        press(&mut state, Key::Backspace);
        assert_eq!(names(&state), ["o", "b"]);
        press(&mut state, Key::Escape);
        assert_eq!((names(&state).len(), state.listing.filter.as_str()), (3, ""));
    }

    #[test]
    fn a_command_needs_a_confirmation_after_its_reason() {
        let mut state = state();
        type_text(&mut state, "jrdisk yy");
        let verb = Verb::of_key(Key::Char('r')).unwrap();
        let command = Command { verb, path: "o/a".to_owned(), reason: "disk yy".to_owned() };
        assert_eq!(state.mode, Mode::Reason(command.clone()));
        press(&mut state, Key::Backspace);
        assert_eq!(press(&mut state, Key::Enter), None);
        assert_eq!(press(&mut state, Key::Enter), None, "Enter does not confirm");
        let command = Command { reason: "disk y".to_owned(), ..command };
        assert_eq!(press(&mut state, Key::Char('y')), Some(Action::Send(command.clone())));
        assert!(state.message.as_ref().is_some_and(|message| message.text == "restart o/a: sent"));
        state.finish(&command, Err("it is \"stopped\"".to_owned()));
        let refused = state.message.clone().unwrap();
        assert!(refused.is_error && refused.text == "restart o/a: it is \"stopped\"", "{refused:?}");
        press(&mut state, Key::Char('x'));
        assert_eq!((press(&mut state, Key::Escape), &state.mode), (None, &Mode::List));
        press(&mut state, Key::Char('p'));
        press(&mut state, Key::Enter);
        assert_eq!((press(&mut state, Key::Char('n')), &state.mode), (None, &Mode::List));
    }

    #[test]
    fn the_drawer_follows_the_selection_and_page_keys_scroll_it() {
        let mut state = state();
        assert_eq!(state.subject(), None);
        press(&mut state, Key::Enter);
        assert_eq!(
            state.subject().map(|subject| (subject.path, subject.is_branch)),
            Some(("o".to_owned(), true))
        );
        press(&mut state, Key::PageDown);
        assert_eq!((state.drawer, state.selected), (Some(PAGE), 0));
        press(&mut state, Key::Down);
        let subject = state.subject().unwrap();
        assert_eq!((subject.path.as_str(), subject.is_branch, state.drawer), ("o/a", false, Some(0)));
        press(&mut state, Key::Escape);
        assert_eq!(state.drawer, None);
    }

    #[test]
    fn ctrl_c_quits_in_every_mode_and_q_in_the_list() {
        for keys in ["", "/", "?", "r", "t"] {
            let mut state = state();
            type_text(&mut state, keys);
            assert_eq!(state.press(Key::Ctrl('z')), Some(Action::Suspend), "{keys}");
            assert_eq!(state.press(Key::Ctrl('c')), Some(Action::Quit), "{keys}");
        }
        assert_eq!(press(&mut state(), Key::Char('q')), Some(Action::Quit));
        let mut state = state();
        type_text(&mut state, "?q");
        assert_eq!(state.mode, Mode::List, "any key closes the help");
    }
}
