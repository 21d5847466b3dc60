//! Public state of the queue for the page of `orchestrator queue export` (CONTRACT QX12).

use std::str::FromStr;

use crate::storage::{Counts, LogRow};

/// Maximum number of groups in a listing.
pub const GROUPS_MAX: usize = 200_000;
/// Maximum size of the texts in a listing, in bytes.
pub const LISTING_BYTES_MAX: usize = 64 << 20;
/// Time over which the pace of hand-outs is measured, in seconds.
pub const PACE_SECS: i64 = 6 * 3_600;
/// Fewest hand-outs from which a pace is computed.
const PACE_MIN: u64 = 10;
/// Placeholders of a [`LogUrl`].
const PLACEHOLDERS: [&str; 4] = ["attr_path", "fetcher", "date", "started"];
/// Beginnings of a [`LogUrl`]; others could be scripts.
const LOG_URL_STARTS: [&str; 3] = ["https://", "http://", "/"];

/// State of the queue at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The time, in unix seconds.
    pub at: i64,
    /// True while hand-outs are paused.
    pub paused: bool,
    /// Totals of the database.
    pub counts: Counts,
    /// Hand-outs of the last hours.
    pub pace: Pace,
    /// Names of fetchers.
    pub fetchers: Vec<String>,
    /// Waiting groups in the order of hand-outs, then those that are blocked, then those handed out, newest
    /// first.
    pub groups: Vec<ListedGroup>,
    /// True if there are more groups than the page can show.
    pub is_cut: bool,
}

/// A group: an attribute path of one fetcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    /// The attribute path.
    pub attr_path: String,
    /// Index of the fetcher's name.
    pub fetcher: usize,
    /// Payload of the job, up to 500 characters.
    pub payload: String,
    /// Tells whether the group can be handed out now.
    pub state: GroupState,
    /// Place in the order of hand-outs, from 1; None unless it is waiting.
    pub position: Option<u64>,
    /// Last attempt of the attribute path.
    pub last: Option<LogRow>,
    /// Number of attempts of the attribute path that are kept, and the last one.
    pub attempts: u64,
}

/// State of a group. The page knows the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupState {
    /// Can be handed out.
    Waiting = 0,
    /// Waits for the end of a hold of its attribute path.
    Held = 1,
    /// Waits for a limit.
    Limited = 2,
    /// Handed out, and its attribute path is held.
    Running = 3,
    /// Handed out, and its end is known.
    Ended = 4,
    /// Handed out, and no worker reported its end during the hold.
    Unanswered = 5,
}

/// Hand-outs since a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Number of hand-outs.
    pub handed_out: u64,
    /// Time since the first of them, in seconds.
    pub secs: i64,
}

impl Pace {
    /// Average time between two hand-outs; None if there are too few.
    #[expect(clippy::cast_precision_loss, reason = "an average for readers")]
    pub fn secs_per_job(self) -> Option<f64> {
        (self.handed_out >= PACE_MIN && self.secs > 0).then(|| self.secs as f64 / self.handed_out as f64)
    }
}

/// Template of the addresses of logs, with placeholders such as `{attr_path}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogUrl(String);

impl LogUrl {
    /// The template.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LogUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !LOG_URL_STARTS.iter().any(|start| text.starts_with(start)) {
            return Err(format!("it begins with none of {}", LOG_URL_STARTS.join(", ")));
        }
        let mut pieces = text.split('{');
        let unmatched = |text: &str| text.contains('}');
        if pieces.next().is_some_and(unmatched) {
            return Err("a } has no {".to_owned());
        }
        for piece in pieces {
            let (name, rest) = piece.split_once('}').ok_or("a { has no }")?;
            if !PLACEHOLDERS.contains(&name) {
                return Err(format!("{{{name}}} is no placeholder: use {{{}}}", PLACEHOLDERS.join("}, {")));
            }
            if unmatched(rest) {
                return Err("a } has no {".to_owned());
            }
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_needs_ten_hand_outs_and_some_time() {
        let pace = |handed_out, secs| Pace { handed_out, secs }.secs_per_job();
        assert_eq!(pace(10, 25), Some(2.5));
        assert_eq!(pace(9, 25), None);
        assert_eq!(pace(10, 0), None);
    }

    #[test]
    fn a_template_has_known_placeholders_and_is_no_script() {
        for good in ["https://x/{attr_path}/{date}.log", "/logs/{fetcher}/{started}", "http://x"] {
            assert_eq!(good.parse(), Ok(LogUrl(good.to_owned())));
        }
        for (wrong, reason) in [
            ("javascript:alert({attr_path})", "begins with none of"),
            ("https://x/{attr}", "{attr} is no placeholder: use {attr_path}, {fetcher}"),
            ("https://x/{", "a { has no }"),
            ("https://x/}", "a } has no {"),
            ("https://x/{date}}", "a } has no {"),
        ] {
            let error = wrong.parse::<LogUrl>().unwrap_err();
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }
}
