//! Fetchers whose runs are expected at intervals, and the time of their last runs.

use std::{path::Path, time::Duration};

use orchestrator_observe::ExpectedInput;
use orchestrator_queue_rules::storage::glob;
use orchestrator_supervise::Vitals;

use crate::config::ExpectedFetcher;

/// Expected inputs with the patterns of their fetchers.
#[derive(Debug)]
pub(super) struct ExpectedRuns(Vec<(String, ExpectedInput)>);

impl ExpectedRuns {
    /// Declares the inputs. A fetcher without a run is late a period after the first start.
    pub(super) fn new(expected: &[ExpectedFetcher], input_dir: &Path, vitals: &Vitals) -> Self {
        let declare = |ExpectedFetcher { fetcher, every }: &ExpectedFetcher| {
            let help = format!("ls -lt {}; start the fetcher {fetcher}", input_dir.display());
            (fetcher.clone(), vitals.expect_input(fetcher, every.duration(), &help))
        };
        Self(expected.iter().map(declare).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records the last run of each fetcher, with the time in unix seconds at which it was added, at `now`.
    pub(super) fn update(&self, last_runs: &[(String, i64)], now: i64) {
        for (pattern, input) in &self.0 {
            let matching = last_runs.iter().filter(|(fetcher, _)| glob::matches(pattern, fetcher));
            if let Some(added) = matching.map(|(_, added)| *added).max() {
                let ago = u64::try_from(now.saturating_sub(added)).unwrap_or(0);
                input.arrived_before(Duration::from_secs(ago));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use orchestrator_supervise::{Root, Strategy, SupervisorSpec};

    use super::*;

    #[test]
    fn the_last_run_of_a_pattern_counts() {
        actix_rt::System::new().block_on(async {
            let mut root = Root::start("test", SupervisorSpec::new(Strategy::OneForOne)).await.unwrap();
            let vitals = root.tree().vitals("test").unwrap();
            let expected = ["git*", "repology"].map(|fetcher| ExpectedFetcher {
                fetcher: fetcher.to_owned(),
                every: "1h".to_owned().try_into().unwrap(),
            });
            let runs = ExpectedRuns::new(&expected, Path::new("/in"), &vitals);
            let late = || -> Vec<(String, bool)> {
                let inputs = root.tree().node("test").unwrap().expected_inputs;
                inputs.into_iter().map(|input| (input.name, input.late_ms > 0)).collect()
            };
            let expect = |git, repology| [("git*".to_owned(), git), ("repology".to_owned(), repology)];
            assert_eq!(late(), expect(false, false), "the first period");
            let added = |fetcher: &str, added| (fetcher.to_owned(), added);
            runs.update(&[added("github", 0), added("gitlab", 9_000), added("repology", 0)], 10_000);
            assert_eq!(late(), expect(false, true));
            runs.update(&[added("github", 0), added("repology", 20_000)], 10_000);
            assert_eq!(late(), expect(true, false), "a time in the future is now");
            root.stop().await;
        });
    }
}
