//! Command `orchestrator producer plan`: a dry run over the database of a configuration or of the original's
//! file.

use std::path::PathBuf;

use clap::Args;
use orchestrator_subsystem::{
    CommandError, ConfigArguments, Context, OriginalContext, OutputFormat, Subsystem, columns::align,
    output::escape_line,
};
use serde_json::json;

use crate::{config::ProducerConfig, drop_in, dry_run::dry_run, plan::Plan};

/// Database and output format.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct PlanArguments {
    #[command(flatten)]
    config: ConfigArguments,
    /// Read this YAML file of the original instead of a configuration
    #[arg(long, value_name = "CONFIG.yaml", conflicts_with_all = ["config", "set"])]
    fproducer: Option<PathBuf>,
    /// Create missing indexes in the collection of tangles first; may take long
    #[arg(long)]
    ensure_indexes: bool,
    /// Assumed number of jobs that Faktory accepts per second, to estimate the duration
    #[arg(long, value_name = "N", default_value_t = 25_000, value_parser = clap::value_parser!(u64).range(1..))]
    jobs_per_sec: u64,
    #[command(flatten)]
    format: OutputFormat,
}

/// Prints the plan.
pub(super) async fn run<S: Subsystem<Config = ProducerConfig>>(
    arguments: &PlanArguments,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let mut original = OriginalContext::of_process();
    let config = configuration::<S>(arguments, context, &mut original)?;
    let ignored = original.take_warnings();
    let (plan, missing) = dry_run(&config, arguments.ensure_indexes).await.map_err(CommandError::Local)?;
    let secs = plan.pushing_secs(arguments.jobs_per_sec);
    let text = if arguments.format.json {
        let answer =
            json!({ "plan": plan, "pushing_secs": secs, "missing_indexes": missing, "warnings": ignored });
        arguments.format.print(&answer)
    } else {
        let warnings: String = ignored.iter().map(|text| format!("{}\n", escape_line(text))).collect();
        warnings + &table(&plan, secs.unwrap_or_default(), arguments.jobs_per_sec, &missing)
    };
    context.print(&text)
}

fn configuration<S: Subsystem<Config = ProducerConfig>>(
    arguments: &PlanArguments,
    context: &Context<'_>,
    original: &mut OriginalContext,
) -> Result<ProducerConfig, CommandError> {
    match &arguments.fproducer {
        Some(file) => drop_in::read(file, original).map_err(|error| CommandError::Config(error.to_string())),
        None => context.configuration::<S>(&arguments.config),
    }
}

/// Formats a plan: totals, then a line for each stencil.
fn table(plan: &Plan, secs: u64, jobs_per_sec: u64, missing: &[String]) -> String {
    let Plan { completed_tcn, max_tcn, stencils, jobs, bytes, left_out, unreadable } = plan;
    let mut text = format!(
        "TCN {completed_tcn} of {max_tcn} is complete; {} stencils are left with {jobs} jobs of {bytes} bytes, pushed in {secs} s at {jobs_per_sec} jobs a second\n",
        stencils.len()
    );
    if *left_out > 0 {
        text.push_str(&format!(
            "{left_out} stencils are never pushed: with rootstock 0, or beyond TCN {max_tcn}\n"
        ));
    }
    for document in unreadable {
        text.push_str(&format!("blocks: {}\n", escape_line(document)));
    }
    for keys in missing {
        text.push_str(&format!(
            "missing index: {keys}: each page is a full collection scan; --ensure-indexes creates it\n"
        ));
    }
    let head = ["STENCIL", "TCN", "ROOTSTOCKS", "SCIONS", "STATE", "ROOT PAGES", "SCION PAGES", "JOBS"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(stencils.iter().map(|stencil| {
        let numbers =
            [stencil.tcn, stencil.rootstock_tcn, stencil.scion_tcn, stencil.state].map(|n| n.to_string());
        let counts = [stencil.root_pages, stencil.scion_pages, stencil.jobs].map(|n| n.to_string());
        std::iter::once(escape_line(&stencil.id)).chain(numbers).chain(counts).collect()
    }));
    if rows.len() > 1 {
        text.push_str(&align(&rows, &(1..head.len()).collect::<Vec<_>>()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlannedStencil;

    #[test]
    fn a_table_has_totals_and_each_stencil() {
        let stencil = PlannedStencil {
            id: "57e".to_owned(),
            tcn: 5,
            rootstock_tcn: 2,
            scion_tcn: 3,
            state: 1,
            root_pages: 4,
            scion_pages: 3,
            jobs: 12,
        };
        let plan = Plan {
            completed_tcn: 4,
            max_tcn: 9,
            stencils: vec![stencil],
            left_out: 2,
            unreadable: vec!["stencils x: state is missing".to_owned()],
            jobs: 12,
            bytes: 3_600,
        };
        let expected = "\
TCN 4 of 9 is complete; 1 stencils are left with 12 jobs of 3600 bytes, pushed in 2 s at 10 jobs a second
2 stencils are never pushed: with rootstock 0, or beyond TCN 9
blocks: stencils x: state is missing
missing index: {\"TCN\":1}: each page is a full collection scan; --ensure-indexes creates it
STENCIL  TCN  ROOTSTOCKS  SCIONS  STATE  ROOT PAGES  SCION PAGES  JOBS
57e        5           2       3      1           4            3    12
";
        assert_eq!(table(&plan, 2, 10, &["{\"TCN\":1}".to_owned()]), expected);
    }
}
