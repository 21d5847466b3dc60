//! Limits of jobs in flight. Each group belongs to the class of the first limit that it matches, or to
//! the class of unlimited groups.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Class, glob, is_expired};

/// Maximum number of configured limits. Triggers of other connections look for a group in each class.
pub const LIMITS_MAX: usize = 16;

/// Limit of jobs in flight of some attribute paths or fetchers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Pattern of attribute paths: `*` stands for any characters, `?` for one. Without it, all match.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub attr_path: Option<String>,
    /// Pattern of fetchers, the stems of their file names. Without it, all match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub fetcher: Option<String>,
    /// Maximum number of jobs in flight; 0 hands none out.
    #[schemars(range(max = 1_000))]
    pub in_flight: u32,
}

impl Limit {
    /// Returns true if a job matches both patterns. An unknown fetcher matches none.
    pub fn matches(&self, attr_path: &str, fetcher: Option<&str>) -> bool {
        self.attr_path.as_deref().is_none_or(|pattern| glob::matches(pattern, attr_path))
            && self
                .fetcher
                .as_deref()
                .is_none_or(|pattern| fetcher.is_some_and(|fetcher| glob::matches(pattern, fetcher)))
    }
}

/// All limits, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits(pub Vec<Limit>);

impl Limits {
    /// With an unknown fetcher only limits without a pattern of fetchers match.
    pub fn class(&self, attr_path: &str, fetcher: Option<&str>) -> Class {
        let found = self.0.iter().position(|limit| limit.matches(attr_path, fetcher));
        found.and_then(|at| Class::try_from(at + 1).ok()).unwrap_or(0)
    }

    /// None for unlimited groups.
    pub fn limit(&self, class: Class) -> Option<&Limit> {
        self.0.get(usize::from(class).checked_sub(1)?)
    }
}

/// Jobs in flight of limited groups.
#[derive(Debug, Clone, Default)]
pub struct LimitedJobs {
    by_attr: BTreeMap<String, (Class, i64)>,
    by_class: BTreeMap<Class, BTreeSet<(i64, String)>>,
}

impl LimitedJobs {
    /// Adds a job that was handed out at `started`. A path has one job in flight.
    pub fn insert(&mut self, attr_path: &str, class: Class, started: i64) {
        self.remove(attr_path);
        self.by_attr.insert(attr_path.to_owned(), (class, started));
        self.by_class.entry(class).or_default().insert((started, attr_path.to_owned()));
    }

    /// Removes the job of a path. Returns false if there was none.
    pub fn remove(&mut self, attr_path: &str) -> bool {
        let Some((class, started)) = self.by_attr.remove(attr_path) else { return false };
        self.by_class.entry(class).or_default().remove(&(started, attr_path.to_owned()));
        true
    }

    /// Jobs whose hold of `hold` seconds is over do not count (CONTRACT QO02).
    pub fn is_full(&self, limits: &Limits, class: Class, now: i64, hold: i64) -> bool {
        let Some(limit) = limits.limit(class) else { return false };
        let Some(last) = (limit.in_flight as usize).checked_sub(1) else { return true };
        // The newest jobs are held longest.
        let jobs = self.by_class.get(&class).filter(|jobs| jobs.len() > last);
        jobs.and_then(|jobs| jobs.iter().nth_back(last)).is_some_and(|job| !is_expired(job.0, now, hold))
    }

    /// Attribute paths of the jobs whose hold of `hold` seconds is over.
    pub fn expired(&self, class: Class, now: i64, hold: i64) -> Vec<String> {
        let jobs = self.by_class.get(&class).into_iter().flatten();
        jobs.take_while(|job| is_expired(job.0, now, hold)).map(|job| job.1.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limit(attr_path: Option<&str>, fetcher: Option<&str>, in_flight: u32) -> Limit {
        Limit { attr_path: attr_path.map(str::to_owned), fetcher: fetcher.map(str::to_owned), in_flight }
    }

    #[test]
    fn the_first_limit_that_matches_counts() {
        let limits = Limits(vec![
            limit(Some("python3*"), Some("git*"), 1),
            limit(Some("python3*"), None, 2),
            limit(None, Some("repology"), 3),
        ]);
        for (attr_path, fetcher, class) in [
            ("python3Packages.a", Some("github"), 1),
            ("python3Packages.a", Some("repology"), 2),
            ("python3Packages.a", None, 2),
            ("hello", Some("repology"), 3),
            ("hello", Some("github"), 0),
            ("hello", None, 0),
        ] {
            assert_eq!(limits.class(attr_path, fetcher), class, "{attr_path} {fetcher:?}");
        }
        assert_eq!(Limits::default().class("hello", Some("repology")), 0);
    }

    #[test]
    fn a_limit_of_zero_is_always_full() {
        let limits = Limits(vec![limit(Some("*"), None, 0)]);
        assert!(LimitedJobs::default().is_full(&limits, 1, 0, 10));
        assert!(!LimitedJobs::default().is_full(&limits, 0, 0, 10), "unlimited groups");
    }

    proptest! {
        #[test]
        fn a_class_is_full_by_its_held_jobs(
            jobs in proptest::collection::vec((0..8_u8, 1..3_u8, 0..30_i64, any::<bool>()), 0..40),
            allowed in 0..4_u32, now in 0..50_i64,
        ) {
            let limits = Limits(vec![limit(Some("a*"), None, allowed), limit(None, None, allowed)]);
            let hold = 10;
            let (mut tracked, mut plain) = (LimitedJobs::default(), BTreeMap::new());
            for (attr, class, started, ends) in jobs {
                let attr_path = format!("a{attr}");
                if ends {
                    prop_assert_eq!(tracked.remove(&attr_path), plain.remove(&attr_path).is_some());
                } else {
                    tracked.insert(&attr_path, class, started);
                    plain.insert(attr_path, (class, started));
                }
            }
            for class in [1, 2] {
                let held = |job: &&(u8, i64)| job.0 == class && job.1 + hold >= now;
                prop_assert_eq!(
                    tracked.is_full(&limits, class, now, hold),
                    plain.values().filter(held).count() >= allowed as usize
                );
            }
        }
    }
}
