//! Checks of a load record. Each rule holds for any timing of the threads.

use std::collections::{BTreeMap, BTreeSet};

use super::{Disruption, Done, Handout, LoadRecord};
use crate::child_logs;

#[cfg(test)]
mod tests;

impl LoadRecord {
    /// Checks a drained load by queries on the database, which may be in use. `rows` returns the columns of
    /// each row joined by `|`.
    ///
    /// Returns the number of redelivered jobs, each of which a disruption explains.
    ///
    /// # Panics
    /// With the first violation.
    pub fn check(&self, rows: impl Fn(&str) -> Vec<String>) -> usize {
        self.every_job_was_in_a_file();
        self.the_queue_matches_the_files(&rows);
        self.no_line_was_lost(&rows);
        let redelivered = self.redeliveries_are_explained();
        self.paths_in_flight_are_exclusive();
        self.acknowledged_dones_are_logged(&rows);
        redelivered
    }

    /// Every handed-out job was in a file of its run before.
    fn every_job_was_in_a_file(&self) {
        for handout in &self.seen.handouts {
            let written = self.ever.get(&line(handout));
            assert!(written.is_some_and(|at| *at <= handout.read), "no file had the line of {handout:?}");
        }
    }

    /// The queue has exactly the lines of the existing files.
    fn the_queue_matches_the_files(&self, rows: impl Fn(&str) -> Vec<String>) {
        let present: BTreeSet<String> =
            self.present.keys().map(|(fetcher, run, attr)| format!("{fetcher}|{run}|{attr}")).collect();
        let rows = queue_lines(rows);
        let (lost, extra) = (present.difference(&rows).next(), rows.difference(&present).next());
        assert!(
            lost.is_none() && extra.is_none(),
            "missing in the queue: {lost:?}, not in the files: {extra:?}"
        );
    }

    /// The newest line of each path and fetcher was handed out after it was written, itself or by a newer
    /// run.
    ///
    /// (A hand-out of a path consumes its rows in all runs of the fetcher.)
    fn no_line_was_lost(&self, rows: impl Fn(&str) -> Vec<String>) {
        let mut newest = BTreeMap::new();
        for ((fetcher, run, attr), written) in &self.present {
            // Runs come in rising order.
            newest.insert((fetcher, attr), (*run, *written));
        }
        let mut last: BTreeMap<(&String, &String), Vec<&Handout>> = BTreeMap::new();
        for handout in &self.seen.handouts {
            last.entry((&handout.fetcher, &handout.attr)).or_default().push(handout);
        }
        for (group, (run, written)) in newest {
            let handed_out =
                last.get(&group).is_some_and(|all| all.iter().any(|h| h.run >= run && h.read >= written));
            let attr = group.1;
            let state = |table: &str| rows(&format!("SELECT * FROM {table} WHERE attr_path = '{attr}'"));
            assert!(
                handed_out,
                "{group:?} of run {run}, written at {written:?}, is lost: queue {:?}, log {:?}, seen {:#?}, disruptions {:?}",
                state("queue"),
                state("log"),
                last.get(&group),
                self.disruptions
            );
        }
    }

    /// A line is redelivered only after a disruption between the request of its hand-out and the worker's
    /// next answer.
    ///
    /// Each worker has at most one such job per disruption. An instance that is suspended between its commit
    /// and its answer answers when the job may have been handed out again and ended. So the last hand-out is
    /// one that was read after all others were asked for, and of these one that no disruption hit.
    fn redeliveries_are_explained(&self) -> usize {
        let mut by_line: BTreeMap<_, Vec<&Handout>> = BTreeMap::new();
        for handout in &self.seen.handouts {
            by_line.entry(line(handout)).or_default().push(handout);
        }
        let mut undone: BTreeMap<usize, Vec<&Handout>> = BTreeMap::new();
        for mut handouts in by_line.into_values() {
            let all_sent = handouts.iter().map(|handout| handout.sent).max();
            let is_hit = |handout: &Handout| self.disruptions.iter().any(|d| hits(d, handout));
            handouts.sort_by_cached_key(|handout| {
                (all_sent <= Some(handout.read), !is_hit(handout), handout.read)
            });
            handouts.pop();
            handouts.into_iter().for_each(|handout| undone.entry(handout.worker).or_default().push(handout));
        }
        for handouts in undone.values_mut() {
            handouts.sort_by_key(|handout| handout.sent);
            let mut free = self.disruptions.clone();
            for handout in &*handouts {
                let disruption = free.iter().position(|disruption| hits(disruption, handout));
                let at = disruption.unwrap_or_else(|| {
                    let again = self.seen.handouts.iter().filter(|h| line(h) == line(handout));
                    let again: Vec<_> = again.collect();
                    let disruptions = &self.disruptions;
                    panic!("redelivered without a kill or panic: {again:#?}, undone {handouts:#?}, {disruptions:?}")
                });
                free.remove(at);
            }
        }
        undone.values().map(Vec::len).sum()
    }

    /// While a worker has a job, no other worker receives a job with the same attribute path, of any fetcher.
    ///
    /// Paths whose hand-out a disruption may have undone are skipped: two workers may rightly have them.
    fn paths_in_flight_are_exclusive(&self) {
        let mut by_attr: BTreeMap<&str, Vec<&Handout>> = BTreeMap::new();
        for handout in &self.seen.handouts {
            by_attr.entry(&handout.attr).or_default().push(handout);
        }
        by_attr.retain(|_, all| !all.iter().any(|h| self.disruptions.iter().any(|d| hits(d, h))));
        for mut handouts in by_attr.into_values() {
            handouts.sort_by_key(|handout| handout.read);
            for pair in handouts.windows(2) {
                let (first, second) = (pair[0], pair[1]);
                let overlap = second.sent > first.read && first.done_sent.is_none_or(|at| at > second.read);
                assert!(!overlap, "two workers had one attribute path: {first:#?} {second:#?}");
            }
        }
    }

    /// Every DONE was answered, so the log has each path with the exit code of a DONE that no later DONE
    /// followed.
    ///
    /// A DONE for a hand-out that a disruption may have undone is a plain finish (CONTRACT QP07), so it may
    /// be missing.
    fn acknowledged_dones_are_logged(&self, rows: impl Fn(&str) -> Vec<String>) {
        let mut dones: BTreeMap<&str, Vec<&Done>> = BTreeMap::new();
        for done in &self.seen.dones {
            dones.entry(&done.job.attr).or_default().push(done);
        }
        let rows = rows("SELECT attr_path, CAST(finished IS NOT NULL AS integer), exit_code FROM log");
        let mut logged: BTreeMap<&str, &str> = rows.iter().filter_map(|row| row.split_once('|')).collect();
        for (attr, all) in &dones {
            let certain = all.iter().filter(|done| !self.disruptions.iter().any(|d| hits(d, &done.job)));
            let latest_start = certain.map(|done| done.sent).max();
            let last = all.iter().filter(|done| latest_start.is_none_or(|start| done.acked >= start));
            let row = logged.remove(attr);
            let stands = match row {
                Some(row) => last.map(|done| format!("1|{}", done.code)).any(|wanted| row == wanted),
                None => latest_start.is_none(),
            };
            assert!(stands, "an acknowledged DONE is not in the log: {row:?}, reported {all:#?}");
        }
        assert!(logged.is_empty(), "the log has unreported paths: {logged:?}");
    }
}

/// `fetcher|run|attr_path` of every queue row.
pub(super) fn queue_lines(rows: impl Fn(&str) -> Vec<String>) -> BTreeSet<String> {
    let sql = "SELECT name, fetcher_run_started, attr_path FROM queue JOIN fetchers USING (fetcher_id)";
    rows(sql).into_iter().collect()
}

fn line(handout: &Handout) -> super::Line {
    (handout.fetcher.clone(), handout.run, handout.attr.clone())
}

fn hits(disruption: &Disruption, handout: &Handout) -> bool {
    disruption.instance == handout.instance
        && disruption.to >= handout.sent
        && handout.next_read.is_none_or(|next| disruption.from <= next)
}

impl LoadRecord {
    /// Waits until the queue holds the lines of `present` and no others.
    ///
    /// # Panics
    /// If they differ after the deadline.
    pub fn await_ingest(rows: impl Fn(&str) -> Vec<String>, present: &super::Lines) {
        let wanted: BTreeSet<String> =
            present.keys().map(|(fetcher, run, attr)| format!("{fetcher}|{run}|{attr}")).collect();
        let mut found = BTreeSet::new();
        let give_up = std::time::Instant::now() + crate::DEADLINE;
        while found != wanted {
            found = queue_lines(&rows);
            let lost: Vec<_> = wanted.difference(&found).take(3).collect();
            let extra: Vec<_> = found.difference(&wanted).take(3).collect();
            let late = std::time::Instant::now() > give_up;
            assert!(
                !late,
                "missing in the queue: {lost:?}, not in the files: {extra:?}; last lines:{}",
                child_logs::last_lines()
            );
        }
    }
}
