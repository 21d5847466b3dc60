//! Attempts of the model: hand-outs with their ends.

use super::Model;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attempt {
    started: i64,
    attr: String,
    handout: i64,
    fetcher: Option<String>,
    end: Option<(i64, Option<i64>)>,
}

impl Model {
    pub(super) fn begin_attempt(&mut self, attr: &str, started: i64, handout: i64, fetcher: Option<String>) {
        let attempt = Attempt { started, attr: attr.to_owned(), handout, fetcher, end: None };
        self.add_attempt(attempt);
    }

    fn add_attempt(&mut self, attempt: Attempt) {
        self.attempts.sort();
        while self.attempts.len() >= self.attempts_max.max(1) {
            self.attempts.remove(0);
        }
        if self.attempts_max > 0 {
            self.attempts.push(attempt);
        }
    }

    pub(super) fn end_attempt(&mut self, attr: &str, started: i64, end: (i64, Option<i64>)) {
        let of = |one: &&mut Attempt| one.attr == attr && one.started == started;
        match self.attempts.iter_mut().filter(of).max_by_key(|one| one.handout) {
            Some(attempt) => attempt.end = Some(end),
            None => self.add_attempt(Attempt {
                started,
                attr: attr.to_owned(),
                handout: 0,
                fetcher: None,
                end: Some(end),
            }),
        }
    }

    pub(super) fn remove_attempt(&mut self, handout: i64) {
        self.attempts.retain(|attempt| attempt.handout != handout);
    }

    pub(crate) fn attempts_as_text(&self) -> Vec<String> {
        let text = |one: &Attempt| {
            let fetcher = one.fetcher.as_deref().unwrap_or("-");
            let (finished, code) = one.end.map_or((None, None), |(finished, code)| (Some(finished), code));
            let cell = |value: Option<i64>| value.map_or("-".to_owned(), |value| value.to_string());
            format!(
                "{} {} {} {fetcher} {} {}",
                one.attr,
                one.started,
                one.handout,
                cell(finished),
                cell(code)
            )
        };
        let mut lines: Vec<String> = self.attempts.iter().map(text).collect();
        lines.sort();
        lines
    }
}
