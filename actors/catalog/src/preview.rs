//! Preview of rules: their requests and the rows that they would claim. Nothing is written.

use jiff::Timestamp;
use orchestrator_catalog_rules::{outcome_kind::OutcomeKind, rows::Row, rule::Rule, template::Variables};
use orchestrator_supervise::{Limits, Root, Strategy, SupervisorSpec};
use serde::Serialize;

use crate::{
    CatalogConfig, RuleConfig,
    agent::read,
    connection,
    edge::handlers::{PlanAnswers, Planner},
    service::Service,
};

/// Maximum number of rows shown.
const SHOWN: usize = 5;
/// Placeholder for claim tokens.
const TOKEN: &str = "TOKEN";

/// Preview of one rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RulePreview {
    /// Name of the rule.
    pub rule: String,
    /// Program that a notify-only rule starts at each change. Such a rule has no requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts: Option<String>,
    /// Path of the query for candidates.
    pub query: String,
    /// Path of the claim.
    pub update: String,
    /// Path of the write for a row that is done, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// Path of the query for rows whose lease may have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// Properties of the rule that may leave rows behind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Number of rows that would be claimed at once.
    pub candidates: usize,
    /// Updates that would claim the first rows.
    pub sample: Vec<Row>,
    /// Error of the server, or of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Previews all rules of a catalog.
///
/// # Errors
/// The catalog cannot be used at all: an address or a file is wrong.
pub async fn preview_rules(config: &CatalogConfig) -> Result<Vec<RulePreview>, String> {
    let (service, child, _) = connection(config)?;
    let tree = SupervisorSpec::new(Strategy::OneForOne).limits(Limits::LEAF).child(child);
    let mut root = Root::start("check", tree).await.map_err(|error| error.to_string())?;
    let mut trials = Vec::with_capacity(config.rule.len());
    for rule in &config.rule {
        trials.push(preview(&service, rule).await);
    }
    root.stop().await;
    Ok(trials)
}

async fn preview<S: Service>(service: &S, config: &RuleConfig) -> RulePreview {
    let mut preview = RulePreview {
        rule: config.name.clone(),
        starts: None,
        query: String::new(),
        update: String::new(),
        done: None,
        held: None,
        warnings: Vec::new(),
        candidates: 0,
        sample: Vec::new(),
        error: None,
    };
    if config.notify_only {
        let program = config.handler.argv.expose().first().map_or("", String::as_str);
        preview.starts = Some(program.to_owned());
        return preview;
    }
    match Rule::new(&config.definition()) {
        Ok(rule) => {
            let planner = config.plan.planner(&config.name);
            preview.error = match planner {
                Ok(planner) => preview_rule(service, &rule, planner.as_ref(), &mut preview).await.err(),
                Err(problem) => Some(problem),
            };
        }
        Err(errors) => preview.error = Some(errors.join("; ")),
    }
    preview
}

async fn preview_rule<S: Service>(
    service: &S,
    rule: &Rule,
    planner: Option<&Planner>,
    preview: &mut RulePreview,
) -> Result<(), String> {
    let now = Timestamp::now();
    (preview.query, preview.update, preview.held) =
        (rule.query(now, 0), rule.update().to_owned(), rule.held_query());
    preview.warnings = rule.warnings();
    let rows = read(service, preview.query.clone()).await.map_err(|error| error.to_string())?;
    preview.candidates = rows.len().min(rule.limit);
    let shown = &rows[..rows.len().min(SHOWN.min(rule.limit))];
    for (row, claimed) in claims(rule, planner, shown, now).await? {
        if preview.done.is_none() {
            let variables = Variables { token: TOKEN, now, row, result: None, error: "" };
            preview.done =
                rule.settle(OutcomeKind::Done, row, &claimed, &variables)?.map(|settlement| settlement.path);
        }
        preview.sample.push(claimed);
    }
    Ok(())
}

/// A program is asked about each row.
async fn claims<'a>(
    rule: &Rule,
    planner: Option<&Planner>,
    rows: &'a [Row],
    now: Timestamp,
) -> Result<Vec<(&'a Row, Row)>, String> {
    let Some(planner) = planner else {
        return rows.iter().map(|row| Ok((row, rule.claim(row, TOKEN, now)?))).collect();
    };
    let PlanAnswers { answers, failure } = planner.plan(rows).await;
    if let Some(reason) = failure {
        return Err(reason);
    }
    let mut claims = Vec::new();
    for (row, answer) in rows.iter().zip(answers) {
        if let Some(answer) = answer? {
            claims.push((row, rule.planned_claim(row, &answer, TOKEN, now)?));
        }
    }
    Ok(claims)
}
