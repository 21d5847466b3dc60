//! Entry of this crate in the list of subsystems.

use orchestrator_edge::without_credentials;
use orchestrator_subsystem::{
    BackupKind, BackupSet, Branch, CommandError, Context, Exchange, Original, OriginalContext, OriginalFile,
    Subsystem, VerbCommand,
};
use orchestrator_supervise::ChildSpec;

use crate::{
    check, child_spec,
    command::{self, IngesterCommand},
    config::IngesterConfig,
    drop_in::DropIn,
    error::IngesterError,
    ingester::Ingester,
    preflight,
};

/// The ingester subsystem.
#[derive(Debug, Clone, Copy)]
pub struct Ingesters;

impl Subsystem for Ingesters {
    type Config = Vec<IngesterConfig>;
    type Error = IngesterError;
    type Command = IngesterCommand;
    type DropIn = DropIn;

    const ORIGINALS: &'static [Original] = &[
        Original {
            name: "dranspose-ingester",
            files: &[],
            file: OriginalFile::None,
            example: r#"[{"name": "eiger-ingester", "stream":
                [{"name": "eiger", "source": "stins", "upstream_url": "tcp://detector:9999"}]}]"#,
        },
        Original {
            name: "dranspose-http-ingester",
            files: &[],
            file: OriginalFile::None,
            example: r#"[{"name": "sardana-ingester", "stream":
                [{"name": "sardana", "source": "sardana", "listen": "0.0.0.0:8000"}]}]"#,
        },
    ];
    const NAME: &'static str = "ingester";
    const DESCRIPTION: &'static str = "Ingesters, each with its streams.";
    const COMMANDS_HELP: &'static str = "Inspect the ingesters, probe and play sources";

    fn branch(all: &Self::Config, exchange: &mut Exchange) -> Result<Branch<Self::Config>, IngesterError> {
        child_spec(all, exchange).map(Branch::from)
    }

    fn offers_jobs(all: &Self::Config) -> bool {
        all.iter().any(|config| config.on_finished.is_some())
    }

    fn verbs() -> Vec<VerbCommand> {
        Ingester::verbs().commands("ingester/*/ingester")
    }

    async fn run(command: IngesterCommand, context: &mut Context<'_>) -> Result<(), CommandError> {
        command::run(&command, context).await
    }

    fn drop_in_config(
        original: DropIn,
        context: &mut OriginalContext,
    ) -> Result<Self::Config, IngesterError> {
        Ok(vec![original.config(context)?])
    }

    fn default_config() -> Result<Self::Config, String> {
        Err("no [[ingester]] is configured: add one with its streams".to_owned())
    }

    fn is_configured(all: &Self::Config) -> bool {
        !all.is_empty()
    }

    fn check(all: &Self::Config) -> Vec<String> {
        check(all)
    }

    fn preflight(all: &Self::Config) -> Result<(), IngesterError> {
        preflight(all)
    }

    /// The records of mappings. Dumps are measurements, and spill files end with the process.
    fn files_to_back_up(all: &Self::Config) -> BackupSet {
        all.iter().fold(BackupSet::default(), |set, config| {
            let name = config.name();
            let set = match &config.on_finished {
                Some(finished) => {
                    let role = format!("{}/records", ChildSpec::id_of(&name));
                    set.with(&role, &finished.directory(&name), BackupKind::Directory)
                }
                None => set,
            };
            let file = config.redis_url_file.as_ref().map(|file| file.display().to_string());
            let at = file.or_else(|| without_credentials(config.redis_url.expose())).unwrap_or_default();
            set.elsewhere(format!("mappings and positions of {name}, in Redis at {at}"))
        })
    }

    fn greeting(all: &Self::Config) -> String {
        all.iter().map(IngesterConfig::greeting).collect()
    }
}
