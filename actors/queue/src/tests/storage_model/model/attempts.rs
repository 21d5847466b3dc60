//! Attempts of the model: hand-outs, each with the log row that it replaced.

use super::{Handout, Log, Model};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attempt {
    started: i64,
    handout: i64,
    attr: String,
    fetcher: Option<String>,
    previous: Log,
}

impl Model {
    pub(super) fn begin_attempt(&mut self, handout: &Handout, started: i64, fetcher: Option<String>) {
        self.attempts.sort();
        while self.attempts.len() >= self.attempts_max.max(1) {
            self.attempts.remove(0);
        }
        if self.attempts_max > 0 {
            let (attr, previous) = (handout.attr.clone(), handout.previous);
            self.attempts.push(Attempt { started, handout: handout.id, attr, fetcher, previous });
        }
    }

    pub(super) fn remove_attempt(&mut self, handout: i64) {
        self.attempts.retain(|attempt| attempt.handout != handout);
    }

    pub(crate) fn attempts_as_text(&self) -> Vec<String> {
        let text = |one: &Attempt| {
            let fetcher = one.fetcher.as_deref().unwrap_or("-");
            let cell = |value: Option<i64>| value.map_or("-".to_owned(), |value| value.to_string());
            let (started, finished, code) = one
                .previous
                .map_or((None, None, None), |(started, finished, code)| (Some(started), finished, code));
            let previous = format!("{} {} {}", cell(started), cell(finished), cell(code));
            format!("{} {} {} {fetcher} {previous}", one.attr, one.started, one.handout)
        };
        let mut lines: Vec<String> = self.attempts.iter().map(text).collect();
        lines.sort();
        lines
    }
}
