//! `orchestrator catalog check`: a preview of rules on their catalogs.

use clap::Args;
use orchestrator_subsystem::{
    CommandError, ConfigArguments, Context, OutputFormat, Subsystem,
    output::{self, escape_line},
};
use serde_json::json;

use crate::{
    config::CatalogConfig,
    preview::{RulePreview, preview_rules},
};

/// Arguments of `check`.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct CheckArguments {
    /// Show only this rule
    rule: Option<String>,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    format: OutputFormat,
}

/// Prints the requests of each rule and the rows that it would claim.
///
/// # Errors
/// The configuration cannot be used, or a server does not answer.
pub(super) async fn run<S: Subsystem<Config = Vec<CatalogConfig>>>(
    arguments: &CheckArguments,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let (mut catalogs, mut text, mut rules, mut failed) = (Vec::new(), String::new(), 0, 0);
    for mut catalog in context.configuration::<S>(&arguments.config)? {
        catalog.rule.retain(|rule| arguments.rule.as_ref().is_none_or(|name| rule.name == *name));
        let trials = preview_rules(&catalog).await.map_err(CommandError::Local)?;
        text.push_str(&format!("{} at {}\n", catalog.name, catalog.base));
        rules += trials.len();
        failed += trials.iter().filter(|trial| trial.error.is_some()).count();
        for preview in &trials {
            text.push_str(&page(&catalog.base, preview));
        }
        catalogs.push(json!({ "catalog": catalog.name, "base": catalog.base, "rules": trials }));
    }
    context.print(&if arguments.format.json { arguments.format.print(&catalogs) } else { text })?;
    match failed {
        0 => Ok(()),
        n => Err(CommandError::Local(format!(
            "{n} of {rules} rules cannot be checked: see their errors above"
        ))),
    }
}

/// Formats one rule.
fn page(base: &str, preview: &RulePreview) -> String {
    let mut page = format!("\n{}\n", preview.rule);
    let mut line = |what: &str, text: &str| page.push_str(&format!("  {what:<12} {}\n", escape_line(text)));
    if let Some(program) = &preview.starts {
        line("starts", &format!("{program} at each change; claims nothing"));
        return page;
    }
    line("asks", &format!("GET {base}{}", preview.query));
    line("claims", &format!("PUT {base}{}", preview.update));
    if let Some(done) = &preview.done {
        line("completes", &format!("PUT {base}{done}"));
    }
    if let Some(held) = &preview.held {
        line("takes over", &format!("GET {base}{held}"));
    }
    for warning in &preview.warnings {
        line("warning", warning);
    }
    match &preview.error {
        Some(error) => line("error", error),
        None if preview.candidates == 1 => line("would claim", "1 row"),
        None => line("would claim", &format!("{} rows", preview.candidates)),
    }
    for row in &preview.sample {
        line("", &output::json(row));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_shows_full_paths_and_updates() {
        let preview = RulePreview {
            rule: "convert".to_owned(),
            starts: None,
            query: "/entity/Foo/state=actionable?limit=5".to_owned(),
            update: "/attributegroup/Foo/id;state".to_owned(),
            done: None,
            held: None,
            warnings: vec!["think".to_owned()],
            candidates: 1,
            sample: vec![serde_json::from_value(json!({ "id": 1, "state": "claimed" })).expect("a row")],
            error: None,
        };
        let page = page("http://h/ermrest/catalog/1", &preview);
        assert!(
            page.contains("GET http://h/ermrest/catalog/1/entity/Foo/state=actionable?limit=5\n"),
            "{page}"
        );
        assert!(page.contains(r#"{"id":1,"state":"claimed"}"#) && page.contains("1 row\n"), "{page}");
    }
}
