//! Rules tried out: what they would ask, and claim. Nothing is written.

use jiff::Timestamp;
use orchestrator_supervise::{Limits, Root, Strategy, SupervisorSpec};
use serde::Serialize;

use crate::{
    CatalogConfig, RuleConfig, credentials,
    edge::http,
    handling::Row,
    place,
    rule::{Ending, Rule},
    service::{Get, Reply, Service},
    state_change::rows,
    template::Meaning,
};

/// Of the rows that would be claimed, so many are shown.
const SHOWN: usize = 5;
/// What stands for a token.
const TOKEN: &str = "TOKEN";

/// A rule, tried out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// The rule.
    pub rule: String,
    /// What is asked for candidates.
    pub query: String,
    /// Where claims are written.
    pub update: String,
    /// Where the row is written once it is done, if anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// What is asked for rows whose holders may have died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// What people should think about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How many rows would be claimed at once.
    pub candidates: usize,
    /// What would be written to claim the first of them.
    pub sample: Vec<Row>,
    /// Why the server did not answer, or no claim can be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Tries out all rules of a catalog.
///
/// # Errors
/// The catalog cannot be asked at all: an address or a file cannot be used.
pub async fn try_out(config: &CatalogConfig) -> Result<Vec<Trial>, String> {
    let (service, child) = http::child_spec(place(config)?, credentials(config));
    let tree = SupervisorSpec::new(Strategy::OneForOne).limits(Limits::LEAF).child(child);
    let mut root = Root::start("check", tree).await.map_err(|error| error.to_string())?;
    let mut trials = Vec::with_capacity(config.rule.len());
    for rule in &config.rule {
        trials.push(trial(&service, rule).await);
    }
    root.stop().await;
    Ok(trials)
}

async fn trial<S: Service>(service: &S, config: &RuleConfig) -> Trial {
    let mut trial = Trial {
        rule: config.name.clone(),
        query: String::new(),
        update: String::new(),
        done: None,
        held: None,
        warnings: Vec::new(),
        candidates: 0,
        sample: Vec::new(),
        error: None,
    };
    match Rule::new(config) {
        Ok(rule) => trial.error = look(service, &rule, &mut trial).await.err(),
        Err(errors) => trial.error = Some(errors.join("; ")),
    }
    trial
}

async fn look<S: Service>(service: &S, rule: &Rule, trial: &mut Trial) -> Result<(), String> {
    let now = Timestamp::now();
    (trial.query, trial.update, trial.held) =
        (rule.query(now, 0), rule.update().to_owned(), rule.held_query());
    trial.warnings = rule.warnings();
    let get = Get { path: trial.query.clone(), if_none_match: None };
    let body = match service.get(get).await {
        Ok(Reply::Rows { body, .. }) => body,
        Ok(Reply::Unchanged { .. }) => {
            return Err("the server answers 304, which it was not asked for".to_owned());
        }
        Err(trouble) => return Err(trouble.to_string()),
    };
    let rows = rows(&body)?;
    trial.candidates = rows.len().min(rule.limit);
    for row in rows.iter().take(SHOWN.min(rule.limit)) {
        let claimed = rule.claim(row, TOKEN, now)?;
        if trial.done.is_none() {
            let meaning = Meaning { token: TOKEN, now, row, result: None, error: "" };
            trial.done =
                rule.settle(Ending::Done, row, &claimed, &meaning)?.map(|settlement| settlement.path);
        }
        trial.sample.push(claimed);
    }
    Ok(())
}
