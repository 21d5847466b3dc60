//! Client of one database, whose calls run on the thread of its driver.
//!
//! Boxed futures are compiled here; those of an `async fn` would be compiled in each crate that awaits them,
//! with the driver's.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture};
use mongodb::{
    Database,
    bson::{Document, RawDocument},
    error::{Error, ErrorKind},
    options::{ClientOptions, FindOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern},
    raw_batch_cursor::{RawBatch, RawBatchCursor},
};

use orchestrator_observe::{LinkFailure, LinkReporter, UNANSWERED};

use super::{address, driver::Driver, peer_error, servers::Servers};
use crate::PeerError;

/// Default time-out of the server selection and of connecting. Shorter than [`UNANSWERED`], because the
/// driver reports a refused connection only then.
const SELECTION: Duration = Duration::from_secs(4);

/// Time-out from which a call is expected to last, such as the creation of an index.
const LONG: Duration = Duration::from_secs(3_600);

/// Client of one database that reads from the primary. Dropping it ends its connections.
#[derive(Debug)]
pub struct Client {
    // Dropped before the thread that it runs on.
    database: Database,
    driver: Driver,
    link: Option<LinkReporter>,
    servers: Arc<Servers>,
}

impl Client {
    /// Opens a client of the database `name`. It connects later.
    ///
    /// `app` is the application name that the server shows, and `concern` the write concern of commands
    /// without one. Options in the address take precedence over `app`.
    ///
    /// # Errors
    /// The address is invalid, or the driver cannot be started.
    pub fn open<'a>(
        uri: &'a str,
        name: &'a str,
        app: &'a str,
        concern: Option<WriteConcern>,
    ) -> BoxFuture<'a, Result<Self, LinkFailure>> {
        Box::pin(async move {
            let address = address::parse(uri)?;
            let driver = Driver::start().await?;
            let (name, app) = (name.to_owned(), app.to_owned());
            let opening = async move {
                let mut options = ClientOptions::parse(address).await?;
                options.server_selection_timeout.get_or_insert(SELECTION);
                options.connect_timeout.get_or_insert(SELECTION);
                options.app_name.get_or_insert(app);
                options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
                options.read_concern = Some(ReadConcern::local());
                options.write_concern = concern.or(options.write_concern);
                let servers = Servers::watch(&mut options);
                Ok((mongodb::Client::with_options(options)?.database(&name), servers))
            };
            let opened = driver.call("reading the address", SELECTION, opening).await?;
            // The driver's text may repeat the address.
            let (database, servers) = opened.map_err(|_: Error| LinkFailure::from(address::unusable(uri)))?;
            Ok(Self { database, driver, link: None, servers })
        })
    }

    /// Reports calls as requests to `link`, if there is one.
    #[must_use]
    pub fn reporting_to(mut self, link: Option<LinkReporter>) -> Self {
        self.servers.report_to(link.clone());
        self.link = link;
        self
    }

    /// Makes a call, at most for `span`; a hung server keeps its connections open. `action` describes the
    /// call.
    ///
    /// # Errors
    /// The server refused the call, or there is no answer; the text says what to do.
    pub async fn call<T, F>(
        &self,
        action: &str,
        span: Duration,
        call: impl FnOnce(Database) -> F,
    ) -> Result<T, PeerError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let most = if span < LONG { UNANSWERED } else { span };
        let _request = self.link.as_ref().map(|link| link.request_within(most));
        let answer = tokio::select! {
            biased;
            answer = self.driver.call(action, span, call(self.database.clone())) => answer,
            // The driver would look for another server until its time-out.
            unsuitable = self.servers.unsuitable() => return Err(unsuitable),
        };
        answer.map_err(PeerError::lost)?.map_err(|error| match *error.kind {
            ErrorKind::ServerSelection { .. } => {
                self.servers.failure().unwrap_or_else(|| peer_error(action, &error))
            }
            _ => peer_error(action, &error),
        })
    }

    /// Finds the documents of `collection` that match `filter`. Each batch may take `span`.
    ///
    /// # Errors
    /// The server refused the call, or there is no answer; the text says what to do.
    pub fn find(
        &self,
        action: &'static str,
        span: Duration,
        collection: &str,
        filter: Document,
        options: FindOptions,
    ) -> BoxFuture<'_, Result<Batches<'_>, PeerError>> {
        let collection = self.database.collection::<Document>(collection);
        let find = async move { collection.find(filter).with_options(options).batch().await };
        Box::pin(async move {
            let cursor = self.call(action, span, |_| find).await?;
            Ok(Batches { client: self, action, span, cursor: Some(cursor) })
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.servers.report_to(None);
    }
}

/// Batches of found documents.
pub struct Batches<'a> {
    client: &'a Client,
    action: &'static str,
    span: Duration,
    /// None after the last batch.
    cursor: Option<RawBatchCursor>,
}

impl Batches<'_> {
    /// None after the last batch.
    ///
    /// # Errors
    /// The server refused the call, or there is no answer; the text says what to do.
    pub fn next_batch(&mut self) -> BoxFuture<'_, Result<Option<Batch>, PeerError>> {
        Box::pin(async move {
            let Some(mut cursor) = self.cursor.take() else { return Ok(None) };
            let advance = async move {
                let batch = cursor.next().await.transpose()?;
                Ok((cursor, batch))
            };
            let (cursor, batch) = self.client.call(self.action, self.span, |_| advance).await?;
            self.cursor = batch.is_some().then_some(cursor);
            let action = self.action;
            Ok(batch.map(|batch| Batch { batch, action }))
        })
    }
}

/// Documents of one reply.
pub struct Batch {
    batch: RawBatch,
    action: &'static str,
}

impl Batch {
    /// The documents are not decoded.
    ///
    /// # Errors
    /// The reply is malformed.
    pub fn documents(&self) -> Result<impl Iterator<Item = Result<&RawDocument, PeerError>>, PeerError> {
        let malformed = || PeerError::lost("a reply of the database has other values than documents");
        let values = self.batch.doc_slices().map_err(|error| peer_error(self.action, &error))?.into_iter();
        Ok(values.map(move |value| value.ok().and_then(|value| value.as_document()).ok_or_else(malformed)))
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;
    use tokio::net::TcpListener;
    use tokio_rustls::rustls::version::TLS13;

    use super::*;
    use crate::tls::tests::{file, server};

    #[tokio::test]
    async fn a_refused_certificate_is_told_with_what_makes_a_valid_one() {
        for (certificate, authority, why) in [
            ("version-1", "root.pem", "X.509 version 1"),
            ("self-signed", "self-signed.pem", "of an authority (CA:TRUE)"),
            ("common-name", "root.pem", "does not name localhost in subjectAltName"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let port = listener.local_addr().expect("its address").port();
            let serving = async {
                while let Ok((stream, _)) = listener.accept().await {
                    let _ = server(certificate, &TLS13).accept(stream).await;
                }
            };
            let authority = file(authority).display().to_string().replace('/', "%2F");
            let options = format!("tls=true&tlsCAFile={authority}&serverSelectionTimeoutMS=500");
            let uri = format!("mongodb://localhost:{port}/?{options}");
            let client = Client::open(&uri, "d", "tests", None).await.expect("a client");
            let ask = async || {
                let span = Duration::from_secs(60);
                let asked =
                    client.call("asking", span, async |db: Database| db.run_command(doc! {"ping": 1}).await);
                asked.await.expect_err("no database").to_string()
            };
            // On a busy machine the first try may end before the handshake.
            let asking = async {
                loop {
                    let text = ask().await;
                    if text.contains("openssl") {
                        return text;
                    }
                }
            };
            let text = tokio::select! {
                text = asking => text,
                () = serving => panic!("the server ends"),
            };
            assert!(text.contains(why) && text.contains("openssl req -x509"), "{certificate}: {text}");
            assert!(
                text.starts_with(&format!("cannot connect to the database at localhost:{port}")),
                "{text}"
            );
        }
    }
}
