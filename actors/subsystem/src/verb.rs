//! Verbs of consoles: each is declared once, as a struct. Its fields are the arguments on the command line, in HTTP requests and in the
//! message to the actor; its doc comment is the help text.

use clap::{ArgMatches, Args, Command, FromArgMatches};
use orchestrator_supervise::{
    Child, ConsoleReply, ConsoleVerb, Effect, Handle, Mailbox, Message, VerbSchemas,
};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    command::{CommandError, CommandFuture, Context},
    output::OutputFormat,
    text,
};

/// Position of the format in a help text, behind the arguments of the verb.
const LAST: usize = 500;

/// Message of a verb: its arguments. The actor's `Handle` of it carries the verb out.
pub trait Verb:
    Message<Result = Answered<Self>> + Args + Serialize + DeserializeOwned + JsonSchema + Send + 'static
{
    /// Name on the command line and in the path of the HTTP request.
    const NAME: &'static str;
    /// What the verb does.
    const EFFECT: Effect = Effect::Reads;
    /// Text for an empty list, with its line end.
    const EMPTY: &'static str = "nothing\n";

    /// The answer. A field with the schema format [`text::TIME`] is a time in unix seconds.
    type Answer: Serialize + DeserializeOwned + JsonSchema + Send + 'static;

    /// Formats the answer for a terminal.
    fn text(&self, answer: &Self::Answer) -> String {
        text::of(answer, Self::EMPTY)
    }
}

/// Result of the verb `V`.
pub type Answered<V> = ConsoleReply<<V as Verb>::Answer>;

/// Declares verbs as messages with their answers.
#[macro_export]
macro_rules! messages {
    ($($verb:ty),* $(,)?) => {$(
        impl ::orchestrator_supervise::Message for $verb {
            type Result = $crate::Answered<Self>;
        }
    )*};
}

pub use crate::messages;

/// Default of a number, for `#[serde(default = "number::<10>")]` beside the same `default_value_t` of the command line.
pub fn number<const N: u32>() -> u32 {
    N
}

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
    /// Adds a verb.
    #[must_use]
    pub fn with<V: Verb>(mut self) -> Self
    where
        A: Handle<V>,
    {
        self.console
            .push(|mailbox| ConsoleVerb::new::<V, _>(V::NAME, V::EFFECT, schemas::<V>, mailbox.recipient()));
        self.commands.push(VerbCommand::new::<V>);
        self
    }

    /// Returns the verbs of the child with this mailbox, for [`ChildSpec::console`](orchestrator_supervise::ChildSpec::console).
    pub fn console(self, mailbox: &Mailbox<A>) -> Vec<ConsoleVerb> {
        self.console.into_iter().map(|verb| verb(mailbox)).collect()
    }

    /// Returns the commands that ask the child at `path`, for [`Subsystem::verbs`](crate::Subsystem::verbs).
    pub fn commands(self, path: &'static str) -> Vec<VerbCommand> {
        self.commands.into_iter().map(|command| command(path)).collect()
    }
}

/// Command that sends a verb to the console at a fixed path.
pub struct VerbCommand {
    name: &'static str,
    path: &'static str,
    arguments: fn(Command) -> Command,
    run: for<'a> fn(&'static str, &'a ArgMatches, &'a mut Context<'_>) -> CommandFuture<'a, ()>,
}

impl VerbCommand {
    fn new<V: Verb>(path: &'static str) -> Self {
        Self { name: V::NAME, path, arguments: V::augment_args, run: run::<V> }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn command(&self) -> Command {
        // Not added to the command itself, since their description would replace that of the verb.
        let format = OutputFormat::augment_args(Command::new(""));
        let format = format.get_arguments().map(|argument| argument.clone().display_order(LAST));
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

fn run<'a, V: Verb>(
    path: &'static str,
    matches: &'a ArgMatches,
    context: &'a mut Context<'_>,
) -> CommandFuture<'a, ()> {
    Box::pin(async move {
        let usage = |error: clap::Error| CommandError::Usage(error.to_string());
        let verb = V::from_arg_matches(matches).map_err(usage)?;
        let format = OutputFormat::from_arg_matches(matches).map_err(usage)?;
        context.show(path, &verb, format).await
    })
}

fn schemas<V: Verb>() -> VerbSchemas {
    let schema = |generate: fn(&mut schemars::SchemaGenerator) -> schemars::Schema| {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let mut schema = generate(&mut settings.into_generator());
        ["$schema", "title"].into_iter().for_each(|keyword| drop(schema.remove(keyword)));
        schema.to_value()
    };
    VerbSchemas {
        arguments: schema(|generator| generator.root_schema_for::<V>()),
        answer: schema(|generator| generator.root_schema_for::<V::Answer>()),
    }
}
