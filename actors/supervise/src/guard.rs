//! Catches panics of children and makes texts of them.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::{Exit, text::sanitize};

/// Runs `f`; a panic becomes an exit.
pub(crate) fn guard<T>(f: impl FnOnce() -> T) -> Result<T, Exit> {
    // What a panicking child leaves half-changed is dropped with it; the kernel's own state is only touched outside.
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| Exit::Panicked(text(&*payload)))
}

/// The panic's message, as [`sanitize`] gives it: it may quote what a peer sent.
pub(crate) fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    sanitize(text.unwrap_or("a panic without a text"))
}
