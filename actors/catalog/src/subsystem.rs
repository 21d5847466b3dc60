//! Entry of this crate in the list of subsystems.

use orchestrator_subsystem::{
    BackupSet, Branch, CommandError, Context, Exchange, NoCommand, Original, OriginalContext, OriginalFile,
    Subsystem, VerbCommand,
};

use crate::{
    check, child_spec,
    command::{self, CatalogCommand},
    config::CatalogConfig,
    deriva_config,
    edge::http::HttpCatalog,
    error::CatalogError,
    handler_config::{HandlerKind, NO_QUEUE},
    imaging_config,
    poller::CatalogPoller,
    rule_reloader::RuleReloader,
};

/// The subsystem `catalog`.
#[derive(Debug, Clone, Copy)]
pub struct Catalogs;

impl Subsystem for Catalogs {
    type Config = Vec<CatalogConfig>;
    type Error = CatalogError;
    type Command = CatalogCommand;
    type DropIn = NoCommand;

    const ORIGINALS: &'static [Original] = &[
        Original {
            name: "deriva-agent",
            files: &[],
            file: OriginalFile::Text(deriva_config::translate),
            example: deriva_config::EXAMPLE,
        },
        Original {
            name: "deriva-imaging-server",
            files: &[],
            file: OriginalFile::Text(imaging_config::translate),
            example: deriva_config::EXAMPLE,
        },
    ];
    const NAME: &'static str = "catalog";
    const DESCRIPTION: &'static str = "Catalogs, each with its rules.";
    const COMMANDS_HELP: &'static str = "Inspect, preview and control the rules of catalogs";

    fn branch(all: &Self::Config, exchange: &mut Exchange) -> Result<Branch<Self::Config>, CatalogError> {
        let mut reloader = RuleReloader::default();
        for catalog in all {
            let mut rules = catalog.rule.iter();
            if exchange.jobs.is_none()
                && let Some(rule) = rules.find(|rule| rule.handler.kind == HandlerKind::Queue)
            {
                let text = format!("catalog.{}.rule.{}.{NO_QUEUE}", catalog.name, rule.name);
                return Err(CatalogError::Config(text));
            }
        }
        let spec = child_spec(all, exchange, &mut reloader)?;
        Ok(Branch::reloadable(spec, move |running: &mut Self::Config, fresh: &Self::Config| {
            reloader.reload(running, fresh)
        }))
    }

    fn offers_jobs(all: &Self::Config) -> bool {
        let mut rules = all.iter().flat_map(|catalog| &catalog.rule);
        rules.any(|rule| rule.handler.kind == HandlerKind::Queue)
    }

    fn verbs() -> Vec<VerbCommand> {
        CatalogPoller::<HttpCatalog>::verbs().commands("catalog/*/catalog_poller")
    }

    async fn run(command: CatalogCommand, context: &mut Context<'_>) -> Result<(), CommandError> {
        command::run::<Self>(&command, context).await
    }

    fn drop_in_config(original: NoCommand, _: &mut OriginalContext) -> Result<Self::Config, CatalogError> {
        match original {}
    }

    fn default_config() -> Result<Self::Config, String> {
        Err("there is no [[catalog]] to run: configure one with its rules".to_owned())
    }

    fn is_configured(all: &Self::Config) -> bool {
        !all.is_empty()
    }

    fn check(all: &Self::Config) -> Vec<String> {
        check(all)
    }

    fn files_to_back_up(all: &Self::Config) -> BackupSet {
        all.iter().fold(BackupSet::default(), |set, catalog| {
            set.elsewhere(format!("rows and claims of {}, in ERMrest at {}", catalog.name, catalog.base))
        })
    }

    fn greeting(all: &Self::Config) -> String {
        all.iter().map(CatalogConfig::greeting).collect()
    }
}
