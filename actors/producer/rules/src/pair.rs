//! Pair of pages that one job is about.

use std::fmt;

use serde::Serialize;

use crate::id::Id;

/// Two pages of tangles that a worker grafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// First tangle of the page of rootstocks.
    pub root_id: Id,
    /// Crossings of the rootstocks.
    pub root_tcn: i64,
    /// First tangle of the page of scions.
    pub scion_id: Id,
    /// Crossings of the scions.
    pub scion_tcn: i64,
    /// Upper bound of a page's tangles.
    pub page_size: u32,
}

impl Pair {
    /// TCN of the tangles that the job makes: the sum of both TCNs.
    pub fn tcn(&self) -> i64 {
        self.root_tcn.saturating_add(self.scion_tcn)
    }

    /// Returns the five arguments of the job (CONTRACT SP02). Workers refuse a sixth.
    pub fn args(&self) -> impl Serialize + use<> {
        (self.root_id, self.root_tcn, self.scion_id, self.scion_tcn, self.page_size)
    }
}

/// Writes the key of the pair, the same in each attempt (CONTRACT SP04).
impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { root_id, root_tcn, scion_id, scion_tcn, page_size } = self;
        write!(f, "{root_id}:{root_tcn}:{scion_id}:{scion_tcn}:{page_size}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn pair() -> Pair {
        Pair { root_id: Id([1; 12]), root_tcn: -1, scion_id: Id([0xfe; 12]), scion_tcn: 4, page_size: 500 }
    }

    #[test]
    fn a_job_has_exactly_five_arguments() {
        let args = serde_json::to_string(&pair().args()).unwrap();
        assert_eq!(args, r#"["010101010101010101010101",-1,"fefefefefefefefefefefefe",4,500]"#);
    }

    #[test]
    fn each_field_changes_the_key() {
        let one = pair();
        let others = [
            Pair { root_id: Id([2; 12]), ..one },
            Pair { root_tcn: 1, ..one },
            Pair { scion_id: Id([2; 12]), ..one },
            Pair { scion_tcn: 5, ..one },
            Pair { page_size: 50, ..one },
        ];
        let keys: BTreeSet<_> = others.iter().chain([&one]).map(ToString::to_string).collect();
        assert_eq!(keys.len(), 6, "{keys:?}");
        assert_eq!(one.to_string(), pair().to_string());
    }
}
