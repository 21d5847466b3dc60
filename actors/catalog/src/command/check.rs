//! `orchestrator catalog check`: rules tried out on the catalogs that a configuration names.

use clap::Args;
use orchestrator_subsystem::{
    CommandError, ConfigArguments, Context, Form, Subsystem,
    output::{self, one_line},
};
use serde_json::json;

use crate::{
    config::CatalogConfig,
    trial::{Trial, try_out},
};

/// Which catalogs and rules, and how they are told.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct CheckArguments {
    /// Only this rule
    rule: Option<String>,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    form: Form,
}

/// Prints what each rule asks and would claim.
pub(super) async fn run<S: Subsystem<Config = Vec<CatalogConfig>>>(
    arguments: &CheckArguments,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let (mut catalogs, mut text) = (Vec::new(), String::new());
    for mut catalog in context.configuration::<S>(&arguments.config)? {
        catalog.rule.retain(|rule| arguments.rule.as_ref().is_none_or(|name| rule.name == *name));
        let trials = try_out(&catalog).await.map_err(CommandError::Local)?;
        text.push_str(&format!("{} at {}\n", catalog.name, catalog.base));
        for trial in &trials {
            text.push_str(&page(&catalog.base, trial));
        }
        catalogs.push(json!({ "catalog": catalog.name, "base": catalog.base, "rules": trials }));
    }
    context.print(&if arguments.form.json { arguments.form.print(&catalogs) } else { text })
}

/// One rule: its paths as they are sent, and what it would claim.
fn page(base: &str, trial: &Trial) -> String {
    let mut page = format!("\n{}\n", trial.rule);
    let mut line = |what: &str, text: &str| page.push_str(&format!("  {what:<12} {}\n", one_line(text)));
    line("asks", &format!("GET {base}{}", trial.query));
    line("claims", &format!("PUT {base}{}", trial.update));
    if let Some(done) = &trial.done {
        line("completes", &format!("PUT {base}{done}"));
    }
    if let Some(held) = &trial.held {
        line("takes over", &format!("GET {base}{held}"));
    }
    for warning in &trial.warnings {
        line("think about", warning);
    }
    match &trial.error {
        Some(error) => line("cannot", error),
        None => line("would claim", &format!("{} rows", trial.candidates)),
    }
    for row in &trial.sample {
        line("", &output::json(row));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_whole_paths_and_what_would_be_written() {
        let trial = Trial {
            rule: "convert".to_owned(),
            query: "/entity/Foo/state=actionable?limit=5".to_owned(),
            update: "/attributegroup/Foo/id;state".to_owned(),
            done: None,
            held: None,
            warnings: vec!["think".to_owned()],
            candidates: 1,
            sample: vec![json!({ "id": 1, "state": "claimed" }).as_object().cloned().expect("a row")],
            error: None,
        };
        let page = page("http://h/ermrest/catalog/1", &trial);
        assert!(
            page.contains("GET http://h/ermrest/catalog/1/entity/Foo/state=actionable?limit=5\n"),
            "{page}"
        );
        assert!(page.contains(r#"{"id":1,"state":"claimed"}"#) && page.contains("1 rows"), "{page}");
    }
}
