//! Requests to the console of a child.

use std::time::Duration;

use crate::{
    Tree,
    console::{ConsoleReply, ConsoleRequest},
    refusal::AskError,
};

/// Time that a console may take to answer.
pub const CONSOLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Reason why a console request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleCallError {
    /// The path names no child with a console.
    #[error("{0}")]
    NoConsole(String),
    /// The request was refused, lost or timed out.
    #[error("{0}")]
    Ask(#[from] AskError),
}

impl Tree {
    /// Sends a request to the console of the child at `path`.
    ///
    /// # Errors
    /// The child has no console, or gives no answer within [`CONSOLE_TIMEOUT`].
    pub async fn console(
        &self,
        path: &str,
        request: ConsoleRequest,
    ) -> Result<ConsoleReply, ConsoleCallError> {
        let console = self.resolve(path).and_then(|full| self.find(&full)?.console.clone());
        let console = console.ok_or_else(|| {
            let with = self.paths_of(|_, node| node.console.is_some()).join(", ");
            ConsoleCallError::NoConsole(format!("`{path}` has no console; these have: {with}"))
        })?;
        Ok(console.ask(request, CONSOLE_TIMEOUT).await?)
    }

    /// Returns true if a verb of the console of the child at `path` changes nothing, see
    /// [`ChildSpec::console_reads`](crate::ChildSpec::console_reads).
    pub fn console_reads(&self, path: &str, verb: &str) -> bool {
        let node = self.resolve(path).and_then(|full| self.find(&full));
        node.is_some_and(|node| node.console_reads.contains(&verb))
    }
}
