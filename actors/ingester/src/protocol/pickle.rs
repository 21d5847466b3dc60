//! Looks into a Python pickle without executing anything: walks its opcodes (protocols 0 to 5) on a stack of its own, where objects
//! are opaque. It gives the dict at the top, with the values of the members that are asked for.
//!
//! What Python would load from the same bytes, down to which scalars numpy's are, was found by running it
//! (`tests/golden/vectors.json`). What is on stack and in memo is bounded; frames and big numbers are not copied.

mod callable;
mod cursor;
mod error;
mod machine;
mod scalar;
mod value;

pub use error::PickleError;
pub use value::{Top, Value};

use crate::protocol::pickle::machine::Machine;

/// Reads the dict at the top of the pickle `bytes` and its members `wanted`. What follows the pickle is ignored, as in Python.
///
/// # Errors
/// `bytes` is no pickle, or not of a dict.
pub fn read_dict(bytes: &[u8], wanted: &'static [&'static str]) -> Result<Top, PickleError> {
    Machine::new(bytes, wanted).run()
}
