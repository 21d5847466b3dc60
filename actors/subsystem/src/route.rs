//! Routes of commands: which consoles answer a verb.

use std::future::Future;

use clap::Args;
use orchestrator_supervise::{Child, Handle};

use crate::{
    command::{CommandError, Context},
    output::OutputFormat,
    verb::Verb,
    wire::ErrorKind,
};

/// Route from a command to the consoles of the actor `A`. Its fields are further arguments of the command.
pub trait Route<A: Child>: Args {
    /// Label of the only child that is asked, at a path like `ingester/*/ingester` for all children of a branch.
    fn only(&self) -> Option<&str> {
        None
    }

    /// Sends `verb` to the console at `path`, or to each of several, and prints the answer.
    fn show<V: Verb>(
        self,
        path: &'static str,
        verb: V,
        format: OutputFormat,
        context: &mut Context<'_>,
    ) -> impl Future<Output = Result<(), CommandError>>
    where
        A: Handle<V>,
    {
        async move {
            if let Some((branch, console)) = path.split_once("/*/") {
                return context.show_each(branch, console, self.only(), &verb, format).await;
            }
            let answer = context.ask(path, &verb).await?;
            context.show(&verb, answer, format)
        }
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
    /// Sends `verb` to the child `console` of each child of a branch, or of the one with the label `name`, and prints the answers. A
    /// child that does not know what the arguments name is left out, unless that holds for all.
    async fn show_each<V: Verb>(
        &mut self,
        branch: &str,
        console: &str,
        name: Option<&str>,
        verb: &V,
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
        let text = |answer| Ok(verb.text(&self.read::<V>(answer)?));
        let texts = answers.into_iter().map(text).collect::<Result<Vec<_>, CommandError>>()?;
        // A blank line separates answers of several lines.
        let is_long = texts.iter().any(|text| text.lines().count() > 1);
        self.print(&texts.join(if is_long { "\n" } else { "" }))
    }
}
