//! Errors of specifications and of changes of a dynamic supervisor's children.

use orchestrator_observe::Exit;

/// Error of an invalid specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {text}")]
pub struct SpecError {
    /// Path of the child.
    pub path: String,
    /// The error and its correction.
    pub text: String,
}

/// Error of a change of a dynamic supervisor's children.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChildrenError {
    /// The id is in use.
    #[error("a child `{0}` exists already: replace it, or use another id")]
    Present(String),
    /// There is no such child.
    #[error("there is no child `{0}`")]
    Missing(String),
    /// The child is being removed; its id is still in use.
    #[error("the child `{0}` is being removed: try again when it has left the tree")]
    Leaving(String),
    /// The limit on children is reached.
    #[error("the limit of {0} children is reached: remove one first")]
    Full(usize),
    /// The specification is invalid.
    #[error(transparent)]
    Invalid(#[from] SpecError),
    /// The child ended before it was up, and was removed.
    #[error("the child `{id}` did not start: {exit}")]
    DidNotStart {
        /// Id of the child.
        id: String,
        /// Exit of the child.
        exit: Exit,
    },
    /// Another change removed the child before it was up.
    #[error("the child `{0}` was removed before it was up")]
    Removed(String),
    /// The child did not stop in time; it leaves the tree once it has ended.
    #[error("the child `{0}` did not stop in time: it leaves the tree when it has ended")]
    Stuck(String),
    /// The tree has ended.
    #[error("the tree has ended")]
    Ended,
}
