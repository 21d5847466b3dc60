//! A table of a catalog in memory, by CONTRACT CP05, CP08 and CP09, with accidents on order.

use std::{cell::RefCell, collections::VecDeque, rc::Rc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    handling::Row,
    lane::Turn,
    path,
    service::{Get, Put, Reply, Service, Trouble},
    state_change::{body_of, keys_of, rows},
    wall::Wall,
};

/// What happens to a write.
#[derive(Debug, Clone)]
pub(super) enum Accident {
    /// It is carried out, and the answer is lost.
    Lost,
    /// It arrives so much later, and the answer is lost.
    Late(Duration),
    /// It is not carried out.
    Refused(Trouble),
}

#[derive(Debug)]
struct Inner {
    rows: Vec<Row>,
    version: u64,
    gets: Vec<(String, bool)>,
    puts: Vec<(String, Vec<Row>)>,
    accidents: VecDeque<Accident>,
    /// Fails writes whose rows say so.
    poison: Option<(String, Value)>,
    read_trouble: Option<Trouble>,
    late: Vec<(tokio::time::Instant, Put)>,
    largest: usize,
    /// No question is answered any more.
    frozen: bool,
}

/// The table. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Table {
    inner: Rc<RefCell<Inner>>,
    wall: Wall,
    write: Duration,
}

impl Table {
    pub(super) fn new(wall: Wall) -> Self {
        let inner = Inner {
            rows: Vec::new(),
            version: 1,
            gets: Vec::new(),
            puts: Vec::new(),
            accidents: VecDeque::new(),
            poison: None,
            read_trouble: None,
            late: Vec::new(),
            largest: usize::MAX,
            frozen: false,
        };
        Self { inner: Rc::new(RefCell::new(inner)), wall, write: Duration::from_millis(20) }
    }

    /// Adds `count` rows that can be claimed.
    pub(super) fn insert(&self, count: usize) {
        let now = path::instant(self.wall.now());
        let mut inner = self.inner.borrow_mut();
        for _ in 0..count {
            let id = inner.rows.len();
            let row = json!({
                "RID": format!("1-{id:04}"), "RCT": now, "RMT": now, "id": id, "state": "actionable", "claimed_by": null,
                "lease_until": null, "attempts": null, "error": null, "doc": null,
            });
            inner.rows.push(row.as_object().cloned().expect("a row"));
        }
        inner.version += 1;
    }

    /// What is somebody else's doing.
    pub(super) fn set(&self, id: usize, column: &str, value: Value) {
        let now = path::instant(self.wall.now());
        let mut inner = self.inner.borrow_mut();
        inner.rows[id].insert(column.to_owned(), value);
        inner.rows[id].insert("RMT".to_owned(), now.into());
        inner.version += 1;
    }

    pub(super) fn get_row(&self, id: usize) -> Row {
        self.inner.borrow().rows[id].clone()
    }

    /// How many rows have this value.
    pub(super) fn count(&self, column: &str, value: &Value) -> usize {
        self.inner.borrow().rows.iter().filter(|row| row.get(column) == Some(value)).count()
    }

    pub(super) fn accident(&self, accident: Accident) {
        self.inner.borrow_mut().accidents.push_back(accident);
    }

    pub(super) fn poison(&self, column: &str, value: Value) {
        self.inner.borrow_mut().poison = Some((column.to_owned(), value));
    }

    pub(super) fn read_trouble(&self, trouble: Option<Trouble>) {
        self.inner.borrow_mut().read_trouble = trouble;
    }

    pub(super) fn freeze(&self) {
        self.inner.borrow_mut().frozen = true;
    }

    pub(super) fn takes_at_once(&self, rows: usize) {
        self.inner.borrow_mut().largest = rows;
    }

    /// Paths that were asked, and whether nothing had changed.
    pub(super) fn gets(&self) -> Vec<(String, bool)> {
        self.inner.borrow().gets.clone()
    }

    /// Writes that arrived: path and rows.
    pub(super) fn puts(&self) -> Vec<(String, Vec<Row>)> {
        self.inner.borrow().puts.clone()
    }

    fn write(&self, put: &Put) -> Result<Reply, Trouble> {
        let now = path::instant(self.wall.now());
        let mut inner = self.inner.borrow_mut();
        let updates = rows(&put.body).expect("rows");
        inner.puts.push((put.path.clone(), updates.clone()));
        if put.if_match.as_ref().is_some_and(|etag| *etag != format!("\"{}\"", inner.version)) {
            return Err(Trouble::Concurrent);
        }
        if updates.len() > inner.largest {
            return Err(Trouble::TooLarge);
        }
        if let Some((column, value)) = &inner.poison
            && updates.iter().any(|row| row.get(column) == Some(value))
        {
            return Err(Trouble::Refused("409: a constraint is violated".to_owned()));
        }
        let names = names(&put.path);
        let keys = keys_of(&put.path);
        let mut told = Vec::new();
        for update in &updates {
            let is = |row: &&mut Row| {
                let mine = names.iter().filter(|(out, _)| keys.contains(out));
                mine.into_iter().all(|(out, column)| row.get(column) == update.get(out))
            };
            if let Some(row) = inner.rows.iter_mut().find(is) {
                for (out, column) in names.iter().filter(|(out, _)| !keys.contains(out)) {
                    row.insert(column.clone(), update.get(out).cloned().unwrap_or_default());
                }
                row.insert("RMT".to_owned(), now.clone().into());
                told.push(update.clone());
            }
        }
        inner.version += 1;
        Ok(Reply::Rows { etag: Some(format!("\"{}\"", inner.version)), body: body_of(&told) })
    }

    fn arrive(&self) {
        let now = tokio::time::Instant::now();
        let late: Vec<_> = self.inner.borrow_mut().late.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, put) in late {
            let _ = self.write(&put);
        }
    }
}

impl Service for Table {
    async fn get(&self, get: Get) -> Result<Reply, Trouble> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.arrive();
        if self.inner.borrow().frozen {
            std::future::pending::<()>().await;
        }
        let mut inner = self.inner.borrow_mut();
        if let Some(trouble) = &inner.read_trouble {
            return Err(trouble.clone());
        }
        let etag = format!("\"{}\"", inner.version);
        let unchanged = get.if_none_match.as_ref() == Some(&etag);
        inner.gets.push((get.path.clone(), unchanged));
        if unchanged {
            return Ok(Reply::Unchanged { etag: Some(etag) });
        }
        Ok(Reply::Rows { etag: Some(etag), body: body_of(&select(&inner.rows, &get.path)) })
    }

    async fn put(&self, put: Put, _: Turn) -> Result<Reply, Trouble> {
        tokio::time::sleep(self.write).await;
        self.arrive();
        let accident = self.inner.borrow_mut().accidents.pop_front();
        match accident {
            None => self.write(&put),
            Some(Accident::Refused(trouble)) => Err(trouble),
            Some(Accident::Lost) => {
                let _ = self.write(&put);
                Err(Trouble::Unsettled("the connection broke".to_owned()))
            }
            Some(Accident::Late(span)) => {
                self.inner.borrow_mut().late.push((tokio::time::Instant::now() + span, put));
                Err(Trouble::Unsettled("no answer in time".to_owned()))
            }
        }
    }
}

/// Output name and column of all that an update names.
fn names(path: &str) -> Vec<(String, String)> {
    let group = path.rsplit('/').next().expect("a group");
    let name = |text: &str| match text.split_once(":=") {
        Some((out, column)) => (out.to_owned(), column.to_owned()),
        None => (text.to_owned(), text.to_owned()),
    };
    group.split([',', ';']).map(name).collect()
}

/// The rows that a path names, in their order.
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
