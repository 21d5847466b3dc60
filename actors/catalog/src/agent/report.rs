//! Requests of a rule to the server and its handlers, and their results.

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::time::Instant;

use super::{order::Looked, orphan::Orphan};
use crate::{
    hand::Batch,
    handling::{Row, Verdict},
    service::{Reply, Trouble},
};

/// What came back from the server.
pub(super) enum Report {
    Looked(Box<Looked>),
    Settled(Settled),
    Renewed(Settled, Instant),
    Adopted(Orphan, Result<Vec<Row>, Trouble>),
    Checked(Vec<u64>, Result<Vec<Row>, Trouble>),
}

/// What was written, and the answer.
pub(super) struct Settled {
    pub(super) batch: Batch,
    pub(super) answer: Result<Reply, Trouble>,
}

/// What is next.
pub(super) enum Next {
    /// Ask the server.
    Errand(LocalBoxFuture<'static, Report>),
    /// Wait, at the most until then.
    Wait(Option<Instant>),
    /// Nothing ever again.
    Finished,
}

pub(super) type Work = LocalBoxFuture<'static, (u64, Option<Verdict>, Duration)>;
