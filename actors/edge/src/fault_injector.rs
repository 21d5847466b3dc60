//! The fault seam: named points at which a test makes an edge fail a number of times. In production nothing is armed
//! and a point costs one branch.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

/// Faults that wait at named points. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct FaultInjector {
    armed: Option<Arc<Mutex<HashMap<&'static str, u32>>>>,
}

impl FaultInjector {
    /// For production: no point ever fails.
    pub fn disabled() -> Self {
        Self::default()
    }

    /// For tests: points fail as [`FaultInjector::arm`] says.
    pub fn enabled() -> Self {
        Self { armed: Some(Arc::default()) }
    }

    /// The next `times` passes of `point` fail.
    ///
    /// # Panics
    /// On [`FaultInjector::disabled`]: nothing would ever fail, and the test would prove nothing.
    pub fn arm(&self, point: &'static str, times: u32) {
        let armed =
            self.armed.as_ref().expect("faults are armed on an injector made with FaultInjector::enabled");
        armed.lock().insert(point, times);
    }

    /// Is this pass of `point` to fail?
    pub fn should_fail(&self, point: &'static str) -> bool {
        let Some(armed) = &self.armed else {
            return false;
        };
        let mut armed = armed.lock();
        match armed.get_mut(point) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_fails_as_often_as_armed() {
        let faults = FaultInjector::enabled();
        assert!(!faults.should_fail("write"));
        faults.arm("write", 2);
        assert_eq!(
            [faults.should_fail("write"), faults.should_fail("write"), faults.should_fail("write")],
            [true, true, false]
        );
        assert!(!FaultInjector::disabled().should_fail("write"));
    }
}
