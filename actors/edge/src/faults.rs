//! The fault seam: named points at which a test makes an edge fail a number of times. In production nothing is armed
//! and a point costs one branch.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

/// Faults that wait at named points. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    armed: Option<Arc<Mutex<HashMap<&'static str, u32>>>>,
}

impl Faults {
    /// For production: no point ever fails.
    pub fn none() -> Self {
        Self::default()
    }

    /// For tests: points fail as [`Faults::arm`] says.
    pub fn seam() -> Self {
        Self { armed: Some(Arc::default()) }
    }

    /// The next `times` passes of `point` fail.
    ///
    /// # Panics
    /// On [`Faults::none`]: nothing would ever fail, and the test would prove nothing.
    pub fn arm(&self, point: &'static str, times: u32) {
        let armed = self.armed.as_ref().expect("faults are armed on a seam made with Faults::seam");
        armed.lock().insert(point, times);
    }

    /// Is this pass of `point` to fail?
    pub fn strike(&self, point: &'static str) -> bool {
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
        let faults = Faults::seam();
        assert!(!faults.strike("write"));
        faults.arm("write", 2);
        assert_eq!(
            [faults.strike("write"), faults.strike("write"), faults.strike("write")],
            [true, true, false]
        );
        assert!(!Faults::none().strike("write"));
    }
}
