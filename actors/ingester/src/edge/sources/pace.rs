//! Speed at which files are played.

use tokio::time::{Duration, Instant, sleep_until};

use crate::source::SourceError;

/// Replay speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// As fast as items are taken.
    Full,
    /// By recorded times.
    Recorded,
    /// Time between two items.
    Every(Duration),
}

impl Pace {
    /// Parses `full`, `recorded` or a rate; None is full speed.
    ///
    /// # Errors
    /// The text is none of these; the error says what to write.
    pub(crate) fn parse(text: Option<&str>) -> Result<Self, SourceError> {
        let rate = |text: &str| {
            text.strip_suffix("/s")?.trim().parse().ok().filter(|rate| (1e-3..=1e9).contains(rate))
        };
        match text {
            None | Some("full") => Ok(Self::Full),
            Some("recorded") => Ok(Self::Recorded),
            Some(text) => match rate(text) {
                Some(rate) => Ok(Self::Every(Duration::from_secs_f64(1.0 / rate))),
                None => {
                    Err(SourceError(format!("pace = {text}: write full, recorded, or a rate such as 1000/s")))
                }
            },
        }
    }
}

/// Timing of items.
pub(crate) struct Pacer {
    pace: Pace,
    /// Time of the first item, here and in the file.
    first: Option<(Instant, jiff::Timestamp)>,
    count: u32,
}

impl Pacer {
    pub(crate) fn new(pace: Pace) -> Self {
        Self { pace, first: None, count: 0 }
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.pace == Pace::Recorded
    }

    /// Items at a rate are due at multiples of the interval, so that delays do not add up.
    pub(crate) async fn wait_rate(&mut self) {
        if let Pace::Every(between) = self.pace {
            let (first, _) = *self.first.get_or_insert_with(|| (Instant::now(), jiff::Timestamp::UNIX_EPOCH));
            sleep_until(first + between.saturating_mul(self.count)).await;
            self.count = self.count.saturating_add(1);
        }
    }

    /// Waits until an item recorded at `time` is due.
    pub(crate) async fn wait_recorded(&mut self, time: jiff::Timestamp) {
        let (first, recorded) = *self.first.get_or_insert_with(|| (Instant::now(), time));
        // After a backward step of the recording clock, events are due at once.
        let after = Duration::try_from(time.duration_since(recorded)).unwrap_or_default();
        sleep_until(first + after).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_full_recorded_or_a_rate() {
        assert_eq!(Pace::parse(None).expect("a pace"), Pace::Full);
        assert_eq!(Pace::parse(Some("full")).expect("a pace"), Pace::Full);
        assert_eq!(Pace::parse(Some("recorded")).expect("a pace"), Pace::Recorded);
        assert_eq!(Pace::parse(Some("100 /s")).expect("a pace"), Pace::Every(Duration::from_millis(10)));
        for bad in ["", "fast", "0/s", "-1/s", "1e12/s", "NaN/s", "100"] {
            let error = Pace::parse(Some(bad)).expect_err(bad).to_string();
            assert!(error.contains("1000/s"), "{error}");
        }
    }
}
