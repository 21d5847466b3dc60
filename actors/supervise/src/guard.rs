//! Conversion of a child's panics into exits.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use orchestrator_observe::Exit;
use orchestrator_text::sanitize;

/// Calls `f`; returns a panic as exit.
pub(crate) fn guard<T>(f: impl FnOnce() -> T) -> Result<T, Exit> {
    // Unwind safe: state that a panicking child leaves half changed is dropped with it.
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| Exit::Panicked(text(&*payload)))
}

/// Message of the panic, escaped and limited, since it may quote a peer.
pub(crate) fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    sanitize(text.unwrap_or("a panic without a text"))
}
