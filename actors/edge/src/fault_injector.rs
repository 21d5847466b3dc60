//! Fault injection for tests, at named points of an edge. In production a point costs one branch.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

/// Faults armed at named points. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct FaultInjector {
    armed: Option<Arc<Mutex<HashMap<&'static str, u32>>>>,
}

impl FaultInjector {
    /// Creates an injector that never fails, for production.
    pub fn disabled() -> Self {
        Self::default()
    }

    /// Creates an injector for tests, whose points fail after [`FaultInjector::arm`].
    pub fn enabled() -> Self {
        Self { armed: Some(Arc::default()) }
    }

    /// Makes the next `times` passes of `point` fail.
    ///
    /// # Panics
    /// On an injector made by [`FaultInjector::disabled`].
    pub fn arm(&self, point: &'static str, times: u32) {
        let armed = self.armed.as_ref().expect("arm needs an injector made with FaultInjector::enabled");
        armed.lock().insert(point, times);
    }

    /// Tells whether this pass of `point` fails.
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
