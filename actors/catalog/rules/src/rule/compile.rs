//! Compilation of a rule's definition. All problems are reported at once.

use std::time::Duration;

use super::{
    Columns, Lease, Rule, WRITTEN,
    recurrence::{Recurrence, filter_of, recurrence},
};
use crate::{
    definition::{Definition, Guard, Values},
    path::{self, keys_of, targets_of},
    template::{Position, Template},
};

struct Paths {
    query: String,
    makes_limit: bool,
    update: String,
    group: String,
    entity: String,
}

impl Rule {
    /// Compiles the definition.
    ///
    /// # Errors
    /// All problems; each text begins with the key.
    pub fn new(config: &Definition) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let claim = columns("claim.set", &config.claim.set, Position::Claim, &mut problems);
        let done = columns("done", &config.done, Position::Done, &mut problems);
        let failed = if config.fails_with_result { Position::FailWithResult } else { Position::Fail };
        let fail = columns("fail", &config.fail, failed, &mut problems);
        let dead = columns("dead", &config.dead, failed, &mut problems);
        let planned = planned(config, &claim, &mut problems);
        if claim.is_empty() && planned.is_empty() {
            problems.push(
                "claim.set = {}: say what a claim writes, for example { state = \"claimed\" }".to_owned(),
            );
        }
        let token = only_column(&claim, "$token", |value| matches!(value, Template::Token), &mut problems);
        let lease = lease(config, &claim, &mut problems);
        if let Some(column) = &config.attempts_column
            && !claim.iter().any(|(name, _)| name == column)
        {
            problems.push(format!(
                "attempts_column = {column}: the claim has to write it: claim.set.{column} = \"$row.{column}+1\""
            ));
        }
        let paths = paths(config, &claim, &planned, &mut problems);
        // The program's values are not known.
        let unknown = planned.iter().map(|column| (column.clone(), Template::Result(column.clone())));
        let written = claim.iter().cloned().chain(unknown).collect();
        let likely_to_recur = recurring_outcomes(config, &written, [&done, &fail, &dead], &mut problems);
        match paths {
            Some(Paths { query, makes_limit, update, group, entity }) if problems.is_empty() => Ok(Self {
                name: config.name.clone(),
                limit: config.limit as usize,
                max_attempts: config.max_attempts,
                guard: config.claim.guard,
                query,
                makes_limit,
                update,
                group,
                entity,
                key: config.key.clone(),
                claim,
                planned,
                token,
                lease,
                attempts: config.attempts_column.clone(),
                done,
                fail,
                dead,
                likely_to_recur,
            }),
            _ => Err(problems),
        }
    }
}

fn columns(key: &str, set: &Values, position: Position, problems: &mut Vec<String>) -> Columns {
    let mut columns = Vec::with_capacity(set.len());
    for (column, value) in set {
        match Template::parse(value, position) {
            Ok(template) => columns.push((column.clone(), template)),
            Err(error) => problems.push(format!("{key}.{column} = {value}: {error}")),
        }
    }
    columns
}

/// Refuses outcomes after which a row is certainly a candidate again, and returns those after which
/// it probably is. After `fail` it is meant to be one.
fn recurring_outcomes(
    config: &Definition,
    claim: &Columns,
    [done, fail, dead]: [&Columns; 3],
    problems: &mut Vec<String>,
) -> Vec<&'static str> {
    let filter = match (&config.query, &config.filter) {
        (Some(query), _) => filter_of(query),
        (None, filter) => filter.clone(),
    };
    // Invalid columns are missing here, so any conclusion could be wrong.
    if !problems.is_empty() {
        return Vec::new();
    }
    let Some(filter) = filter.filter(|filter| !filter.is_empty()) else {
        return Vec::new();
    };
    let mut outcomes = vec![("done", "", done)];
    if !dead.is_empty() {
        outcomes.push(("dead", "", dead));
    } else if config.max_attempts.is_some() && config.attempts_column.is_some() {
        outcomes.push(("dead", " (without it, fail is written after the last attempt)", fail));
    }
    let mut likely = Vec::new();
    for (key, hint, written) in outcomes {
        match recurrence(&filter, &[claim, written], config.is_handled) {
            Recurrence::Certain => problems.push(format!(
                "{key} = ..: the row is a candidate again after it{hint}, and would be claimed without end: write \
                 what the filter {filter} does not let through"
            )),
            Recurrence::Likely => likely.push(key),
            Recurrence::Undecided => {}
        }
    }
    likely
}

/// Returns the only column whose template satisfies `is`.
fn only_column(
    claim: &Columns,
    word: &str,
    is: impl Fn(&Template) -> bool,
    problems: &mut Vec<String>,
) -> Option<String> {
    let mut found = claim.iter().filter(|(_, value)| is(value)).map(|(column, _)| column.clone());
    let first = found.next();
    if let Some(second) = found.next() {
        problems.push(format!("claim.set.{second} = {word}: only one column can have it"));
    }
    first
}

fn lease(config: &Definition, claim: &Columns, problems: &mut Vec<String>) -> Option<Lease> {
    let ends = |value: &Template| matches!(value, Template::Now(later) if later.is_positive());
    let column = only_column(claim, "$now+..", ends, problems);
    let written = claim.iter().find_map(|(name, value)| match value {
        Template::Now(later) if Some(name) == column.as_ref() => Duration::try_from(*later).ok(),
        _ => None,
    });
    let asked = config.lease_secs.map(|secs| Duration::from_secs(secs.into()));
    match (written, asked) {
        (None, Some(asked)) => problems.push(format!(
            "lease_secs = {}: no column says when the claim ends: claim.set.COLUMN = \"$now+{}s\"",
            asked.as_secs(),
            asked.as_secs()
        )),
        (Some(written), Some(asked)) if written != asked => problems.push(format!(
            "lease_secs = {}: the claim says {} s: leave it out, or write the same",
            asked.as_secs(),
            written.as_secs()
        )),
        _ => {}
    }
    Some(Lease { column: column?, span: written? })
}

fn planned(config: &Definition, claim: &Columns, problems: &mut Vec<String>) -> Vec<String> {
    let Some(columns) = &config.planned else { return Vec::new() };
    let targets = config.update.as_deref().map(targets_of);
    let is_claimed = |column: &String| claim.iter().any(|(name, _)| name == column);
    if columns.is_empty() {
        let rest = targets.unwrap_or_default().into_iter().filter(|column| !is_claimed(column));
        let rest: Vec<_> = rest.collect();
        if rest.is_empty() {
            problems.push("plan.columns = []: say which columns the program may write".to_owned());
        }
        return rest;
    }
    for column in columns {
        let text = if *column == config.key {
            "it identifies the row: leave it out"
        } else if is_claimed(column) {
            "claim.set writes it, too: leave one of them out"
        } else if targets.as_ref().is_some_and(|targets| !targets.contains(column)) {
            "update does not write it: add it there"
        } else {
            continue;
        };
        problems.push(format!("plan.columns = {column}: {text}"));
    }
    columns.clone()
}

fn paths(
    config: &Definition,
    claim: &Columns,
    planned: &[String],
    problems: &mut Vec<String>,
) -> Option<Paths> {
    match (&config.query, &config.update, &config.table) {
        (None, None, Some(table)) => Some(generated_paths(config, &path::table(table), claim, planned)),
        (Some(query), Some(update), _) => configured_paths(config, query, update, problems),
        (None, None, None) => {
            problems.push("table = \"\": give a table, or query and update".to_owned());
            None
        }
        _ => {
            problems.push("query = ..: query and update belong together".to_owned());
            None
        }
    }
}

fn generated_paths(config: &Definition, table: &str, claim: &Columns, planned: &[String]) -> Paths {
    let entity = format!("/entity/{table}");
    let filter = config.filter.as_ref().filter(|filter| !filter.is_empty());
    let filter = filter.map(|filter| format!("/{filter}")).unwrap_or_default();
    let sort = if config.sort.is_empty() { String::new() } else { format!("@sort({})", config.sort) };
    let group = format!("/attributegroup/{table}/");
    let keys = match config.claim.guard {
        Guard::IfMatch => path::columns([config.key.as_str()]),
        Guard::RowCas => path::columns([config.key.as_str(), WRITTEN]),
    };
    let claimed = claim.iter().map(|(column, _)| column.as_str());
    let targets = path::columns(claimed.chain(planned.iter().map(String::as_str)));
    Paths {
        query: format!("{entity}{filter}{sort}"),
        makes_limit: true,
        update: format!("{group}{keys};{targets}"),
        group,
        entity,
    }
}

/// Uses the paths of the configuration, as the original's callers write them.
fn configured_paths(
    config: &Definition,
    query: &str,
    update: &str,
    problems: &mut Vec<String>,
) -> Option<Paths> {
    if config.filter.is_some() {
        problems.push("filter = ..: query has a filter of its own; leave one of them".to_owned());
    }
    if !query.contains("limit=") {
        problems.push(format!("query = {query}: end it with ?limit=N: without it the server sends all rows"));
    }
    let keys = keys_of(update);
    if config.claim.guard == Guard::RowCas && !keys.iter().any(|key| key == WRITTEN) {
        problems.push(format!(
            "claim.guard = row-cas: update has no {WRITTEN} among its keys: add it, or write guard = \"if-match\""
        ));
    }
    if !keys.is_empty() && !keys.contains(&config.key) {
        problems.push(format!("key = {}: update has no such key: it has {}", config.key, keys.join(", ")));
    }
    let table = match &config.table {
        Some(table) => path::table(table),
        None => match table_of(update) {
            Some(table) => table.to_owned(),
            None => {
                problems.push(format!(
                    "update = {update}: begin it with /attributegroup/TABLE/ or /entity/TABLE"
                ));
                return None;
            }
        },
    };
    Some(Paths {
        query: query.to_owned(),
        makes_limit: false,
        update: update.to_owned(),
        group: format!("/attributegroup/{table}/"),
        entity: format!("/entity/{table}"),
    })
}

fn table_of(update: &str) -> Option<&str> {
    let rest = update.strip_prefix("/attributegroup/").or_else(|| update.strip_prefix("/entity/"))?;
    rest.split(['/', '?']).next().filter(|table| !table.is_empty())
}
