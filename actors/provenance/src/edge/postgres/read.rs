//! SQL of the queries, and the conversion of rows to results (CONTRACT PD01 to PD03).

use std::collections::BTreeMap;

use bytes::Bytes;
use orchestrator_edge::postgres::{
    Params, Row, Session,
    types::{FromSql, FromSqlOwned},
};

use super::layout::{find_all, find_first};
use crate::{
    flavor::Flavor,
    method::{Entity, Relation},
    row::{Date, RevisionData, Sha1Git},
    store::{Occurrence, Query, QueryResult, StoreError},
};

const ACTION: &str = "answering a question";

pub(super) async fn answer(
    session: &mut Session,
    flavor: Flavor,
    query: &Query,
) -> Result<QueryResult, StoreError> {
    let (sql, params) = sql_of(flavor, query);
    let rows = session.query(ACTION, sql, params).await?;
    Ok(match query {
        Query::Contents(_) | Query::Directories(_) => QueryResult::Dates(collect(&rows, pair::<Date>)?),
        Query::Revisions(_) => QueryResult::Revisions(collect(&rows, |row| {
            Ok((get(row, 0)?, RevisionData { date: get(row, 1)?, origin: get(row, 2)? }))
        })?),
        Query::Origins(_) => QueryResult::Urls(collect(&rows, pair::<String>)?),
        Query::FindFirst(_) | Query::FindAll { .. } => QueryResult::Occurrences(collect(&rows, occurrence)?),
        Query::Counts => QueryResult::Counts(collect::<_, BTreeMap<_, _>>(&rows, |row| {
            Ok((get(row, 0)?, get::<i64>(row, 1)?.unsigned_abs()))
        })?),
        Query::Page { .. } => unreachable!("the store answers pages by other queries"),
    })
}

fn sql_of(flavor: Flavor, query: &Query) -> (String, Params<'_>) {
    let among = |text: &str, ids| -> (String, Params<'_>) {
        let sql =
            format!("{text} JOIN (SELECT DISTINCT unnest($1::bytea[]) AS id) AS asked ON e.sha1 = asked.id");
        (sql, vec![Box::new(ids)])
    };
    match query {
        Query::Contents(ids) => {
            let (sql, params) = among("SELECT e.sha1::bytea, e.date FROM content e", ids);
            (sql + " WHERE e.date IS NOT NULL", params)
        }
        Query::Directories(ids) => {
            let (sql, params) = among("SELECT e.sha1::bytea, e.date FROM directory e", ids);
            (sql + " WHERE e.date IS NOT NULL", params)
        }
        Query::Revisions(ids) => {
            let text = "SELECT e.sha1::bytea, e.date, o.sha1::bytea FROM revision e LEFT JOIN origin o ON o.id = e.origin";
            let (sql, params) = among(text, ids);
            (sql + " WHERE e.date IS NOT NULL OR o.sha1 IS NOT NULL", params)
        }
        Query::Origins(ids) => among("SELECT e.sha1::bytea, e.url FROM origin e", ids),
        Query::FindFirst(id) => (find_first(flavor), vec![Box::new(id)]),
        Query::FindAll { id, limit } => {
            let limit = limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
            (find_all(flavor), vec![Box::new(id), Box::new(limit)])
        }
        Query::Counts => (counts(), Vec::new()),
        Query::Page { .. } => unreachable!("the store answers pages by other queries"),
    }
}

fn counts() -> String {
    let tables = Entity::ALL.map(Entity::value).into_iter().chain(["location"]);
    let tables = tables.chain(Relation::ALL.map(Relation::value));
    let each: Vec<String> = tables.map(|table| format!("SELECT '{table}', count(*) FROM {table}")).collect();
    each.join(" UNION ALL ")
}

fn collect<T, C: FromIterator<T>>(
    rows: &[Row],
    decode: impl Fn(&Row) -> Result<T, StoreError>,
) -> Result<C, StoreError> {
    rows.iter().map(decode).collect()
}

pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(|error| {
        StoreError::Refused(format!("the database holds what no program of provenance stores: {error}"))
    })
}

fn pair<T: FromSqlOwned>(row: &Row) -> Result<(Sha1Git, T), StoreError> {
    Ok((get(row, 0)?, get(row, 1)?))
}

fn occurrence(row: &Row) -> Result<Occurrence, StoreError> {
    Ok(Occurrence {
        content: get(row, 0)?,
        revision: get(row, 1)?,
        date: get(row, 2)?,
        origin: get(row, 3)?,
        path: Bytes::copy_from_slice(get(row, 4)?),
    })
}
