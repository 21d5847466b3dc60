//! Errors of reading a pickle.

/// Reason why bytes are not a pickle of a dict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PickleError {
    /// The pickle ends early.
    #[error("the pickle is cut off")]
    CutOff,
    /// An opcode is unknown or misplaced.
    #[error("not a pickle: opcode {opcode:#04x} at byte {at}")]
    Malformed {
        /// The opcode.
        opcode: u8,
        /// Position of the opcode, bytes.
        at: usize,
    },
    /// Stack or memo exceed the limit.
    #[error("the pickle has more than {0} items at once: send less in one message")]
    TooMuch(usize),
    /// The top of the pickle is not a dict.
    #[error("the pickle is not of a dict")]
    NoDict,
}
