//! Console of a child: verbs for operators that the child's actor handles as typed messages.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use orchestrator_supervise::{AskError, Message, Recipient, Tree};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Time that a console may take to answer.
pub const CONSOLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Reason why a console request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ConsoleCallError {
    /// The path names no child with a console.
    #[error("{0}")]
    NoConsole(String),
    /// The child has no such verb.
    #[error("{0}")]
    Verb(#[from] ConsoleError),
    /// The request was refused, lost or timed out.
    #[error("{0}")]
    Ask(#[from] AskError),
}

/// Effect of a verb on its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing. Every role may use it, and the audit log does not record it.
    Reads,
    /// Changes something.
    Changes,
    /// Brings in data of a client, as messages of a peer do. It is no event: an import sends thousands, and
    /// the log of events keeps [`EVENT_LOG_CAPACITY`](orchestrator_observe::EVENT_LOG_CAPACITY).
    Delivers,
    /// Pauses the child's work until a verb that [`Self::Resumes`].
    Pauses,
    /// Resumes the child's work.
    Resumes,
}

/// Result of a verb.
pub type ConsoleReply<T = Value> = Result<T, ConsoleError>;

/// Error of a child's console.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", content = "detail", rename_all = "snake_case")]
pub enum ConsoleError {
    /// The child does not know the verb; the text lists those it knows.
    #[error("unknown verb: this child answers {0}")]
    UnknownVerb(String),
    /// The arguments are invalid.
    #[error("{0}")]
    BadArguments(String),
    /// The arguments name something that does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The child cannot carry out the verb now.
    #[error("{0}")]
    Refused(String),
}

/// Verbs of a child, which [`ChildSpec::attach`](orchestrator_supervise::ChildSpec::attach) adds to it.
#[derive(Debug)]
pub struct Console(Vec<ConsoleVerb>);

impl Console {
    /// Creates the console of a child that answers `verbs`.
    pub fn new(verbs: impl IntoIterator<Item = ConsoleVerb>) -> Self {
        Self(verbs.into_iter().collect())
    }

    /// Finds the verb `name` of the console of the child at `path`.
    ///
    /// # Errors
    /// The child has no console, or not this verb.
    pub fn verb(tree: &Tree, path: &str, name: &str) -> Result<ConsoleVerb, ConsoleCallError> {
        let console = tree.attached::<Self>(path).ok_or_else(|| {
            let with: Vec<_> = tree.all_attached::<Self>().into_iter().map(|(path, _)| path).collect();
            ConsoleCallError::NoConsole(format!("`{path}` has no console; these have: {}", with.join(", ")))
        })?;
        let names = || console.0.iter().map(|verb| verb.name).collect::<Vec<_>>().join(", ");
        let verb = console.0.iter().find(|verb| verb.name == name).cloned();
        verb.ok_or_else(|| ConsoleError::UnknownVerb(names()).into())
    }

    /// The verbs of every console of `tree`, with the path of its child.
    pub fn all_verbs(tree: &Tree) -> Vec<(String, ConsoleVerb)> {
        let consoles = tree.all_attached::<Self>();
        let verbs = consoles
            .iter()
            .flat_map(|(path, console)| console.0.iter().map(|verb| (path.clone(), verb.clone())));
        verbs.collect()
    }
}

/// Sends the arguments of a verb to its actor.
type Call = dyn Fn(Value) -> BoxFuture<'static, Result<ConsoleReply, ConsoleCallError>> + Send + Sync;

/// Verb of a console: its name and effect, its JSON schemas, and the way to the actor.
#[derive(Clone)]
pub struct ConsoleVerb {
    name: &'static str,
    effect: Effect,
    schemas: fn() -> VerbSchemas,
    call: Arc<Call>,
}

/// JSON schemas of a verb.
#[derive(Debug, Clone, Default)]
pub struct VerbSchemas {
    /// Of the arguments, an object.
    pub arguments: Value,
    /// Of the answer.
    pub answer: Value,
}

impl ConsoleVerb {
    /// Creates the verb `name`, whose arguments are the fields of the message `V`.
    pub fn new<V, T>(
        name: &'static str,
        effect: Effect,
        schemas: fn() -> VerbSchemas,
        actor: Recipient<V>,
    ) -> Self
    where
        V: Message<Result = ConsoleReply<T>> + DeserializeOwned + Send + 'static,
        T: Serialize + Send + 'static,
    {
        let call = move |arguments: Value| -> BoxFuture<'static, _> {
            let actor = actor.clone();
            Box::pin(async move {
                // Null stands for no arguments.
                let arguments = if arguments.is_null() { Map::new().into() } else { arguments };
                let message = match serde_json::from_value::<V>(arguments) {
                    Ok(message) => message,
                    Err(error) => return Ok(Err(ConsoleError::BadArguments(error.to_string()))),
                };
                let answer = actor.ask(message, CONSOLE_TIMEOUT).await?;
                let json = |answer| {
                    serde_json::to_value(answer).map_err(|error| ConsoleError::Refused(error.to_string()))
                };
                Ok(answer.and_then(json))
            })
        };
        Self { name, effect, schemas, call: Arc::new(call) }
    }

    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the effect.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Returns the JSON schemas.
    pub fn schemas(&self) -> VerbSchemas {
        (self.schemas)()
    }

    /// Sends `arguments`, an object or null, to the actor and waits for its answer.
    ///
    /// # Errors
    /// The actor gives no answer within [`CONSOLE_TIMEOUT`].
    pub async fn call(&self, arguments: Value) -> Result<ConsoleReply, ConsoleCallError> {
        (self.call)(arguments).await
    }
}

impl fmt::Debug for ConsoleVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleVerb")
            .field("name", &self.name)
            .field("effect", &self.effect)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
