//! A question as SQL with its parameters, and the columns of its answer.

use std::vec;

use orchestrator_queue_rules::storage::ANSWER_BYTES_MAX;

use crate::migration::{Row, Value};

/// Parameter of a question, NULL if it is None.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Param {
    /// A number.
    Integer(Option<i64>),
    /// A text.
    Text(Option<String>),
}

type Read<T> = dyn Fn(&mut Columns) -> Result<T, String>;

/// Numbers and names of columns, from 0.
pub(super) type Texts = &'static [(usize, &'static str)];

/// Question whose answer has rows of `T`.
pub struct Query<T> {
    /// Names the question in errors.
    pub action: &'static str,
    sql: &'static str,
    /// Parameters, from `$1`.
    pub params: Vec<Param>,
    read: Box<Read<T>>,
    texts: Texts,
}

impl<T> Query<T> {
    pub(super) fn new(
        action: &'static str,
        sql: &'static str,
        params: Vec<Param>,
        read: impl Fn(&mut Columns) -> Result<T, String> + 'static,
    ) -> Self {
        Self { action, sql, params, read: Box::new(read), texts: &[] }
    }

    /// Leaves out rows from the first one with which the sizes of these texts exceed [`ANSWER_BYTES_MAX`].
    pub(super) fn within(self, texts: Texts) -> Self {
        Self { texts, ..self }
    }

    /// Statement behind those of the store's views that it names, see [`with_views`]. The caller reads row by
    /// row, and stops when [`Query::bytes`] together exceed [`ANSWER_BYTES_MAX`].
    #[must_use]
    pub fn sql(&self, views: &str) -> String {
        with_views(views, self.sql) + self.sql
    }

    /// As [`Query::sql`], for a server that sends whole answers: a last column is added, and rows beyond
    /// [`ANSWER_BYTES_MAX`] are left out.
    #[must_use]
    pub fn sql_within(&self, views: &str) -> String {
        if self.texts.is_empty() {
            return self.sql(views);
        }
        let sizes: Vec<_> =
            self.texts.iter().map(|(_, name)| format!("coalesce(octet_length({name}), 0)")).collect();
        format!(
            "{}SELECT * FROM (
                 SELECT o.*, sum({}) OVER (ROWS UNBOUNDED PRECEDING) AS bytes FROM (\n{}) AS o) AS o
             WHERE bytes <= {ANSWER_BYTES_MAX}",
            with_views(views, self.sql),
            sizes.join(" + "),
            self.sql
        )
    }

    /// Size of the texts of a row that counts, in bytes.
    #[must_use]
    pub fn bytes(&self, row: &[Value]) -> usize {
        self.texts.iter().filter_map(|(column, _)| row.get(*column)).map(Value::text_bytes).sum()
    }

    /// Converts a row.
    ///
    /// # Errors
    /// A column has another type than in the view.
    pub fn read(&self, row: Row) -> Result<T, String> {
        (self.read)(&mut Columns { values: row.into_iter(), next: 0 })
    }
}

/// Common table expressions in front of `sql`: those of `views` that it names, and those that they name. Each
/// would be parsed and analysed, used or not. In `views`, blank lines stand between them, and each names only
/// those before it.
#[must_use]
pub fn with_views(views: &str, sql: &str) -> String {
    let (mut named, mut used) = (sql.to_owned(), Vec::new());
    for view in views.split("\n\n").collect::<Vec<_>>().into_iter().rev() {
        let definition = view.lines().find(|line| !line.starts_with("--"));
        let name = definition.and_then(|line| line.split_once(" AS ")).map(|(name, _)| name);
        if name.is_some_and(|name| named.contains(name)) {
            named += view;
            used.insert(0, view.trim_end());
        }
    }
    if used.is_empty() { String::new() } else { format!("WITH RECURSIVE\n{}\n", used.join(",\n")) }
}

/// Columns of a row that are not read yet.
pub(super) struct Columns {
    values: vec::IntoIter<Value>,
    next: usize,
}

impl Columns {
    /// Reads the next column.
    ///
    /// # Errors
    /// It has another type.
    pub(super) fn get<T: FromValue>(&mut self) -> Result<T, String> {
        let column = self.next;
        self.next += 1;
        self.values
            .next()
            .and_then(T::from_value)
            .ok_or_else(|| format!("column {column} has an unexpected type"))
    }
}

/// Type of a column; a count is a number, and a truth value 0 or another number.
pub(super) trait FromValue: Sized {
    /// None if the value has another type.
    fn from_value(value: Value) -> Option<Self>;
}

impl FromValue for i64 {
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Integer(number) = value { Some(number) } else { None }
    }
}

impl FromValue for String {
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Text(text) = value { Some(text) } else { None }
    }
}

impl FromValue for u64 {
    fn from_value(value: Value) -> Option<Self> {
        i64::from_value(value).map(i64::unsigned_abs)
    }
}

impl FromValue for bool {
    fn from_value(value: Value) -> Option<Self> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value) -> Option<Self> {
        if value == Value::Null { Some(None) } else { T::from_value(value).map(Some) }
    }
}
