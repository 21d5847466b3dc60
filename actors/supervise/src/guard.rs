//! Catches panics of children and makes texts of them.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::Exit;

/// Runs `f`; a panic becomes an exit.
pub(crate) fn guard<T>(f: impl FnOnce() -> T) -> Result<T, Exit> {
    // What a panicking child leaves half-changed is dropped with it; the kernel's own state is only touched outside.
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| Exit::Panicked(text(&*payload)))
}

/// The panic's message.
pub(crate) fn text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a text".to_owned())
}
