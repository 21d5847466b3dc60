//! The model's tables as lines of text, to compare with the store's.

use super::{Model, QueueRow};

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

impl Model {
    fn name(&self, id: usize) -> String {
        self.fetchers[id].clone().expect("a row has a living fetcher")
    }

    pub(crate) fn runs_as_text(&self) -> Vec<String> {
        sorted(
            self.runs
                .iter()
                .map(|(id, run, done)| format!("{} {run} {}", self.name(*id), i32::from(*done)))
                .collect(),
        )
    }

    pub(crate) fn fetchers_as_text(&self) -> Vec<String> {
        sorted(self.fetchers.iter().flatten().cloned().collect())
    }

    pub(crate) fn queue_as_text(&self) -> Vec<String> {
        let line = |row: &QueueRow| {
            let (name, dequeued) = (self.name(row.fetcher), i32::from(row.dequeued));
            let (last, jitter) = (text(row.last_started), text(row.jitter));
            format!("{name} {} {}|{}|{dequeued}|{last}|{jitter}", row.run, row.attr, row.payload)
        };
        sorted(self.queue.iter().map(line).collect())
    }

    pub(crate) fn log_as_text(&self) -> Vec<String> {
        sorted(
            self.log
                .iter()
                .map(|row| format!("{} {} {} {}", row.0, row.1, text(row.2), text(row.3)))
                .collect(),
        )
    }

    pub(crate) fn groups_as_text(&self) -> Vec<String> {
        let line = |row: &&QueueRow| {
            let held = i32::from(matches!(self.log_of(&row.attr), Some((_, None, _))));
            let (last, jitter) = (text(row.last_started), text(row.jitter));
            format!("{} {} {held} {last} {jitter} {}", self.name(row.fetcher), row.run, row.attr)
        };
        sorted(self.standing().iter().filter(|row| !row.dequeued).map(line).collect())
    }
}
