//! Restart intensity of the supervisor of rules.

use std::time::Duration;

use orchestrator_supervise::RestartWindow;

use crate::RULE_LIMITS;

/// Returns true if `rules` rules that panic at every start exceed the limits within an hour.
fn escalates(rules: u32) -> bool {
    let mut window = RestartWindow::new(RULE_LIMITS);
    let (mut now, mut attempt) = (Duration::ZERO, 0);
    while now < Duration::from_secs(3_600) {
        if (0..rules).any(|_| window.record(now)) {
            return true;
        }
        now += RULE_LIMITS.backoff.delay(attempt, 0.0);
        attempt += 1;
    }
    false
}

#[test]
fn one_failing_rule_restarts_no_other_but_many_do() {
    assert!(!escalates(1) && !escalates(6));
    assert!(escalates(9));
}
