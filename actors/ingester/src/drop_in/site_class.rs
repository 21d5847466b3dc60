//! Interpreter and environment of a class or application of the site.

use std::path::Path;

use orchestrator_edge::process::{EnvValue, PASS_ALL, is_inherited};
use orchestrator_subsystem::{OriginalContext, OriginalUnit};

use crate::{class_path::ClassPath, config::IngesterConfig};

/// Variables that become keys of the configuration, in upper case.
const KEYS: [&str; 9] = [
    "BUILD_META_FILE",
    "DUMP_PATH",
    "INGESTER_NAME",
    "INGESTER_STREAMS",
    "INGESTER_URL",
    "REDIS_URL",
    "RUST_LOG",
    "SERVICE_REDIS_DSN",
    "UPSTREAM_URL",
];
/// Variables by which Python finds the class and its libraries; `PYTHON*`, too. They hold no secrets.
const SEARCH_PATHS: [&str; 2] = ["LD_LIBRARY_PATH", "PATH"];

/// Adds the interpreter `python` and the environment to a configuration with a class of the site.
///
/// The class gets all variables of this process. Of those of a unit file, the configuration sets the
/// search paths and names the others, whose values may be secret.
pub(super) fn add_environment(
    config: &mut IngesterConfig,
    python: Option<&Path>,
    context: &mut OriginalContext,
) {
    let of_site = |source: &str| ClassPath::without_dranspose(source).contains(':');
    if !config.stream.iter().any(|stream| of_site(&stream.source)) {
        return;
    }
    let mut warnings = Vec::new();
    let interpreter = match context.unit() {
        None => {
            config.env_pass = vec![PASS_ALL.to_owned()];
            python
        }
        Some(unit) => {
            take_over(config, unit, context, &mut warnings);
            python.or(unit.interpreter.as_deref())
        }
    };
    match interpreter {
        Some(python) => python.clone_into(&mut config.python),
        None if context.unit().is_some() => warnings.push(
            "ExecStart names no Python interpreter: set python to one that can import dranspose".to_owned(),
        ),
        None => {}
    }
    warnings.into_iter().for_each(|text| context.warn(text));
}

fn take_over(
    config: &mut IngesterConfig,
    unit: &OriginalUnit,
    context: &OriginalContext,
    warnings: &mut Vec<String>,
) {
    let is_search_path = |name: &str| SEARCH_PATHS.contains(&name) || name.starts_with("PYTHON");
    for (name, value) in context.variables() {
        if is_search_path(name) {
            config.env.insert(name.to_owned(), EnvValue::new(value));
        } else if !is_inherited(name) && !KEYS.contains(&name.to_ascii_uppercase().as_str()) {
            config.env_pass.push(name.to_owned());
        }
    }
    if !config.env_pass.is_empty() {
        let names = config.env_pass.join(", ");
        warnings.push(format!("{names}: keep these lines in the new unit file: the class inherits them"));
    }
    if let Some(directory) = &unit.directory {
        let directory = directory.display();
        warnings.push(format!("WorkingDirectory={directory}: keep it: the class may be imported from there"));
    }
}
