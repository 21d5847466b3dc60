//! Requests that are all sent before the first answer is awaited.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio_postgres::{Error, Row};

/// One request, not sent yet.
pub(super) type Step<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + 'a>>;

/// Future of all steps. The first poll polls each step once, in order, which is their order on the wire.
pub(super) struct Pipeline<'a> {
    steps: Vec<Option<Step<'a>>>,
    results: Vec<Option<Result<Vec<Row>, Error>>>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(steps: Vec<Step<'a>>) -> Self {
        let results = steps.iter().map(|_| None).collect();
        Self { steps: steps.into_iter().map(Some).collect(), results }
    }
}

impl Future for Pipeline<'_> {
    type Output = Vec<Result<Vec<Row>, Error>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        for (step, result) in this.steps.iter_mut().zip(&mut this.results) {
            if let Some(future) = step
                && let Poll::Ready(output) = future.as_mut().poll(cx)
            {
                *result = Some(output);
                *step = None;
            }
        }
        if this.results.iter().any(Option::is_none) {
            return Poll::Pending;
        }
        Poll::Ready(this.results.drain(..).flatten().collect())
    }
}
