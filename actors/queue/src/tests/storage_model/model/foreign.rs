//! Statements of other programs on the model.

use super::{Log, Model, QueueRow};

impl Model {
    pub(crate) fn foreign_log(&mut self, attr: &str, replace: bool, change: impl FnOnce(&mut Log)) {
        let mut log = self.log_of(attr);
        if log.is_some() && !replace {
            return;
        }
        change(&mut log);
        self.set_log(attr, log);
        if let Some((started, _, _)) = log {
            self.set_last_started(attr, Some(started));
        }
    }

    pub(crate) fn foreign_mark(&mut self, attr: &str, dequeued: bool) {
        for row in self.queue.iter_mut().filter(|row| row.attr == attr) {
            row.dequeued = dequeued;
        }
    }

    pub(crate) fn foreign_row(&mut self, fetcher: &str, run: i64, attr: &str, jitter: Option<i64>) {
        let Some(id) = self.fetcher(fetcher) else { return };
        if self.queue.iter().any(|row| (row.fetcher, row.run, row.attr.as_str()) == (id, run, attr)) {
            return;
        }
        let last_started = self.log_of(attr).map(|log| log.0);
        self.queue.push(QueueRow {
            fetcher: id,
            run,
            attr: attr.to_owned(),
            payload: "foreign 1".to_owned(),
            dequeued: false,
            last_started,
            jitter,
        });
    }

    pub(crate) fn foreign_delete(&mut self, attr: &str, run: i64) {
        self.queue.retain(|row| row.attr != attr || row.run != run);
    }
}
