//! Registration of this crate in the list of subsystems.

use std::path::{Path, PathBuf};

use orchestrator_subsystem::{
    BackupSet, Branch, CommandError, Context, Exchange, Original, OriginalContext, OriginalFile, Subsystem,
    VerbCommand,
};

use crate::{
    child_spec,
    command::{self, ProvenanceCommand},
    config::ProvenanceConfig,
    drop_in::DropIn,
    edge::stores,
    error::ProvenanceError,
    preflight,
};

/// The provenance subsystem.
#[derive(Debug, Clone, Copy)]
pub struct Provenance;

impl Subsystem for Provenance {
    type Config = ProvenanceConfig;
    type Error = ProvenanceError;
    type Command = ProvenanceCommand;
    type DropIn = DropIn;

    const ORIGINALS: &'static [Original] = &[Original {
        name: "swh-provenance-server",
        files: &[],
        file: OriginalFile::Variable("SWH_CONFIG_FILENAME"),
        example: "",
    }];
    const NAME: &'static str = "provenance";
    const DESCRIPTION: &'static str = "The provenance subsystem.";
    const COMMANDS_HELP: &'static str = "Import and query provenance rows";

    fn branch(
        config: &ProvenanceConfig,
        _: &mut Exchange,
    ) -> Result<Branch<ProvenanceConfig>, ProvenanceError> {
        child_spec(config).map(|(tree, _)| Branch::from(tree))
    }

    fn verbs() -> Vec<VerbCommand> {
        command::verbs().commands(command::CONSOLE)
    }

    async fn run(command: ProvenanceCommand, context: &mut Context<'_>) -> Result<(), CommandError> {
        command::run(&command, context).await
    }

    fn drop_in_config(
        original: DropIn,
        context: &mut OriginalContext,
    ) -> Result<ProvenanceConfig, ProvenanceError> {
        let DropIn::SwhProvenanceServer(arguments) = original;
        arguments.config(context)
    }

    fn default_config() -> Result<ProvenanceConfig, String> {
        Ok(ProvenanceConfig::default())
    }

    fn check(config: &ProvenanceConfig) -> Vec<String> {
        config.check()
    }

    fn preflight(config: &ProvenanceConfig) -> Result<(), ProvenanceError> {
        preflight(config)
    }

    fn state_dir(config: &ProvenanceConfig) -> Option<PathBuf> {
        config.own_file().and_then(Path::parent).map(Path::to_owned)
    }

    fn files_to_back_up(config: &ProvenanceConfig) -> BackupSet {
        stores::files_to_back_up(config)
    }

    fn greeting(config: &ProvenanceConfig) -> String {
        let store = stores::endpoint(config);
        format!(
            "  provenance  {store}\n              first rows:   orchestrator provenance import FILE.jsonl\n"
        )
    }
}
