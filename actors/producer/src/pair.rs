//! A pair of pages: what one job is about.

use std::fmt;

use serde::Serialize;

use crate::id::Id;

/// Two pages that a worker grafts: `page_size` tangles from each identifier on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// First tangle of the page of rootstocks.
    pub root_id: Id,
    /// Their crossings.
    pub root_tcn: i64,
    /// First tangle of the page of scions.
    pub scion_id: Id,
    /// Their crossings.
    pub scion_tcn: i64,
    /// Tangles of a page at the most.
    pub page_size: u32,
}

impl Pair {
    /// A job's arguments (CONTRACT SP02): an array of five. Workers that are out there take no sixth.
    pub fn args(&self) -> impl Serialize + use<> {
        (self.root_id, self.root_tcn, self.scion_id, self.scion_tcn, self.page_size)
    }
}

/// The pair's key: the same for the same work, whoever pushes it and however often.
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
    fn arguments_are_exactly_five() {
        let args = serde_json::to_string(&pair().args()).unwrap();
        assert_eq!(args, r#"["010101010101010101010101",-1,"fefefefefefefefefefefefe",4,500]"#);
    }

    #[test]
    fn each_field_makes_another_key() {
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
