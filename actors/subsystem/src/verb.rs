//! Verbs of consoles: each is declared once, by [`verb!`](crate::verb!). The fields of its struct are the
//! arguments on the command line, in HTTP requests and in the message to the actor; its doc comment is the
//! help text.

use clap::Args;
use orchestrator_supervise::Message;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    console::{ConsoleReply, Effect, VerbSchemas},
    text,
};

/// Message of a verb: its arguments. The actor's `Handle` of it carries the verb out.
pub trait Verb:
    Message<Result = Answered<Self>> + Args + Clone + Serialize + DeserializeOwned + JsonSchema + Send + 'static
{
    /// Name on the command line and in the path of the HTTP request.
    const NAME: &'static str;
    /// Effect on the child.
    const EFFECT: Effect;
    /// Text for an empty list, with its line end.
    const EMPTY: &'static str = "nothing\n";

    /// The answer. A field with the schema format [`TIME`](orchestrator_text::TIME) is a time in unix
    /// seconds.
    type Answer: Serialize + DeserializeOwned + JsonSchema + Send + 'static;

    /// Formats the answer for a terminal.
    fn text(&self, answer: &Self::Answer) -> String {
        text::of(answer, Self::EMPTY)
    }
}

/// Result of the verb `V`.
pub type Answered<V> = ConsoleReply<<V as Verb>::Answer>;

/// A [`Verb`] behind a pointer: what sends it and prints the answer is compiled once, and not in each crate
/// for each verb.
pub trait AnyVerb {
    /// Returns the name.
    fn name(&self) -> &'static str;

    /// Returns the arguments as JSON.
    ///
    /// # Errors
    /// The arguments have no JSON form.
    fn arguments(&self) -> serde_json::Result<Value>;

    /// Formats an answer for a terminal.
    ///
    /// # Errors
    /// The answer is that of another version of the verb.
    fn answer_text(&self, answer: Value) -> serde_json::Result<String>;
}

impl<V: Verb> AnyVerb for V {
    fn name(&self) -> &'static str {
        V::NAME
    }

    fn arguments(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }

    fn answer_text(&self, answer: Value) -> serde_json::Result<String> {
        Ok(self.text(&serde_json::from_value(answer)?))
    }
}

/// Declares a verb: its name, [`Effect`] and answer, and the struct of its arguments, whose doc comment is
/// the help text. `empty` is the text for an empty list. `text` is a closure that formats the answer.
///
/// ```ignore
/// verb! {
///     "peek", Reads -> Vec<Job>, empty "no job is waiting\n";
///     /// Show the next jobs
///     pub(crate) struct Peek {
///         /// Number of jobs
///         pub(crate) n: u32,
///     }
/// }
/// ```
#[macro_export]
macro_rules! verb {
    (
        $name:literal, $effect:ident -> $answer:ty $(, empty $empty:literal)? $(, text $text:expr)?;
        $(#[$meta:meta])*
        $vis:vis struct $verb:ident $fields:tt
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, ::clap::Args, ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[group(skip)]
        $vis struct $verb $fields

        impl ::orchestrator_supervise::Message for $verb {
            type Result = $crate::Answered<Self>;
        }

        impl $crate::Verb for $verb {
            const NAME: &'static str = $name;
            const EFFECT: $crate::Effect = $crate::Effect::$effect;
            $(const EMPTY: &'static str = $empty;)?
            type Answer = $answer;

            $(fn text(&self, answer: &$answer) -> String {
                let text: fn(&Self, &$answer) -> String = $text;
                text(self, answer)
            })?
        }
    };
}

/// Default of a number, for `#[serde(default = "number::<10>")]` beside the same `default_value_t` of the
/// command line.
pub fn number<const N: u32>() -> u32 {
    N
}

pub(crate) fn schemas<V: Verb>() -> VerbSchemas {
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
