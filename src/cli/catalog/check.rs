//! `orchestrator catalog check`: rules tried out on the catalogs that a configuration names.

use std::path::PathBuf;

use clap::Args;
use orchestrator_catalog::{Trial, try_out};
use serde_json::json;

use crate::{
    cli::{
        client_error::ClientError,
        output::{self, Form, one_line},
    },
    config::{Config, Sources, variables_of_process},
};

/// Which catalogs and rules, and how they are told.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub(crate) struct CheckArguments {
    /// Only this rule
    rule: Option<String>,
    /// A TOML file with configuration; may be repeated, later files win
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// One value, e.g. `--set catalog.lab.poll_secs=5`; may be repeated, wins over files and environment
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    form: Form,
}

/// Looks, and gives what is to be printed.
pub(super) async fn run(arguments: &CheckArguments) -> Result<String, ClientError> {
    let sources = Sources {
        files: arguments.config.clone(),
        environment: variables_of_process(),
        sets: arguments.set.clone(),
        only: Some("catalog".to_owned()),
    };
    let config = Config::load(&sources).map_err(|error| ClientError::Config(format!("{error:#}")))?;
    let (mut told, mut text) = (Vec::new(), String::new());
    for catalog in config.catalog {
        let mut catalog = catalog;
        catalog.rule.retain(|rule| arguments.rule.as_ref().is_none_or(|name| rule.name == *name));
        let trials = try_out(&catalog).await.map_err(ClientError::Local)?;
        text.push_str(&format!("{} at {}\n", catalog.name, catalog.base));
        for trial in &trials {
            text.push_str(&page(&catalog.base, trial));
        }
        told.push(json!({ "catalog": catalog.name, "base": catalog.base, "rules": trials }));
    }
    Ok(if arguments.form.json { arguments.form.print(&told) } else { text })
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
