//! Jobs that were pushed against jobs that were done: a server that lost some did fewer.

/// What was pushed since some moment, and how far the server's counter of jobs done came since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Account {
    base: Option<u64>,
    latest: u64,
    pushed: u64,
}

impl Account {
    /// The server's counter was read: jobs of any type and anybody that were acknowledged or failed.
    pub(super) fn read(&mut self, processed: u64) {
        self.base.get_or_insert(processed);
        self.latest = processed;
    }

    /// So many jobs were acknowledged by the server.
    pub(super) fn pushed(&mut self, jobs: u64) {
        self.pushed = self.pushed.saturating_add(jobs);
    }

    /// With all jobs done: the jobs pushed and the jobs done, if they are fewer. Each job counts at least once when it is
    /// done, others' jobs as well: so some losses stay hidden, but none is made up.
    pub(super) fn lost(&self) -> Option<(u64, u64)> {
        let base = self.base?;
        let done = self.latest.saturating_sub(base);
        (self.latest < base || done < self.pushed).then_some((self.pushed, done))
    }

    /// What was lost is pushed again, and counted from here.
    pub(super) fn begin_again(&mut self) {
        *self = Self { base: Some(self.latest), latest: self.latest, pushed: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_done_than_pushed_is_a_loss() {
        let mut account = Account::default();
        account.pushed(3);
        assert_eq!(account.lost(), None, "nothing was read");
        account.read(10);
        account.pushed(2);
        for (processed, lost) in
            [(15, None), (19, None), (14, Some((5, 4))), (10, Some((5, 0))), (3, Some((5, 0)))]
        {
            account.read(processed);
            assert_eq!(account.lost(), lost, "{processed}");
        }
        account.begin_again();
        assert_eq!(account.lost(), None);
        account.read(2);
        assert_eq!(account.lost(), Some((0, 0)), "the counter went back");
    }
}
