//! Tells holes in the numbers that a source gives its frames.

/// How a number follows the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The next one, or the first of all.
    Ok,
    /// Numbers were left out.
    Gap {
        /// How many.
        missing: u64,
    },
    /// The same again.
    Repeat,
    /// A smaller one. Counting goes on from there.
    Backwards,
}

/// Watches one series.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gaps {
    last: Option<u64>,
}

impl Gaps {
    /// The series' next number. The first one is never a gap: sources count from where they like.
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
        /// What is missing and what is there add up, whichever numbers of a series are lost.
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
        fn every_pair_is_told(a: u64, b: u64) {
            let mut gaps = Gaps::default();
            prop_assert_eq!(gaps.step(a), Step::Ok);
            let told = gaps.step(b);
            let expected = if b < a { Step::Backwards } else if b == a { Step::Repeat }
                else if b - a == 1 { Step::Ok } else { Step::Gap { missing: b - a - 1 } };
            prop_assert_eq!(told, expected);
        }
    }
}
