//! Catalog of the demo: a server with one table whose rows a rule claims and the queue's workers do. It
//! answers what a rule of [`super::instance`] asks ERMrest for, anything else with 400.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{ETAG, HeaderValue, IF_NONE_MATCH},
};
use jiff::{Timestamp, ToSpan};
use orchestrator_edge::http;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use tokio::{net::TcpListener, runtime};

type Row = Map<String, Value>;

/// Path of the catalog on its server.
pub(super) const CATALOG: &str = "/ermrest/catalog/1";
/// Rows of a batch.
const ROWS: usize = 20;
/// Time between two batches.
const PERIOD: Duration = Duration::from_secs(1);
/// Most connections of the rule.
const CONNECTIONS_MAX: usize = 64;

#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    /// Time of the last change; each change has a later one.
    changed: Timestamp,
}

/// The table `Work` and its server.
pub(super) struct Table {
    address: SocketAddr,
    rows: Arc<Mutex<Rows>>,
}

impl Table {
    /// Starts the server, which runs until the process ends.
    pub(super) fn start() -> Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let bound = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = bound.context("no address is free for the catalog")?;
        let address = listener.local_addr()?;
        let rows = Arc::<Mutex<Rows>>::default();
        let served = rows.clone();
        thread::spawn(move || {
            let accept = async || Ok(listener.accept().await?.0);
            runtime.block_on(http::serve(CONNECTIONS_MAX, accept, move |request| {
                answer(request, served.clone())
            }))
        });
        Ok(Self { address, rows })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds rows each second until `stop` is set.
    pub(super) fn add(&self, stop: &AtomicBool) {
        while !stop.load(Relaxed) {
            lock(&self.rows).add(ROWS);
            thread::sleep(PERIOD);
        }
    }

    pub(super) fn rows(&self) -> usize {
        lock(&self.rows).rows.len()
    }

    /// Rows that a worker has done.
    pub(super) fn done(&self) -> usize {
        lock(&self.rows).rows.iter().filter(|row| row["state"] == "done").count()
    }

    pub(super) fn progress(&self) -> String {
        format!("{} of {} rows of the catalog done", self.done(), self.rows())
    }
}

fn lock(rows: &Mutex<Rows>) -> MutexGuard<'_, Rows> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(request: Request<Incoming>, rows: Arc<Mutex<Rows>>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    // A body that breaks off is not JSON.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut rows = lock(&rows);
    let path = head.uri.path().strip_prefix(CATALOG).unwrap_or_default();
    let tag = rows.tag();
    let is_known = head.headers.get(IF_NONE_MATCH).is_some_and(|known| known == tag.as_str());
    let found = match head.method {
        Method::GET if is_known => return tagged(StatusCode::NOT_MODIFIED, &tag, ""),
        Method::GET => path
            .strip_prefix("/entity/Work/")
            .and_then(|filter| rows.read(filter, head.uri.query().unwrap_or_default())),
        Method::PUT => path
            .strip_prefix("/attributegroup/Work/")
            .and_then(|columns| columns.split_once(';'))
            .zip(serde_json::from_slice(&body).ok())
            .map(|((keys, targets), input)| rows.update(keys, targets, input)),
        _ => None,
    };
    match found {
        Some(found) => tagged(StatusCode::OK, &rows.tag(), json!(found).to_string()),
        None => http::response(StatusCode::BAD_REQUEST, "text/plain", format!("the demo knows no {path}")),
    }
}

fn tagged(status: StatusCode, tag: &str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = http::response(status, "application/json", body);
    response.headers_mut().extend(HeaderValue::from_str(tag).ok().map(|tag| (ETAG, tag)));
    response
}

impl Rows {
    fn tag(&self) -> String {
        format!("\"{}\"", self.changed)
    }

    /// Time of a new change.
    fn change(&mut self) -> String {
        self.changed = Timestamp::now().max(self.changed + 1.microseconds());
        self.changed.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
    }

    fn add(&mut self, count: usize) {
        let now = self.change();
        for number in self.rows.len()..self.rows.len() + count {
            let row = json!({
                "RID": format!("R{number:06}"), "RCT": now, "RMT": now, "id": format!("row{number}"), "state": "new",
                "claimed_by": null, "lease_until": null,
            });
            self.rows.extend(row.as_object().cloned());
        }
    }

    /// Rows of `filter`, in the order of their creation, which is that of the rule's polls.
    fn read(&self, filter: &str, query: &str) -> Option<Vec<Row>> {
        let filter = filter.split("@sort").next().unwrap_or_default();
        let tests: Vec<_> = filter.split('&').map(Test::parse).collect::<Option<_>>()?;
        let limit = query.strip_prefix("limit=").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
        let found = self.rows.iter().filter(|row| tests.iter().all(|test| test.passes(row)));
        Some(found.take(limit).cloned().collect())
    }

    /// Updates the rows whose `keys` have the values of `input`; others are left out of the answer.
    fn update(&mut self, keys: &str, targets: &str, input: Vec<Row>) -> Vec<Row> {
        let now = self.change();
        let keys: Vec<_> = keys.split(',').map(|key| key.split_once(":=").unwrap_or((key, key))).collect();
        let mut updated = Vec::new();
        for new in input {
            let is_meant =
                |row: &&mut Row| keys.iter().all(|(given, column)| row.get(*column) == new.get(*given));
            for row in self.rows.iter_mut().filter(is_meant) {
                for target in targets.split(',') {
                    row.insert(target.to_owned(), new.get(target).cloned().unwrap_or_default());
                }
                row.insert("RMT".to_owned(), now.clone().into());
                updated.push(new.clone());
            }
        }
        updated
    }
}

/// One part of a filter: `COLUMN=VALUE`, `COLUMN=any(VALUE,..)` or `COLUMN::null::`, each with `!` before it
/// or without.
struct Test {
    column: String,
    /// None: the value is null.
    among: Option<Vec<String>>,
    negated: bool,
}

impl Test {
    fn parse(text: &str) -> Option<Self> {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(Into::into);
        let (text, negated) = text.strip_prefix('!').map_or((text, false), |text| (text, true));
        if let Some(column) = text.strip_suffix("::null::") {
            return Some(Self { column: decoded(column)?, among: None, negated });
        }
        let (column, value) = text.split_once('=')?;
        let list = value.strip_prefix("any(").and_then(|list| list.strip_suffix(')'));
        let among = list.unwrap_or(value).split(',').map(decoded).collect::<Option<_>>()?;
        Some(Self { column: decoded(column)?, among: Some(among), negated })
    }

    fn passes(&self, row: &Row) -> bool {
        let value = row.get(&self.column).and_then(Value::as_str);
        let passes = match &self.among {
            None => value.is_none(),
            Some(among) => value.is_some_and(|value| among.iter().any(|one| one == value)),
        };
        passes != self.negated
    }
}
