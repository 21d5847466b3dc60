//! Explanation of one row: what the agents of its rule know, and what the server says of it.

#[cfg(test)]
mod tests;
mod words;

use std::time::Duration;

use jiff::Timestamp;
use orchestrator_catalog_rules::{
    cell::Cell,
    rows::{Row, rows},
    rule::Rule,
};
use orchestrator_subsystem::{Answered, ConsoleError, ConsoleReply, Explain, Explained, item::ITEMS_MAX};
use orchestrator_supervise::{ChildCx, ChildSpec, Handle, Handled};
use orchestrator_text::sanitize;
use tokio::time::{Instant, timeout_at};

use self::words::Known;
use super::CatalogPoller;
use crate::{
    row_question::RuleView,
    rules::Asked,
    service::{CatalogResponse, Get, RequestError, Service},
};

/// Time for which agents and the server may take to answer; the operator waits for 2 s.
const ANSWER_TIME: Duration = Duration::from_millis(1_500);

impl<S: Service + Clone + Unpin + Send + 'static> Handle<Explain> for CatalogPoller<S> {
    fn handle(
        &mut self,
        Explain { item }: Explain,
        cx: &mut ChildCx<'_, Self>,
    ) -> Handled<Self, Answered<Explain>> {
        let catalog = self.config.name.clone();
        let asked = self.rules.ask(item.strip_prefix(&format!("{catalog}/")).unwrap_or(&item));
        let paths = asked.iter().map(|rule| self.path(&ChildSpec::id_of(&rule.config.name))).collect();
        let service = self.rules.service();
        let (reply, answer) = Handled::later();
        cx.spawn(explain(catalog, service, asked, paths), |_, explained, _| drop(reply.send(explained)));
        answer
    }
}

/// Looks each rule's row up. `paths` are those of the rules' children.
///
/// # Errors
/// The server does not answer, and no agent has claimed the row.
async fn explain<S: Service>(
    catalog: String,
    service: S,
    asked: Vec<Asked>,
    paths: Vec<String>,
) -> ConsoleReply<Explained> {
    let (until, now) = (Instant::now() + ANSWER_TIME, Timestamp::now());
    let mut explained = Explained::default();
    let (mut searched, mut unanswered) = (Vec::new(), Vec::new());
    for (Asked { config, key, mut answers }, path) in asked.into_iter().zip(paths).take(ITEMS_MAX) {
        let Ok(rule) = Rule::new(&config.definition()) else { continue };
        let mut view = RuleView::default();
        // Former versions of the rule finish their rows.
        while let Ok(Some(answer)) = timeout_at(until, answers.recv()).await {
            if view.held.is_none() {
                view = answer;
            }
        }
        let id = Cell::from(serde_json::Value::from(key.as_str()));
        let at_server = async {
            let found = read(&service, rule.rows_query([&id])).await?;
            let filtered = config.filter.as_ref().map(|filter| rule.filtered_query(&id, filter, now));
            let is_candidate = match filtered.filter(|_| !found.is_empty()) {
                Some(path) => Some(!read(&service, path).await?.is_empty()),
                None => None,
            };
            Ok::<_, RequestError>((found.into_iter().next(), is_candidate))
        };
        let answer = match timeout_at(until, at_server).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        };
        let table = format!("{} by {}", sanitize(rule.table()), sanitize(rule.key()));
        let (row, is_candidate, problem) = match answer {
            Ok((row, is_candidate)) => (row, is_candidate, None),
            Err(problem) => (None, None, Some(sanitize(problem))),
        };
        match &problem {
            Some(text) => unanswered.push(format!("{table}: {text}")),
            None => searched.push(table),
        }
        let known = Known {
            catalog: &catalog,
            path,
            key,
            config: &config,
            rule: &rule,
            view,
            row,
            is_candidate,
            now,
        };
        explained.found.extend(known.item(problem));
    }
    if explained.found.is_empty() {
        if !unanswered.is_empty() {
            return Err(ConsoleError::Refused(unanswered.join("; ")));
        }
        searched.dedup();
        explained.searched = searched.join(", ");
    }
    Ok(explained)
}

/// Reads rows. A value that the column's type cannot have is that of no row.
async fn read(service: &impl Service, path: String) -> Result<Vec<Row>, RequestError> {
    match service.get(Get { path, if_none_match: None }).await {
        Ok(CatalogResponse::Rows { body, .. }) => rows(&body).map_err(RequestError::OutcomeUnknown),
        Ok(CatalogResponse::NotModified { .. }) | Err(RequestError::Rejected(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
