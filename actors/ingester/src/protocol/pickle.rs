//! Looks into a Python pickle without executing anything: walks its opcodes (protocols 0 to 5) on a stack of its own, where objects
//! are opaque. It gives the dict at the top, with the values of the members that are asked for.
//!
//! What Python would load from the same bytes, down to which scalars numpy's are, was found by running it
//! (`tests/golden/vectors.json`). What is on stack and in memo is bounded; frames and big numbers are not copied.

mod callable;
mod cursor;
mod machine;
mod scalar;
mod value;

pub use value::Value;

use crate::protocol::pickle::machine::Machine;

/// The dict at the top of a pickle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Top {
    /// Members that were asked for, with their last values.
    pub members: Vec<(&'static str, Value)>,
    /// Are all its keys strings?
    pub only_string_keys: bool,
}

impl Top {
    /// The member `name`, which was asked for.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// Why bytes are no pickle of a dict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PickleError {
    /// It ends early.
    #[error("the pickle is cut off")]
    CutOff,
    /// No opcode, or not where it may stand.
    #[error("no pickle: opcode {opcode:#04x} at byte {at}")]
    Malformed {
        /// The opcode.
        opcode: u8,
        /// Where it stands.
        at: usize,
    },
    /// It holds more at once than this looks at.
    #[error("the pickle holds more than {0} things at once: send less in one message")]
    TooMuch(usize),
    /// It is something else than a dict.
    #[error("the pickle holds no dict")]
    NoDict,
}

/// Reads the dict at the top of the pickle `bytes` and its members `wanted`. What follows the pickle is ignored, as in Python.
///
/// # Errors
/// `bytes` is no pickle, or not of a dict.
pub fn read_dict(bytes: &[u8], wanted: &'static [&'static str]) -> Result<Top, PickleError> {
    Machine::new(bytes, wanted).run()
}
