//! In-memory table of a catalog (CONTRACT CP05, CP08, CP09), with injected faults.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use jiff::Timestamp;
use orchestrator_catalog_rules::{
    path::{self, keys_of},
    rows::{Row, body_of, rows},
};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Triggers;
use crate::{
    priority_semaphore::{Purpose, WritePriority},
    service::{AFTER_ABORT, CatalogResponse, Get, Put, RequestError, Service},
    wall_clock::WallClock,
};

/// Maximum length of a path, as of a web server.
const PATH_MAX: usize = 8_000;

/// Fault of a write.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// The write is carried out, and the answer is lost.
    Lost,
    /// As [`Fault::Lost`], and then a user puts the first row on hold.
    Held,
    /// The write arrives later, and the answer is lost.
    Late(Duration),
    /// The write is not carried out.
    Refused(RequestError),
}

#[derive(Debug)]
struct Inner {
    rows: Vec<Row>,
    version: u64,
    gets: Vec<(String, bool)>,
    puts: Vec<(String, Vec<Row>)>,
    faults: VecDeque<Fault>,
    /// Writes of rows with this value are rejected.
    poison: Option<(String, Value)>,
    read_error: Option<RequestError>,
    late: Vec<(tokio::time::Instant, Put)>,
    /// Rows on hold, as the user left them.
    held: BTreeMap<usize, Row>,
    batch_max: usize,
    /// Reads are never answered.
    frozen: bool,
    /// Receiver of a notice for each write. With one, concurrent writes abort each other.
    notices: Option<watch::Sender<Triggers>>,
    aborted: usize,
}

/// The table. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Table {
    inner: Rc<RefCell<Inner>>,
    clock: WallClock,
    write: Duration,
}

impl Table {
    pub(super) fn new(clock: WallClock) -> Self {
        let inner = Inner {
            rows: Vec::new(),
            version: 1,
            gets: Vec::new(),
            puts: Vec::new(),
            faults: VecDeque::new(),
            poison: None,
            read_error: None,
            late: Vec::new(),
            held: BTreeMap::new(),
            batch_max: usize::MAX,
            frozen: false,
            notices: None,
            aborted: 0,
        };
        Self { inner: Rc::new(RefCell::new(inner)), clock, write: Duration::from_millis(20) }
    }

    /// Sends a notice for each write, like a server with a broker, and aborts a write if another one
    /// ends during it.
    pub(super) fn notify(&self, triggers: &watch::Sender<Triggers>) {
        self.inner.borrow_mut().notices = Some(triggers.clone());
    }

    pub(super) fn aborted(&self) -> usize {
        self.inner.borrow().aborted
    }

    /// Counts a write that began at the version `before` as aborted if another one has ended meanwhile.
    fn is_aborted(&self, before: u64) -> bool {
        let mut inner = self.inner.borrow_mut();
        let is_aborted = inner.notices.is_some() && inner.version != before;
        inner.aborted += usize::from(is_aborted);
        is_aborted
    }

    fn wrote(inner: &mut Inner) {
        inner.version += 1;
        if let Some(notices) = &inner.notices {
            notices.send_modify(|triggers| triggers.notices += 1);
        }
    }

    /// Adds `count` candidates.
    pub(super) fn insert(&self, count: usize) {
        let now = path::instant(self.clock.now());
        let mut inner = self.inner.borrow_mut();
        for _ in 0..count {
            let id = inner.rows.len();
            let row = json!({
                "RID": format!("1-{id:04}"), "RCT": now, "RMT": now, "id": id, "state": "actionable", "claimed_by": null,
                "lease_until": null, "attempts": null, "error": null, "doc": null,
            });
            inner.rows.push(serde_json::from_value(row).expect("a row"));
        }
        Self::wrote(&mut inner);
    }

    /// Changes a row like another client.
    pub(super) fn set(&self, id: usize, column: &str, value: Value) {
        let now = path::instant(self.clock.now());
        let mut inner = self.inner.borrow_mut();
        inner.rows[id].insert(column.to_owned(), value.into());
        inner.rows[id].insert("RMT".to_owned(), Value::from(now).into());
        inner.version += 1;
    }

    /// Puts a row on hold and replaces its document, like a user.
    pub(super) fn hold(&self, id: usize) {
        self.set(id, "state", json!("hold"));
        self.set(id, "doc", json!("the user's"));
        let mut inner = self.inner.borrow_mut();
        let row = inner.rows[id].clone();
        inner.held.insert(id, row);
    }

    /// Returns the number of rows on hold.
    ///
    /// # Panics
    /// If one was changed since.
    pub(super) fn held(&self) -> usize {
        let inner = self.inner.borrow();
        for (id, row) in &inner.held {
            assert_eq!(inner.rows[*id], *row, "a row on hold was changed: {:#?}", inner.puts);
        }
        inner.held.len()
    }

    pub(super) fn get_row(&self, id: usize) -> Row {
        self.inner.borrow().rows[id].clone()
    }

    pub(super) fn count(&self, column: &str, value: &Value) -> usize {
        self.inner.borrow().rows.iter().filter(|row| row.get(column).is_some_and(|is| is == value)).count()
    }

    pub(super) fn inject(&self, inject: Fault) {
        self.inner.borrow_mut().faults.push_back(inject);
    }

    pub(super) fn poison(&self, column: &str, value: Value) {
        self.inner.borrow_mut().poison = Some((column.to_owned(), value));
    }

    pub(super) fn read_error(&self, error: Option<RequestError>) {
        self.inner.borrow_mut().read_error = error;
    }

    pub(super) fn freeze(&self) {
        self.inner.borrow_mut().frozen = true;
    }

    pub(super) fn takes_at_once(&self, rows: usize) {
        self.inner.borrow_mut().batch_max = rows;
    }

    /// Path of each read, and whether it was answered with 304.
    pub(super) fn gets(&self) -> Vec<(String, bool)> {
        self.inner.borrow().gets.clone()
    }

    pub(super) fn puts(&self) -> Vec<(String, Vec<Row>)> {
        self.inner.borrow().puts.clone()
    }

    fn write(&self, put: &Put) -> Result<Bytes, RequestError> {
        let now = path::instant(self.clock.now());
        let mut inner = self.inner.borrow_mut();
        let updates = rows(&put.body).expect("rows");
        inner.puts.push((put.path.clone(), updates.clone()));
        if put.if_match.as_ref().is_some_and(|etag| *etag != format!("\"{}\"", inner.version)) {
            return Err(RequestError::PreconditionFailed);
        }
        if updates.len() > inner.batch_max {
            return Err(RequestError::PayloadTooLarge);
        }
        if let Some((column, value)) = &inner.poison
            && updates.iter().any(|row| row.get(column).is_some_and(|is| is == value))
        {
            return Err(RequestError::Rejected("409: a constraint is violated".to_owned()));
        }
        let names = names(&put.path);
        let keys = keys_of(&put.path);
        let mut split_by_response = Vec::new();
        for update in &updates {
            let is = |row: &&mut Row| {
                let mine = names.iter().filter(|(out, _)| keys.contains(out));
                mine.into_iter().all(|(out, column)| row.get(column) == update.get(out))
            };
            if let Some(row) = inner.rows.iter_mut().find(is) {
                for (out, column) in names.iter().filter(|(out, _)| !keys.contains(out)) {
                    row.insert(column.clone(), update.get(out).cloned().unwrap_or_default());
                }
                row.insert("RMT".to_owned(), Value::from(now.clone()).into());
                split_by_response.push(update.clone());
            }
        }
        Self::wrote(&mut inner);
        Ok(body_of(&split_by_response))
    }

    /// Carries out all delayed writes now.
    pub(super) fn deliver_late(&self) {
        self.arrive(|_| true);
    }

    fn arrive(&self, is_due: impl Fn(tokio::time::Instant) -> bool) {
        let late: Vec<_> = self.inner.borrow_mut().late.extract_if(.., |(at, _)| is_due(*at)).collect();
        for (_, put) in late {
            let _ = self.write(&put);
        }
    }
}

impl Service for Table {
    async fn get(&self, get: Get) -> Result<CatalogResponse, RequestError> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.arrive(|at| at <= tokio::time::Instant::now());
        if self.inner.borrow().frozen {
            std::future::pending::<()>().await;
        }
        let mut inner = self.inner.borrow_mut();
        if let Some(error) = &inner.read_error {
            return Err(error.clone());
        }
        if get.path.len() > PATH_MAX {
            return Err(RequestError::Rejected("414: the path is too long".to_owned()));
        }
        let etag = format!("\"{}\"", inner.version);
        let unchanged = get.if_none_match.as_ref() == Some(&etag);
        inner.gets.push((get.path.clone(), unchanged));
        if unchanged {
            return Ok(CatalogResponse::NotModified { etag: Some(etag) });
        }
        Ok(CatalogResponse::Rows { etag: Some(etag), body: body_of(&select(&inner.rows, &get.path)) })
    }

    async fn put(&self, put: Put, priority: WritePriority) -> Result<Bytes, RequestError> {
        loop {
            let before = self.inner.borrow().version;
            tokio::time::sleep(self.write).await;
            if !self.is_aborted(before) {
                break;
            }
            if priority.purpose == Purpose::Claim {
                return Err(RequestError::Aborted);
            }
            tokio::time::sleep(AFTER_ABORT.spread()).await;
        }
        self.arrive(|at| at <= tokio::time::Instant::now());
        let inject = self.inner.borrow_mut().faults.pop_front();
        match inject {
            None => self.write(&put),
            Some(Fault::Refused(error)) => Err(error),
            Some(Fault::Lost) => {
                let _ = self.write(&put);
                Err(RequestError::OutcomeUnknown("the connection broke".to_owned()))
            }
            Some(Fault::Held) => {
                let _ = self.write(&put);
                let first = rows(&put.body).expect("rows").swap_remove(0);
                let id = self.inner.borrow().rows.iter().position(|row| row["RID"] == first["RID"]);
                self.hold(id.expect("a row of the table"));
                Err(RequestError::OutcomeUnknown("the connection broke".to_owned()))
            }
            Some(Fault::Late(span)) => {
                self.inner.borrow_mut().late.push((tokio::time::Instant::now() + span, put));
                Err(RequestError::OutcomeUnknown("no answer in time".to_owned()))
            }
        }
    }
}

/// Returns output name and column of everything that an update names.
fn names(path: &str) -> Vec<(String, String)> {
    let group = path.rsplit('/').next().expect("a group");
    let name = |text: &str| match text.split_once(":=") {
        Some((out, column)) => (out.to_owned(), column.to_owned()),
        None => (text.to_owned(), text.to_owned()),
    };
    group.split([',', ';']).map(name).collect()
}

/// Rows in the order of the path.
fn select(rows: &[Row], path: &str) -> Vec<Row> {
    let rest = path.strip_prefix("/entity/Foo").expect("our table");
    let (rest, limit) = rest
        .split_once("?limit=")
        .map_or((rest, usize::MAX), |(rest, n)| (rest, n.parse().expect("a limit")));
    let (filter, sort) = rest.split_once("@sort(").unwrap_or((rest, "RID)"));
    let mut found: Vec<Row> =
        rows.iter().filter(|row| filter.split('/').skip(1).all(|all| fits(row, all))).cloned().collect();
    let sort: Vec<&str> = sort.trim_end_matches(')').split(',').collect();
    found.sort_by_key(|row| sort.iter().map(|column| row[*column].to_string()).collect::<Vec<_>>());
    found.truncate(limit);
    found
}

fn fits(row: &Row, filter: &str) -> bool {
    filter.split('&').all(|one| {
        if let Some(column) = one.strip_prefix('!').and_then(|one| one.strip_suffix("::null::")) {
            return !row[column].is_null();
        }
        if let Some((column, before)) = one.split_once("::leq::") {
            let before: Timestamp = before.replace("%3A", ":").replace("%2B", "+").parse().expect("a time");
            return row[column].as_str().and_then(path::parse_instant).is_none_or(|at| at <= before);
        }
        let (column, value) = one.split_once('=').expect("a comparison");
        let value = value.replace("%2F", "/").replace("%3A", ":");
        let text = row[column].as_str().map_or_else(|| row[column].to_string(), str::to_owned);
        match value.strip_prefix("any(") {
            Some(list) => list.trim_end_matches(')').split(',').any(|one| one == text),
            None => value == text,
        }
    })
}
