//! Parser of Python pickles (protocols 0 to 5) that executes nothing. It interprets the opcodes on
//! its own stack, where unknown objects are opaque, and returns requested members of the dict at
//! the top.
//!
//! The results equal Python's, including numpy scalars (`../tests/golden/vectors.json`). Stack and
//! memo are bounded; frames and large numbers are not copied.

mod callable;
mod cursor;
mod error;
mod machine;
mod scalar;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use error::PickleError;
pub(crate) use value::{TopDict, Value};

use crate::pickle::machine::PickleMachine;

/// Parses the dict at the top of the pickle `bytes` and its members `wanted`. Bytes after the
/// pickle are ignored, as in Python.
///
/// # Errors
/// `bytes` is not a pickle of a dict.
pub(crate) fn read_dict(bytes: &[u8], wanted: &'static [&'static str]) -> Result<TopDict, PickleError> {
    PickleMachine::new(bytes, wanted).run()
}
