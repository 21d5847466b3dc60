//! Requests over a link that await their answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// Time without an answer after which a link is unanswered.
pub const UNANSWERED: Duration = Duration::from_secs(5);
/// Longest time of an attempt that fails because the peer refuses or closes. One that fails later got no
/// answer.
const REFUSAL: Duration = Duration::from_secs(1);

/// Requests to a peer that has not answered them.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Start of each open request, and the time that its answer may take, by number.
    pub(crate) open: BTreeMap<u64, (Instant, Duration)>,
    /// Numbers of those that await only a sign of life.
    pub(crate) watches: BTreeSet<u64>,
    next: u64,
    /// Start of the request that ended last, if it took longer than [`REFUSAL`].
    late: Option<Instant>,
    /// Start of the first of several requests that failed without an answer.
    silent: Option<Instant>,
}

impl Requests {
    /// Begins a request whose answer may take `most`, and returns its number.
    pub(crate) fn begin(&mut self, most: Duration, now: Instant) -> u64 {
        let number = self.next;
        self.next += 1;
        self.open.insert(number, (now, most));
        number
    }

    pub(crate) fn end(&mut self, number: u64, now: Instant) {
        let Some((since, _)) = self.open.remove(&number) else { return };
        self.watches.remove(&number);
        self.late = (now.duration_since(since) >= REFUSAL).then_some(since);
        self.silent = self.silent.filter(|_| self.late.is_some());
    }

    /// Records that the request that ended last has failed.
    pub(crate) fn fail(&mut self) {
        self.silent = self.silent.or(self.late);
    }

    /// Forgets failed requests.
    pub(crate) fn forget(&mut self) {
        (self.late, self.silent) = (None, None);
    }

    /// Start of the oldest request that awaits an answer.
    pub(crate) fn waits_since(&self) -> Option<Instant> {
        let awaited = self.open.iter().filter(|(number, _)| !self.watches.contains(number));
        awaited.map(|(_, (since, _))| *since).min()
    }

    /// Start of the oldest request whose answer is overdue.
    pub(crate) fn unanswered_since(&self, now: Instant) -> Option<Instant> {
        let silent = self.silent.map(|since| (since, UNANSWERED));
        let waits = self.open.values().copied().chain(silent);
        waits.filter(|(since, most)| now.duration_since(*since) >= *most).map(|(since, _)| since).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_oldest_overdue_request_counts_until_it_ends() {
        let (mut requests, start) = (Requests::default(), Instant::now());
        let since = |requests: &Requests, after: u32| {
            requests.unanswered_since(start + SECOND * after).map(|since| since - start)
        };
        let first = requests.begin(UNANSWERED, start);
        let second = requests.begin(UNANSWERED, start + SECOND);
        let longer = requests.begin(SECOND * 60, start);
        assert_eq!(since(&requests, 4), None);
        assert_eq!(since(&requests, 5), Some(Duration::ZERO));
        requests.end(first, start + SECOND * 6);
        assert_eq!(since(&requests, 6), Some(SECOND));
        requests.end(second, start + SECOND * 6);
        assert_eq!(since(&requests, 59), None);
        assert_eq!(since(&requests, 60), Some(Duration::ZERO));
        requests.end(longer, start + SECOND * 60);
        assert_eq!(since(&requests, 600), None);
    }

    #[test]
    fn attempts_that_end_without_an_answer_are_one_silence() {
        let (mut requests, start) = (Requests::default(), Instant::now());
        let at = |seconds: u32| start + SECOND * seconds;
        for seconds in [0, 3, 6] {
            let attempt = requests.begin(UNANSWERED, at(seconds));
            requests.end(attempt, at(seconds + 2));
            requests.fail();
            assert_eq!(requests.unanswered_since(at(seconds + 2)), (seconds > 0).then_some(start));
        }
        // A refusal is an answer.
        let refused = requests.begin(UNANSWERED, at(9));
        requests.end(refused, at(9));
        requests.fail();
        assert_eq!(requests.unanswered_since(at(60)), None);
        // A slow request that succeeds is no silence.
        let slow = requests.begin(UNANSWERED, at(60));
        requests.end(slow, at(64));
        requests.forget();
        assert_eq!(requests.unanswered_since(at(600)), None);
    }
}
