//! Outcomes of handlers as exit codes and HTTP statuses express them.

/// Kind of a handler's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeKind {
    /// Success.
    Done,
    /// Failed attempt.
    Failed,
    /// Not processed: the row is released, and no attempt is counted.
    Later,
    /// Permanent failure.
    Dead,
}

/// Exit codes of a program by their meaning. Codes in no list mean [`OutcomeKind::Failed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitCodes {
    /// Codes for [`OutcomeKind::Done`].
    pub done: Vec<u8>,
    /// Codes for [`OutcomeKind::Later`].
    pub later: Vec<u8>,
    /// Codes for [`OutcomeKind::Dead`].
    pub dead: Vec<u8>,
}

impl Default for ExitCodes {
    /// Codes of `sysexits.h`: `EX_TEMPFAIL` is later, `EX_USAGE` and `EX_DATAERR` are dead.
    fn default() -> Self {
        Self { done: vec![0], later: vec![75], dead: vec![64, 65] }
    }
}

impl ExitCodes {
    /// Meaning of an exit code.
    pub fn kind(&self, code: i32) -> OutcomeKind {
        let among = |codes: &[u8]| codes.iter().any(|one| i32::from(*one) == code);
        if among(&self.done) {
            OutcomeKind::Done
        } else if among(&self.later) {
            OutcomeKind::Later
        } else if among(&self.dead) {
            OutcomeKind::Dead
        } else {
            OutcomeKind::Failed
        }
    }

    /// A code that occurs more than once.
    pub fn ambiguous(&self) -> Option<u8> {
        let mut seen = [false; 256];
        let mut all = [&self.done, &self.later, &self.dead].into_iter().flatten();
        all.find(|code| std::mem::replace(&mut seen[usize::from(**code)], true)).copied()
    }
}

/// Meaning of an HTTP status. Redirections are not followed; a wrong address is not the row's fault.
pub fn of_status(status: u16) -> OutcomeKind {
    match status {
        200..=299 => OutcomeKind::Done,
        300..=399 | 408 | 425 | 429 | 500..=599 => OutcomeKind::Later,
        410 | 422 => OutcomeKind::Dead,
        _ => OutcomeKind::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_follow_sysexits_or_the_configuration() {
        let usual = ExitCodes::default();
        for (code, kind) in [
            (0, OutcomeKind::Done),
            (75, OutcomeKind::Later),
            (64, OutcomeKind::Dead),
            (65, OutcomeKind::Dead),
            (1, OutcomeKind::Failed),
            (66, OutcomeKind::Failed),
            (255, OutcomeKind::Failed),
            (256, OutcomeKind::Failed),
            (-1, OutcomeKind::Failed),
        ] {
            assert_eq!(usual.kind(code), kind, "{code}");
        }
        let other = ExitCodes { done: vec![0, 3], later: vec![], dead: vec![1] };
        assert_eq!(
            [3, 75, 1].map(|code| other.kind(code)),
            [OutcomeKind::Done, OutcomeKind::Failed, OutcomeKind::Dead]
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
    fn temporary_statuses_count_no_attempt() {
        for (kind, statuses) in [
            (OutcomeKind::Done, vec![200, 201, 202, 204, 299]),
            (OutcomeKind::Later, vec![301, 308, 408, 425, 429, 500, 502, 503, 504, 599]),
            (OutcomeKind::Dead, vec![410, 422]),
            (OutcomeKind::Failed, vec![400, 401, 403, 404, 409, 413, 415, 418, 600]),
        ] {
            for status in statuses {
                assert_eq!(of_status(status), kind, "{status}");
            }
        }
    }
}
