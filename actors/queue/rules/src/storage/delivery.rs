//! Deliveries of hand-outs.

/// Record of the delivery of a hand-out: the values of the column `delivered` in each store, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delivery {
    /// The job was done before the delivery was recorded. The DONE may belong to an earlier hand-out, so the
    /// worker may still not have this one.
    DoneFirst = -1,
    /// Nothing: the reply may not have been written.
    Pending = 0,
    /// Delivered. The job waits again when its hold is over (CONTRACT QR28).
    Redeliver = 1,
    /// Delivered.
    Final = 2,
}

impl Delivery {
    /// Writes the values into SQL that names them `$done_first`, `$pending`, `$redeliver` and `$final`.
    #[must_use]
    pub fn in_sql(sql: &str) -> String {
        [
            ("$done_first", Self::DoneFirst),
            ("$pending", Self::Pending),
            ("$redeliver", Self::Redeliver),
            ("$final", Self::Final),
        ]
        .iter()
        .fold(sql.to_owned(), |sql, (name, value)| sql.replace(name, &(*value as i8).to_string()))
    }
}
