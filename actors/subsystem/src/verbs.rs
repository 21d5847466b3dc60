//! The verbs of an actor as a list, for its console and for the command line.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use orchestrator_supervise::{Child, Handle, Mailbox};

use crate::{
    command::{CommandError, CommandFuture, Context},
    console::{Console, ConsoleVerb},
    output::OutputFormat,
    route::{Plain, Route},
    verb::{Verb, schemas},
};

/// Position of the format in a help text, behind the arguments of the verb.
const LAST: usize = 500;

/// Verbs of the actor `A`, each named once, for its console and for the commands below `orchestrator NAME`.
pub struct Verbs<A: Child> {
    console: Vec<fn(&Mailbox<A>) -> ConsoleVerb>,
    commands: Vec<fn(&'static str) -> VerbCommand>,
}

impl<A: Child> Default for Verbs<A> {
    fn default() -> Self {
        Self { console: Vec::new(), commands: Vec::new() }
    }
}

impl<A: Child> Verbs<A> {
    /// Adds a verb with a command to one child.
    #[must_use]
    pub fn with<V: Verb>(self) -> Self
    where
        A: Handle<V>,
    {
        self.by::<Plain, V>()
    }

    /// Adds a verb with a command by the route `R`.
    #[must_use]
    pub fn by<R: Route<A>, V: Verb>(self) -> Self
    where
        A: Handle<V>,
    {
        let mut verbs = self.without_command::<V>();
        verbs.commands.push(VerbCommand::new::<A, R, V>);
        verbs
    }

    /// Adds a verb without a command.
    #[must_use]
    pub fn without_command<V: Verb>(mut self) -> Self
    where
        A: Handle<V>,
    {
        self.console
            .push(|mailbox| ConsoleVerb::new::<V, _>(V::NAME, V::EFFECT, schemas::<V>, mailbox.recipient()));
        self
    }

    /// Console of the child with this mailbox, for
    /// [`ChildSpec::attach`](orchestrator_supervise::ChildSpec::attach).
    pub fn console(self, mailbox: &Mailbox<A>) -> Console {
        Console::new(self.console.into_iter().map(|verb| verb(mailbox)))
    }

    /// Commands that ask the child at `path`, see [`Route`], for
    /// [`Subsystem::verbs`](crate::Subsystem::verbs).
    pub fn commands(self, path: &'static str) -> Vec<VerbCommand> {
        self.commands.into_iter().map(|command| command(path)).collect()
    }
}

/// Command that sends a verb to consoles.
pub struct VerbCommand {
    name: &'static str,
    path: &'static str,
    arguments: fn(Command) -> Command,
    run: for<'a> fn(&'static str, &'a ArgMatches, &'a mut Context<'_>) -> CommandFuture<'a, ()>,
}

impl VerbCommand {
    fn new<A: Child + Handle<V>, R: Route<A>, V: Verb>(path: &'static str) -> Self {
        let arguments = |command| V::augment_args(command).args(arguments_of::<R>());
        Self { name: V::NAME, path, arguments, run: run::<A, R, V> }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn command(&self) -> Command {
        let format = arguments_of::<OutputFormat>().into_iter().map(|argument| argument.display_order(LAST));
        (self.arguments)(Command::new(self.name)).args(format)
    }

    pub(crate) fn run<'a>(
        &self,
        matches: &'a ArgMatches,
        context: &'a mut Context<'_>,
    ) -> CommandFuture<'a, ()> {
        (self.run)(self.path, matches, context)
    }
}

/// Leaves out the description of `T`, which would replace that of the verb.
fn arguments_of<T: Args>() -> Vec<Arg> {
    T::augment_args(Command::new("")).get_arguments().cloned().collect()
}

fn run<'a, A: Child + Handle<V>, R: Route<A>, V: Verb>(
    path: &'static str,
    matches: &'a ArgMatches,
    context: &'a mut Context<'_>,
) -> CommandFuture<'a, ()> {
    let parsed = V::from_arg_matches(matches)
        .and_then(|verb| Ok((verb, R::from_arg_matches(matches)?, OutputFormat::from_arg_matches(matches)?)));
    Box::pin(async move {
        let (verb, route, format) = parsed.map_err(|error| CommandError::Usage(error.to_string()))?;
        route.show(path, &verb, format, context).await
    })
}
