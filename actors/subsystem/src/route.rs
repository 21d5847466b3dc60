//! Routes of commands: which consoles answer a verb.

use clap::Args;
use orchestrator_supervise::{Child, Handle};

use crate::{
    command::{CommandError, CommandFuture, Context},
    output::OutputFormat,
    verb::{AnyVerb, Verb},
    wire::ErrorKind,
};

/// Route from a command to the consoles of the actor `A`. Its fields are further arguments of the command.
pub trait Route<A: Child>: Args + 'static {
    /// Label of the only child that is asked, at a path like `ingester/*/ingester` for all children of a
    /// branch.
    fn only(&self) -> Option<&str> {
        None
    }

    /// Sends `verb` to the console at `path`, or to each of several, and prints the answer.
    fn show<'a, V: Verb>(
        &'a self,
        path: &'static str,
        verb: &'a V,
        format: OutputFormat,
        context: &'a mut Context<'_>,
    ) -> CommandFuture<'a, ()>
    where
        A: Handle<V>,
    {
        context.show_from(path, self.only(), verb, format)
    }
}

/// Route without further arguments.
#[derive(Debug, Clone, Copy, Args)]
#[group(skip)]
pub struct Plain {}

impl<A: Child> Route<A> for Plain {}

/// Route to each child of a branch, or to one.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Each {
    /// Show only the one with this name
    name: Option<String>,
}

impl<A: Child> Route<A> for Each {
    fn only(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl Context<'_> {
    /// Sends `verb` to the console at `path`, or to those that a path like `ingester/*/ingester` names, and
    /// prints the answer. `name` is that of [`Route::only`].
    fn show_from<'a>(
        &'a mut self,
        path: &'static str,
        name: Option<&'a str>,
        verb: &'a dyn AnyVerb,
        format: OutputFormat,
    ) -> CommandFuture<'a, ()> {
        Box::pin(async move {
            if let Some((branch, console)) = path.split_once("/*/") {
                return self.show_each(branch, console, name, verb, format).await;
            }
            let answer = self.ask(path, verb).await?;
            self.show(verb, answer, format)
        })
    }

    /// Sends `verb` to the child `console` of each child of a branch, or of the one with the label `name`,
    /// and prints the answers. A child that does not know what the arguments name is left out, unless that
    /// holds for all.
    async fn show_each(
        &mut self,
        branch: &str,
        console: &str,
        name: Option<&str>,
        verb: &dyn AnyVerb,
        format: OutputFormat,
    ) -> Result<(), CommandError> {
        let children = self.tree(branch).await?.root.children;
        let (mut answers, mut refused) = (Vec::new(), None);
        for node in children.iter().filter(|node| name.is_none() || node.label.as_deref() == name) {
            match self.ask(&format!("{branch}/{}/{console}", node.id), verb).await {
                Ok(answer) => answers.push(answer),
                Err(CommandError::ErrorResponse(body)) if body.error == ErrorKind::BadRequest => {
                    refused = Some(CommandError::ErrorResponse(body));
                }
                Err(error) => return Err(error),
            }
        }
        if answers.is_empty() {
            return Err(refused.unwrap_or_else(|| {
                let known: Vec<_> = children.iter().filter_map(|node| node.label.as_deref()).collect();
                let name = name.unwrap_or_default();
                CommandError::Local(format!("{branch} has no `{name}`; it has {}", known.join(", ")))
            }));
        }
        if format.json {
            return self.print(&format.print(&answers));
        }
        let texts: Result<Vec<_>, _> = answers.into_iter().map(|answer| self.text(verb, answer)).collect();
        let texts = texts?;
        // A blank line separates answers of several lines.
        let is_long = texts.iter().any(|text| text.lines().count() > 1);
        self.print(&texts.join(if is_long { "\n" } else { "" }))
    }
}
