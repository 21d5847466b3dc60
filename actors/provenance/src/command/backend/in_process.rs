//! Client part of the provenance tree, run in this process for one command.

use std::{path::Path, time::Duration};

use futures_util::StreamExt;
use orchestrator_subsystem::{
    CommandError, ConsoleError, Exports, Verb,
    wire::{ErrorBody, ErrorKind},
};
use orchestrator_supervise::{Handle, Limits, Mailbox, Root, Strategy, SupervisorSpec, Tree};

use super::client_options::{ChunkTimeout, ClientOptions};
use crate::{client_side::client_spec, drop_in, rmq_client::RmqClient};

/// Practically infinite: the client's own time-outs are shorter.
const UNLIMITED: Duration = Duration::from_secs(366 * 24 * 3_600);

/// Client with its supervision tree.
pub(crate) struct InProcessClient {
    root: Root,
    client: Mailbox<RmqClient>,
    exports: Exports,
}

/// Starts the client that the original's file describes.
pub(super) async fn open(
    file: &Path,
    client_options: &ClientOptions,
) -> Result<(InProcessClient, ChunkTimeout), CommandError> {
    let mut config = drop_in::client(file).map_err(|error| CommandError::Config(error.to_string()))?;
    let client = &mut config.client;
    client.batch = client_options.batch.unwrap_or(client.batch);
    client.prefetch = client_options.prefetch.unwrap_or(client.prefetch);
    client.wait_min_secs = client_options.wait_min_secs.unwrap_or(client.wait_min_secs);
    client.wait_per_batch_secs = client_options.wait_per_batch_secs.unwrap_or(client.wait_per_batch_secs);
    let timeout = ChunkTimeout {
        batch: client.batch,
        min: Duration::from_secs(client.wait_min_secs.into()),
        per_batch: Duration::from_secs(client.wait_per_batch_secs.into()),
    };
    config.routing = client_options.routing.unwrap_or(config.routing);
    let (client, exports, spec) =
        client_spec(&config).map_err(|error| CommandError::Config(error.to_string()))?;
    let spec = SupervisorSpec::new(Strategy::OneForOne).limits(Limits::ROOT).child(spec);
    let root = Root::start("client", spec).await.map_err(|error| CommandError::Local(error.to_string()))?;
    Ok((InProcessClient { root, client, exports }, timeout))
}

impl InProcessClient {
    pub(super) async fn ask<V: Verb>(&self, verb: V) -> Result<V::Answer, CommandError>
    where
        RmqClient: Handle<V>,
    {
        let answer = self.client.ask(verb, UNLIMITED).await;
        let answer = answer.map_err(|error| CommandError::Local(error.to_string()))?;
        answer.map_err(|error| self.explain(&error))
    }

    /// Reads the rows of an export; `take` receives one page after the other.
    pub(super) async fn export(
        &self,
        name: &str,
        args: &[(String, String)],
        take: &mut dyn FnMut(&[u8]) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let mut pages = self.exports.open(name, args).map_err(|error| self.explain(&error))?;
        while let Some(page) = pages.next().await {
            take(page.map_err(|error| self.explain(&error))?.as_bytes())?;
        }
        Ok(())
    }

    fn explain(&self, error: &ConsoleError) -> CommandError {
        let kind = match error {
            ConsoleError::BadArguments(_) => ErrorKind::BadRequest,
            ConsoleError::UnknownVerb(_) | ConsoleError::NotFound(_) => ErrorKind::NotFound,
            ConsoleError::Refused(_) => ErrorKind::Refused,
        };
        let message = format!("{error}{}", link_errors(self.root.tree()));
        CommandError::ErrorResponse(ErrorBody { error: kind, message })
    }

    pub(super) async fn close(mut self) {
        self.root.stop().await;
    }
}

/// This process has no console to show its tree.
fn link_errors(tree: &Tree) -> String {
    let (snapshot, mut text) = (tree.snapshot(), String::new());
    snapshot.root.walk(&mut |node| {
        if let Some(link) = &node.link
            && let Some(reason) = &link.reason
        {
            text += &format!(" ({} {}: {reason})", link.kind, link.endpoint);
        }
    });
    text
}
