//! Errors of reading a pickle.

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
