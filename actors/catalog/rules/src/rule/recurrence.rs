//! Detection of rules whose results are candidates of the same rule again, as far as the rule alone
//! shows it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Columns;
use crate::{path, template::Template};

/// Maximum depth of parentheses; deeper filters are not decided.
const DEPTH_MAX: usize = 32;

/// Relation of an outcome to the rule's own filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recurrence {
    /// The row always meets the filter again.
    Certain,
    /// The row meets the filter again, unless the handler changes a column that the rule does not
    /// write.
    Likely,
    /// Unknown, or the row does not meet the filter.
    Undecided,
}

/// Decides whether a row that met `filter` meets it again after the writes of `written`. `handled`:
/// a handler may have changed other columns.
pub(super) fn recurrence(filter: &str, written: &[&Columns], handled: bool) -> Recurrence {
    let mut columns = BTreeMap::new();
    for (column, template) in written.iter().flat_map(|columns| columns.iter()) {
        match template {
            Template::Row(of, 0) if of == column => columns.remove(column.as_str()),
            template => columns.insert(column.as_str(), template),
        };
    }
    let Some(conjuncts) = conjuncts(filter) else { return Recurrence::Undecided };
    let mut kept = false;
    for conjunct in &conjuncts {
        // A condition on unchanged columns still holds.
        if conjunct.columns().iter().any(|column| columns.contains_key(column)) {
            if conjunct.truth(&columns) != Truth::True {
                return Recurrence::Undecided;
            }
        } else {
            kept = true;
        }
    }
    if kept && handled { Recurrence::Likely } else { Recurrence::Certain }
}

/// For a path `/entity/TABLE/FILTER@sort(..)?limit=N`; None without a filter, or if the path joins tables.
pub(super) fn filter_of(query: &str) -> Option<String> {
    let path = query.split(['?', '@']).next()?;
    let mut parts = path.strip_prefix("/entity/")?.split('/');
    parts.next()?;
    let filters: Vec<_> = parts.collect();
    let joined = |part: &&str| !part.contains('=') && !part.contains("::") || part.contains(":=");
    if filters.is_empty() || filters.iter().any(joined) {
        return None;
    }
    let each: Vec<_> = filters.into_iter().map(|part| format!("({part})")).collect();
    Some(each.join("&"))
}

/// Three-valued truth of SQL, and unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    True,
    False,
    Null,
    Unknown,
}

/// A filter in the server's syntax.
#[derive(Debug, Clone, PartialEq)]
enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    /// The column equals one of the values.
    Equals(String, Vec<String>),
    IsNull(String),
    /// An operator that is not evaluated.
    Other(String),
}

/// Conditions that must all hold. None: the filter cannot be parsed.
fn conjuncts(filter: &str) -> Option<Vec<Filter>> {
    let (read, rest) = parse_disjunction(filter, DEPTH_MAX)?;
    if !rest.is_empty() {
        return None;
    }
    let mut flat = Vec::new();
    let mut open = vec![read];
    while let Some(next) = open.pop() {
        match next {
            Filter::All(parts) => open.extend(parts),
            Filter::Any(mut parts) if parts.len() == 1 => open.extend(parts.pop()),
            other => flat.push(other),
        }
    }
    Some(flat)
}

fn parse_disjunction(text: &str, depth: usize) -> Option<(Filter, &str)> {
    let (mut parts, mut rest) = (Vec::new(), text);
    loop {
        let (part, after) = parse_conjunction(rest, depth)?;
        parts.push(part);
        match after.strip_prefix(';') {
            Some(more) => rest = more,
            None => return Some((Filter::Any(parts), after)),
        }
    }
}

fn parse_conjunction(text: &str, depth: usize) -> Option<(Filter, &str)> {
    let (mut parts, mut rest) = (Vec::new(), text);
    loop {
        let (part, after) = parse_factor(rest, depth)?;
        parts.push(part);
        match after.strip_prefix('&') {
            Some(more) => rest = more,
            None => return Some((Filter::All(parts), after)),
        }
    }
}

fn parse_factor(text: &str, depth: usize) -> Option<(Filter, &str)> {
    let depth = depth.checked_sub(1)?;
    if let Some(rest) = text.strip_prefix('!') {
        let (negated, rest) = parse_factor(rest, depth)?;
        return Some((Filter::Not(Box::new(negated)), rest));
    }
    if let Some(rest) = text.strip_prefix('(') {
        let (inner, rest) = parse_disjunction(rest, depth)?;
        return Some((inner, rest.strip_prefix(')')?));
    }
    parse_predicate(text)
}

fn parse_predicate(text: &str) -> Option<(Filter, &str)> {
    let (predicate, rest) = text.split_at(end_of_predicate(text));
    let operator = predicate.find("::").filter(|at| predicate.find('=').is_none_or(|equals| *at < equals));
    let read = match operator {
        Some(at) => {
            let column = path::decode(&predicate[..at])?;
            match &predicate[at..] {
                "::null::" => Filter::IsNull(column),
                _ => Filter::Other(column),
            }
        }
        None => {
            let (column, value) = predicate.split_once('=')?;
            let column = path::decode(column)?;
            let list = value.strip_prefix("any(").and_then(|list| list.strip_suffix(')'));
            let values = list.map_or_else(|| vec![value], |list| list.split(',').collect());
            Filter::Equals(column, values.into_iter().map(path::decode).collect::<Option<_>>()?)
        }
    };
    // A column with a colon belongs to another table.
    (!read.columns().iter().any(|column| column.is_empty() || column.contains(':'))).then_some((read, rest))
}

fn end_of_predicate(text: &str) -> usize {
    let mut open = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => open += 1,
            b')' if open > 0 => open -= 1,
            b')' | b'&' | b';' if open == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

impl Filter {
    fn columns(&self) -> Vec<&str> {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::columns).collect(),
            Self::Not(negated) => negated.columns(),
            Self::Equals(column, _) | Self::IsNull(column) | Self::Other(column) => vec![column],
        }
    }

    fn truth(&self, written: &BTreeMap<&str, &Template>) -> Truth {
        match self {
            Self::All(parts) => {
                first([Truth::False, Truth::Unknown, Truth::Null], parts, written, Truth::True)
            }
            Self::Any(parts) => {
                first([Truth::True, Truth::Unknown, Truth::Null], parts, written, Truth::False)
            }
            Self::Not(negated) => match negated.truth(written) {
                Truth::True => Truth::False,
                Truth::False => Truth::True,
                other => other,
            },
            Self::Equals(column, values) => written.get(column.as_str()).map_or(Truth::Unknown, |template| {
                template.plain().map_or(Truth::Unknown, |value| equals(value, values))
            }),
            Self::IsNull(column) => match written.get(column.as_str()) {
                Some(Template::Plain(Value::Null)) => Truth::True,
                Some(Template::Plain(_) | Template::Token | Template::Now(_) | Template::Error) => {
                    Truth::False
                }
                _ => Truth::Unknown,
            },
            Self::Other(_) => Truth::Unknown,
        }
    }
}

/// Returns the first of `order` that occurs among the parts; else `rest`.
fn first(order: [Truth; 3], parts: &[Filter], written: &BTreeMap<&str, &Template>, rest: Truth) -> Truth {
    let truths: Vec<_> = parts.iter().map(|part| part.truth(written)).collect();
    order.into_iter().find(|truth| truths.contains(truth)).unwrap_or(rest)
}

fn equals(value: &Value, literals: &[String]) -> Truth {
    let text = super::plain_text(value);
    match value {
        Value::Null => Truth::Null,
        _ if literals.contains(&text) => Truth::True,
        Value::String(_) => Truth::False,
        // 1 and 1.0 are equal in SQL.
        _ => Truth::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::template::Position;

    fn columns(set: &Value) -> Columns {
        let set = set.as_object().expect("columns");
        set.iter()
            .map(|(name, value)| (name.clone(), Template::parse(value, Position::Done).expect("a word")))
            .collect()
    }

    fn after(filter: &str, done: &Value, handled: bool) -> Recurrence {
        let claim = columns(&json!({ "state": "claimed", "by": "$token" }));
        recurrence(filter, &[&claim, &columns(done)], handled)
    }

    #[test]
    fn a_result_that_meets_the_filter_is_detected() {
        for (filter, done) in [
            ("state=actionable", json!({ "state": "actionable" })),
            ("(state=actionable)", json!({ "state": "actionable" })),
            ("state=a%20b", json!({ "state": "a b" })),
            ("state=any(new,actionable)", json!({ "state": "actionable" })),
            ("state=new;state=actionable", json!({ "state": "actionable" })),
            ("(state=new;state=actionable)&by::null::", json!({ "state": "actionable", "by": "$null" })),
            ("!state=complete", json!({ "state": "actionable" })),
            ("!(state=complete;state=dead)", json!({ "state": "actionable" })),
            ("!state=complete", json!({})),
            ("level=3", json!({ "level": 3 })),
            ("state=actionable", json!({ "state": "$row.state" })),
        ] {
            assert_eq!(after(filter, &done, false), Recurrence::Certain, "{filter} {done}");
        }
        let done = json!({ "state": "actionable" });
        assert_eq!(after("state=actionable&kind=x", &done, false), Recurrence::Certain);
        assert_eq!(
            after("state=actionable&kind=x", &done, true),
            Recurrence::Likely,
            "a handler may write it"
        );
    }

    #[test]
    fn a_result_that_may_not_meet_the_filter_is_undecided() {
        for (filter, done) in [
            ("state=actionable", json!({ "state": "complete" })),
            ("state=actionable", json!({})),
            ("state=actionable", json!({ "state": "$null" })),
            ("!state=actionable", json!({ "state": "$null" })),
            ("state=actionable", json!({ "state": "$result.next" })),
            ("state=actionable", json!({ "state": "$row.former" })),
            ("state=actionable&by::null::", json!({ "state": "actionable" })),
            ("state=actionable&level::gt::3", json!({ "state": "actionable", "level": 4 })),
            ("state=actionable;kind=x", json!({ "state": "complete" })),
            ("due::leq::$now", json!({ "due": "$now+1h" })),
            ("level=3", json!({ "level": 3.0 })),
            ("A:state=actionable", json!({ "state": "actionable" })),
            ("state=", json!({ "state": "actionable" })),
            ("state==(", json!({ "state": "actionable" })),
        ] {
            assert_eq!(after(filter, &done, false), Recurrence::Undecided, "{filter} {done}");
        }
    }

    #[test]
    fn the_filter_of_a_query_is_extracted_unless_tables_are_joined() {
        for (query, filter) in [
            ("/entity/Foo/state=actionable?limit=5", Some("(state=actionable)")),
            ("/entity/S:Foo/a=1/b=2@sort(RCT,RID)?limit=5", Some("(a=1)&(b=2)")),
            ("/entity/Foo?limit=5", None),
            ("/entity/Foo/Bar/state=actionable?limit=5", None),
            ("/entity/A:=Foo/B:=Bar/state=actionable?limit=5", None),
            ("/attribute/Foo/state=actionable/id?limit=5", None),
        ] {
            assert_eq!(filter_of(query).as_deref(), filter, "{query}");
        }
    }

    proptest! {
        #[test]
        fn any_filter_is_parsed_or_undecided(filter in "[a-c=:;&!()%0-9]{0,400}") {
            after(&filter, &json!({ "a": "b" }), false);
        }
    }

    #[test]
    fn deep_nesting_is_undecided() {
        let deep = format!("{}a=b{}", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(after(&deep, &json!({ "a": "b" }), false), Recurrence::Undecided);
        assert_eq!(
            after(&format!("{}a=b", "!".repeat(100_000)), &json!({ "a": "b" }), false),
            Recurrence::Undecided
        );
    }
}
