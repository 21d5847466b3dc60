//! The verdict. What each rule proves is said at the rule; all of them hold whatever the threads' timing was.

use std::collections::{BTreeMap, BTreeSet};

use super::{Disruption, Done, Handout, LoadRecord};
use crate::TestEnv;

impl LoadRecord {
    /// Judges a load that has been drained, with every connection's answers read. `site`'s database may be in use.
    /// Gives how many jobs were doubled, all of them excused.
    ///
    /// # Panics
    /// With the first offender.
    pub fn check(&self, site: &TestEnv) -> usize {
        self.nothing_was_made_up();
        self.the_database_has_the_files_lines(site);
        self.no_line_was_lost();
        let doubled = self.doubled_at_most_one_for_each_connection();
        self.jobs_in_flight_were_held();
        self.acknowledged_dones_stand(site);
        doubled
    }

    /// A job that was handed out had been written to a file before, in that file's run.
    fn nothing_was_made_up(&self) {
        for handout in &self.seen.handouts {
            let written = self.ever.get(&line(handout));
            assert!(written.is_some_and(|at| *at <= handout.read), "no file had the line of {handout:?}");
        }
    }

    /// Every line of a file that is still there has its row, and no other row is left.
    fn the_database_has_the_files_lines(&self, site: &TestEnv) {
        let present: BTreeSet<String> =
            self.present.keys().map(|(fetcher, run, attr)| format!("{fetcher}|{run}|{attr}")).collect();
        let rows = queue_lines(site);
        let (lost, extra) = (present.difference(&rows).next(), rows.difference(&present).next());
        assert!(
            lost.is_none() && extra.is_none(),
            "the queue lacks {lost:?}, has beyond the files {extra:?}"
        );
    }

    /// A hand-out of an attribute path consumes the rows of all runs of its fetcher that are there at that time. So the
    /// newest line of each path and fetcher that is still in a file must have been handed out after it was written,
    /// itself or by a newer run that has gone since.
    fn no_line_was_lost(&self) {
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
            assert!(handed_out, "{group:?} of run {run} is lost: seen {:#?}", last.get(&group));
        }
    }

    /// A line is handed out a second time only after a disruption that came between the request of its hand-out and the
    /// next answer to the same worker, and each worker has at most one such job for each disruption.
    fn doubled_at_most_one_for_each_connection(&self) -> usize {
        let mut by_line: BTreeMap<_, Vec<&Handout>> = BTreeMap::new();
        for handout in &self.seen.handouts {
            by_line.entry(line(handout)).or_default().push(handout);
        }
        let mut undone: BTreeMap<usize, Vec<&Handout>> = BTreeMap::new();
        for mut handouts in by_line.into_values() {
            handouts.sort_by_key(|handout| handout.read);
            handouts.pop();
            handouts.into_iter().for_each(|handout| undone.entry(handout.worker).or_default().push(handout));
        }
        for handouts in undone.values_mut() {
            handouts.sort_by_key(|handout| handout.sent);
            let mut free = self.disruptions.clone();
            for handout in handouts {
                let excuse = free.iter().position(|disruption| hits(disruption, handout));
                let again: Vec<_> = self.seen.handouts.iter().filter(|h| line(h) == line(handout)).collect();
                let at = excuse.unwrap_or_else(|| panic!("handed out again without excuse: {again:#?}"));
                free.remove(at);
            }
        }
        undone.values().map(Vec::len).sum()
    }

    /// While one worker has a job, nobody gets a job with the same attribute path, of whichever fetcher. Paths of
    /// hand-outs that a disruption may have taken back are left out: there two workers may rightly have the same.
    fn jobs_in_flight_were_held(&self) {
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

    /// Every DONE was answered in the end, so each is in the log: finished, with the exit code of a DONE after which no
    /// other one of that path began. A DONE for a hand-out that a disruption may have taken back is a plain finish
    /// (CONTRACT QP07), so it may stand in the log and need not.
    fn acknowledged_dones_stand(&self, site: &TestEnv) {
        let mut dones: BTreeMap<&str, Vec<&Done>> = BTreeMap::new();
        for done in &self.seen.dones {
            dones.entry(&done.job.attr).or_default().push(done);
        }
        let rows = site.database().rows("SELECT attr_path, finished IS NOT NULL, exit_code FROM log");
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
            assert!(stands, "an acknowledged DONE is not in the log: {row:?}, said {all:#?}");
        }
        assert!(logged.is_empty(), "nobody finished {logged:?}");
    }
}

/// `fetcher|run|attr_path` of every row whose run is not on its way out.
pub(super) fn queue_lines(site: &TestEnv) -> BTreeSet<String> {
    let sql = "SELECT name, fetcher_run_started, attr_path FROM queue JOIN fetchers USING (fetcher_id)";
    site.database().rows(sql).into_iter().collect()
}

fn line(handout: &Handout) -> super::Line {
    (handout.fetcher.clone(), handout.run, handout.attr.clone())
}

fn hits(disruption: &Disruption, handout: &Handout) -> bool {
    disruption.to >= handout.sent && handout.next_read.is_none_or(|next| disruption.from <= next)
}

impl LoadRecord {
    /// Waits until the queue holds the lines of `present` and no others.
    ///
    /// # Panics
    /// If it does not get there.
    pub fn await_ingest(site: &TestEnv, present: &super::Lines) {
        let wanted: BTreeSet<String> =
            present.keys().map(|(fetcher, run, attr)| format!("{fetcher}|{run}|{attr}")).collect();
        let mut rows = BTreeSet::new();
        let give_up = std::time::Instant::now() + crate::DEADLINE;
        while rows != wanted {
            rows = queue_lines(site);
            let lost: Vec<_> = wanted.difference(&rows).take(3).collect();
            let extra: Vec<_> = rows.difference(&wanted).take(3).collect();
            let late = std::time::Instant::now() > give_up;
            assert!(!late, "the queue lacks {lost:?}, has beyond the files {extra:?}; log:\n{}", site.log());
        }
    }
}
