//! Client options of an import, and the time-out of a chunk.

use std::time::Duration;

use clap::Args;

use crate::policy::Routing;

/// Client options of `import`.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub(crate) struct ClientOptions {
    /// Maximum number of rows in a message [default: provenance.client.batch; with --swh-config: its
    /// batch_size]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) batch: Option<u32>,
    /// Minimum time to wait for the confirmation of a chunk (rows sent together), in seconds. Without
    /// --swh-config, also an instance that does not answer is waited for [default: as long as the instance
    /// answers; with --swh-config: wait_min of the file]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) wait_min_secs: Option<u32>,
    /// Time to wait for each message of a chunk, in seconds. The time-out of a chunk is the sum for its
    /// messages, but at least --wait-min-secs [default: 0; with --swh-config: wait_per_batch of the file]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(..=86_400))]
    pub(super) wait_per_batch_secs: Option<u32>,
    /// Maximum number of unacknowledged responses; only with --swh-config [default: its prefetch_count]
    #[arg(long, value_name = "N", requires = "swh_config", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(super) prefetch: Option<u16>,
    /// Part of the identifier that selects a row's range (one of 16 parts of the hash space): first_byte or
    /// first_hex_digit. Only with --swh-config.
    /// All clients of a store must use the same [default: first_byte]
    #[arg(long, value_name = "ROUTING", requires = "swh_config", value_parser = routing)]
    pub(super) routing: Option<Routing>,
}

/// Time-out of a chunk of rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkTimeout {
    pub(super) batch: u32,
    pub(super) min: Duration,
    pub(super) per_batch: Duration,
}

impl ChunkTimeout {
    /// Time-out for `rows` rows, by the original's formula.
    pub(crate) fn of(self, rows: usize) -> Duration {
        self.per_batch.mul_f64(rows as f64 / f64::from(self.batch)).max(self.min)
    }
}

fn routing(text: &str) -> Result<Routing, String> {
    serde_json::from_value(text.into()).map_err(|_| "write first_byte or first_hex_digit".to_owned())
}
