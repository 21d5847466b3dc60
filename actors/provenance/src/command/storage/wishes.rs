//! Settings of a client of our own, and its waits.

use std::time::Duration;

use clap::Args;

use crate::policy::Routing;

/// What only an import says of the client.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub(crate) struct Wishes {
    /// Rows of a message at the most [default: provenance.client.batch, or the file's batch_size]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) batch: Option<u32>,
    /// Seconds that a piece of the file may take: a running instance answers within two, so a piece that is not confirmed is
    /// sent again until then [default: it is sent once; with --swh-config the file's wait_min]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) wait_min_secs: Option<u32>,
    /// Seconds for each batch that the rows of a piece fill, if that is longer [default: 0; with --swh-config the file's
    /// wait_per_batch]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(..=86_400))]
    pub(super) wait_per_batch_secs: Option<u32>,
    /// Responses in hand, with --swh-config only: a running instance has one channel for all its callers, and
    /// provenance.client.prefetch [default: the file's prefetch_count]
    #[arg(long, value_name = "N", requires = "swh_config", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(super) prefetch: Option<u16>,
    /// How a row's range is found, which the file does not say, with --swh-config only: a running instance has
    /// provenance.routing. All clients of a broker must agree: first_byte or first_hex_digit [default: first_byte]
    #[arg(long, value_name = "ROUTING", requires = "swh_config", value_parser = routing)]
    pub(super) routing: Option<Routing>,
}

/// How long a piece of rows may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    pub(super) batch: u32,
    pub(super) min: Duration,
    pub(super) per_batch: Duration,
}

impl Waits {
    /// The wait for `rows`, as the original reckons it.
    pub(crate) fn of(self, rows: usize) -> Duration {
        self.per_batch.mul_f64(rows as f64 / f64::from(self.batch)).max(self.min)
    }
}

fn routing(text: &str) -> Result<Routing, String> {
    serde_json::from_value(text.into()).map_err(|_| "write first_byte or first_hex_digit".to_owned())
}
