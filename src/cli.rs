//! Commands to a running instance, over its admin endpoint. The CLI shows what the endpoint says and decides nothing;
//! it must work when half of the tree is stuck.

pub(crate) mod client;
mod event_stream;
pub(crate) mod exit_code;
mod graph;
mod tail;
pub(crate) mod target;
#[cfg(test)]
mod tests;
mod top;
mod why;

use std::io::Write;

use clap::{Args, Subcommand};
use orchestrator_admin::ascii::{Ages, render};
use orchestrator_subsystem::{
    CommandError, ConfigArguments, Context, Form, Section,
    output::printable,
    redaction::scrubbed,
    wire::{CommandAnswer, CommandArgs, TreeSnapshot, actor_url, tree_url},
};

pub(crate) use self::target::Target;
use self::{client::Client, exit_code::ExitCode, tail::TailArguments, top::TopArguments};
use crate::{
    config::{Config, Sources},
    subsystems::SubsystemCommand,
};

/// What can be asked of a running instance.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ClientCommand {
    /// Show the tree: who runs, how often it was restarted, how full its mailbox is, how its connection stands
    ///
    /// Example: orchestrator tree queue
    Tree {
        /// Only this child and what is below it; the root's name may be left out
        path: Option<String>,
        #[command(flatten)]
        form: Form,
    },
    /// Watch the children: state, restarts, messages waiting and handled, handling time, connection
    ///
    /// Example: orchestrator top queue --sort rate --interval 1
    Top(TopArguments),
    /// Show what happens in the tree: starts, exits, restarts, connections, commands
    ///
    /// Example: orchestrator tail queue --kind exited,commanded
    Tail(TailArguments),
    /// Show what holds up work now, the most effective cause first, and the command that helps
    ///
    /// Example: orchestrator why queue
    Why {
        /// Only this branch of the tree; the root's name may be left out
        path: Option<String>,
        #[command(flatten)]
        form: Form,
    },
    /// Print the tree for Graphviz
    ///
    /// Example: orchestrator graph | dot -Tsvg -o tree.svg
    Graph {
        /// Only this child and what is below it; the root's name may be left out
        path: Option<String>,
    },
    /// Stop a child and start it afresh; costs no restart budget
    ///
    /// Example: orchestrator restart queue/fetcher_watcher --reason "new input directory"
    Restart(ActorCommand),
    /// Stop a child until it is started again
    ///
    /// Example: orchestrator stop queue/fetcher_watcher --reason "disk is being moved"
    Stop(ActorCommand),
    /// Start a child that was stopped
    ///
    /// Example: orchestrator start queue/fetcher_watcher
    Start(ActorCommand),
    /// Close the intake of a source; what it has taken in is still worked off
    ///
    /// Example: orchestrator pause queue/inotify --reason "too much at once"
    Pause(ActorCommand),
    /// Open the intake again
    ///
    /// Example: orchestrator resume queue/inotify
    Resume(ActorCommand),
    /// A command of a subsystem
    #[command(flatten)]
    Subsystem(SubsystemCommand),
}

impl ClientCommand {
    /// Is the answer printed as JSON?
    fn prints_json(&self) -> bool {
        let form = match self {
            Self::Tree { form, .. } | Self::Why { form, .. } => form,
            Self::Top(arguments) => &arguments.form,
            Self::Restart(args)
            | Self::Stop(args)
            | Self::Start(args)
            | Self::Pause(args)
            | Self::Resume(args) => &args.form,
            // Events are escaped one by one; a subsystem's command escapes what it does not print as JSON.
            Self::Tail(_) | Self::Graph { .. } => return false,
            Self::Subsystem(_) => return true,
        };
        form.json
    }
}

/// A verb for one child.
#[derive(Debug, Clone, Args)]
pub(crate) struct ActorCommand {
    /// The child, as `orchestrator tree` shows it; the root's name may be left out
    path: String,
    /// Why; recorded in the events
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    form: Form,
}

/// Carries out `command` and prints its result to `out`, and what went wrong to standard error.
/// Must not be called on an arbiter: it blocks.
pub(crate) fn run(command: &ClientCommand, target: &Target, out: &mut dyn Write) -> ExitCode {
    let done = answer(command, target, out);
    match done {
        Ok(()) => ExitCode::Ok,
        Err(error) => {
            let code = ExitCode::of(&error);
            if code != ExitCode::Ok {
                // Without standard error, the exit code has to do.
                let told = printable(&scrubbed(&error.to_string()));
                let _ = writeln!(std::io::stderr().lock(), "orchestrator: {told}");
            }
            code
        }
    }
}

/// Prints what `command` is about.
fn answer(command: &ClientCommand, target: &Target, out: &mut dyn Write) -> Result<(), CommandError> {
    let address = target.address(|name| std::env::var_os(name))?;
    let client = Client::new(address, target.token()?, command.prints_json());
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::Setup)?;
    // A system, since a command may run a tree of its own.
    actix_rt::System::with_tokio_rt(move || runtime).block_on(async {
        if let ClientCommand::Top(arguments) = command {
            return top::run(arguments, &client, out).await;
        }
        if let ClientCommand::Tail(arguments) = command {
            return tail::run(arguments, &client, out).await;
        }
        if let ClientCommand::Subsystem(command) = command {
            return command.run(&mut Context { instance: &client, out, load: &load }).await;
        }
        let text = dispatch(command, &client).await?;
        out.write_all(printable(&text).as_bytes())?;
        Ok(out.flush()?)
    })
}

/// Commands with one answer.
async fn dispatch(command: &ClientCommand, client: &Client) -> Result<String, CommandError> {
    match command {
        ClientCommand::Tree { path, form } => tree(path.as_deref(), *form, client).await,
        ClientCommand::Why { path, form } => why::run(path.as_deref(), *form, client).await,
        ClientCommand::Graph { path } => graph(path.as_deref(), client).await,
        ClientCommand::Restart(args) => steer("restart", args, client).await,
        ClientCommand::Stop(args) => steer("stop", args, client).await,
        ClientCommand::Start(args) => steer("start", args, client).await,
        ClientCommand::Pause(args) => steer("pause", args, client).await,
        ClientCommand::Resume(args) => steer("resume", args, client).await,
        // `answer` runs them: they print by themselves.
        ClientCommand::Top(_) | ClientCommand::Tail(_) | ClientCommand::Subsystem(_) => Ok(String::new()),
    }
}

/// Reads the section of `only` in the configuration that a command names.
fn load(arguments: &ConfigArguments, only: &str) -> Result<Section, CommandError> {
    let config = Config::load(&Sources::new(arguments, Some(only)));
    let mut config = config.map_err(|error| CommandError::Config(format!("{error:#}")))?;
    let section = config.sections.pop();
    section.ok_or_else(|| CommandError::Config(format!("{only}: there is no such section")))
}

async fn graph(path: Option<&str>, client: &Client) -> Result<String, CommandError> {
    let answer = client.get(&tree_url(path)).await?;
    let snapshot: TreeSnapshot = serde_json::from_value(answer)
        .map_err(|error| client.foreign(format!("this is no tree: {error}")))?;
    Ok(graph::dot(&snapshot))
}

async fn tree(path: Option<&str>, form: Form, client: &Client) -> Result<String, CommandError> {
    let answer = client.get(&tree_url(path)).await?;
    if form.json {
        return Ok(form.print(&answer));
    }
    let snapshot: TreeSnapshot = serde_json::from_value(answer)
        .map_err(|error| client.foreign(format!("this is no tree: {error}")))?;
    Ok(render(&snapshot, Ages::Show))
}

async fn steer(verb: &str, args: &ActorCommand, client: &Client) -> Result<String, CommandError> {
    let body = CommandArgs { reason: args.reason.clone() };
    let answer = client.post(&actor_url(&args.path, verb), &body).await?;
    if args.form.json {
        return Ok(args.form.print(&answer));
    }
    let done: CommandAnswer = serde_json::from_value(answer)
        .map_err(|error| client.foreign(format!("unexpected answer: {error}")))?;
    Ok(format!("{}: {} -> {}\n", done.path, done.before, done.after))
}
