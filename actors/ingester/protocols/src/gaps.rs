//! Detection of gaps in a source's frame numbers.

/// Relation of a number to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The next number, or the first one.
    Ok,
    /// Numbers are missing.
    Gap {
        /// Count of missing numbers.
        missing: u64,
    },
    /// The same number again.
    Repeat,
    /// A smaller number; counting continues from there.
    Backwards,
}

/// Detector for one series.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gaps {
    last: Option<u64>,
}

impl Gaps {
    /// Records the series' next number. The first one is never a gap.
    pub fn step(&mut self, number: u64) -> Step {
        let Some(last) = self.last.replace(number) else {
            return Step::Ok;
        };
        match number.checked_sub(last) {
            None => Step::Backwards,
            Some(0) => Step::Repeat,
            Some(1) => Step::Ok,
            Some(by) => Step::Gap { missing: by - 1 },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Missing and received frames add up to the whole range.
        #[test]
        fn gaps_add_up(kept in proptest::collection::vec(any::<bool>(), 1..200), first in 0..u64::MAX - 300) {
            let mut gaps = Gaps::default();
            let numbers: Vec<u64> = (first..).zip(&kept).filter(|(_, kept)| **kept).map(|(number, _)| number).collect();
            let mut missing = 0;
            for number in &numbers {
                match gaps.step(*number) {
                    Step::Ok => {}
                    Step::Gap { missing: some } => missing += some,
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            if let (Some(first), Some(last)) = (numbers.first(), numbers.last()) {
                prop_assert_eq!(missing + numbers.len() as u64, last - first + 1);
            }
        }

        #[test]
        fn every_pair_is_classified(a: u64, b: u64) {
            let mut gaps = Gaps::default();
            prop_assert_eq!(gaps.step(a), Step::Ok);
            let found = gaps.step(b);
            let expected = if b < a { Step::Backwards } else if b == a { Step::Repeat }
                else if b - a == 1 { Step::Ok } else { Step::Gap { missing: b - a - 1 } };
            prop_assert_eq!(found, expected);
        }
    }
}
