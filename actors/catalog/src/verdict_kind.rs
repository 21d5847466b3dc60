//! How work ended, as programs and receivers say it: exit codes and statuses.

/// A [`Verdict`](crate::handling::Verdict) without what is said with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictKind {
    /// Done.
    Done,
    /// It did not work: it counts as an attempt.
    Failed,
    /// It could not be tried: it does not count.
    Later,
    /// It will never work.
    Dead,
}

/// What the exit codes of a program mean; one that is in no list means [`VerdictKind::Failed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitCodes {
    /// The row is done.
    pub done: Vec<u8>,
    /// It could not be tried.
    pub later: Vec<u8>,
    /// It will never work.
    pub dead: Vec<u8>,
}

impl Default for ExitCodes {
    /// Those of `sysexits.h`: `EX_TEMPFAIL` is later, `EX_USAGE` and `EX_DATAERR` are never.
    fn default() -> Self {
        Self { done: vec![0], later: vec![75], dead: vec![64, 65] }
    }
}

impl ExitCodes {
    /// What an exit with `code` means.
    pub fn kind(&self, code: i32) -> VerdictKind {
        let among = |codes: &[u8]| codes.iter().any(|one| i32::from(*one) == code);
        if among(&self.done) {
            VerdictKind::Done
        } else if among(&self.later) {
            VerdictKind::Later
        } else if among(&self.dead) {
            VerdictKind::Dead
        } else {
            VerdictKind::Failed
        }
    }

    /// A code that is in more than one list, or twice in one.
    pub fn ambiguous(&self) -> Option<u8> {
        let mut seen = [false; 256];
        let mut all = [&self.done, &self.later, &self.dead].into_iter().flatten();
        all.find(|code| std::mem::replace(&mut seen[usize::from(**code)], true)).copied()
    }
}

/// What an HTTP status means. A redirection is not followed: the address is to be corrected, which is not the row's fault.
pub fn of_status(status: u16) -> VerdictKind {
    match status {
        200..=299 => VerdictKind::Done,
        300..=399 | 408 | 425 | 429 | 500..=599 => VerdictKind::Later,
        410 | 422 => VerdictKind::Dead,
        _ => VerdictKind::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_mean_what_sysexits_says_or_what_is_configured() {
        let usual = ExitCodes::default();
        for (code, kind) in [
            (0, VerdictKind::Done),
            (75, VerdictKind::Later),
            (64, VerdictKind::Dead),
            (65, VerdictKind::Dead),
            (1, VerdictKind::Failed),
            (66, VerdictKind::Failed),
            (255, VerdictKind::Failed),
            (256, VerdictKind::Failed),
            (-1, VerdictKind::Failed),
        ] {
            assert_eq!(usual.kind(code), kind, "{code}");
        }
        let other = ExitCodes { done: vec![0, 3], later: vec![], dead: vec![1] };
        assert_eq!(
            [3, 75, 1].map(|code| other.kind(code)),
            [VerdictKind::Done, VerdictKind::Failed, VerdictKind::Dead]
        );
    }

    #[test]
    fn a_code_has_one_meaning() {
        assert_eq!(ExitCodes::default().ambiguous(), None);
        assert_eq!(ExitCodes { dead: vec![75], ..ExitCodes::default() }.ambiguous(), Some(75));
        assert_eq!(ExitCodes { done: vec![0, 0], ..ExitCodes::default() }.ambiguous(), Some(0));
        assert_eq!(ExitCodes { done: vec![], later: vec![255], dead: vec![255] }.ambiguous(), Some(255));
    }

    #[test]
    fn statuses_of_the_moment_do_not_count() {
        for (kind, statuses) in [
            (VerdictKind::Done, vec![200, 201, 202, 204, 299]),
            (VerdictKind::Later, vec![301, 308, 408, 425, 429, 500, 502, 503, 504, 599]),
            (VerdictKind::Dead, vec![410, 422]),
            (VerdictKind::Failed, vec![400, 401, 403, 404, 409, 413, 415, 418, 600]),
        ] {
            for status in statuses {
                assert_eq!(of_status(status), kind, "{status}");
            }
        }
    }
}
