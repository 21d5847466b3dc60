//! Reasons why a specification, or a change of a dynamic supervisor's children, is refused.

use crate::Exit;

/// A specification that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {text}")]
pub struct SpecError {
    /// Where.
    pub path: String,
    /// The fault and the action that corrects it.
    pub text: String,
}

/// Reason why the children of a dynamic supervisor were not changed as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChildrenError {
    /// The id is taken.
    #[error("there is a child `{0}` already: replace it, or use another id")]
    Present(String),
    /// There is no such child.
    #[error("there is no child `{0}`")]
    Missing(String),
    /// The child leaves the tree, and its id is not free yet.
    #[error("the child `{0}` leaves already: try again when it is out of the tree")]
    Leaving(String),
    /// There are as many children as there may be.
    #[error("there are {0} children, and no more are allowed: remove one first")]
    Full(usize),
    /// The specification cannot be run.
    #[error(transparent)]
    Invalid(#[from] SpecError),
    /// The child ended before it was up, and is not declared.
    #[error("the child `{id}` did not start: {exit}")]
    DidNotStart {
        /// The child's id.
        id: String,
        /// How it ended.
        exit: Exit,
    },
    /// Another change removed the child before it was up.
    #[error("the child `{0}` was removed before it was up")]
    Removed(String),
    /// The child did not stop in time; it leaves the tree when it has ended.
    #[error("the child `{0}` did not stop in time: it leaves the tree when it has ended")]
    Stuck(String),
    /// The tree has ended.
    #[error("the tree has ended")]
    Ended,
}
