//! Completions in the configuration document: `orchestrator.tcn_started`, and `orchestrator.completions` by
//! id (CONTRACT SD13).

use mongodb::bson::{Bson, Document, doc};

use super::{DocumentReader, long, number};
use orchestrator_producer_rules::stencil::InvalidDocument;

use crate::completion::{Completion, CompletionId, CompletionState, TcnStart};

pub(in super::super) fn completion_key(id: CompletionId) -> String {
    format!("orchestrator.completions.{id}")
}

pub(in super::super) fn completion(completion: &Completion) -> Document {
    let Completion { id: _, tcn, stencils, jobs, started_ms, completed_ms } = completion;
    doc! {
        "tcn": number(*tcn),
        "stencils": long(*stencils),
        "jobs": long(*jobs),
        "started_ms": started_ms.map_or(Bson::Null, Bson::Int64),
        "completed_ms": completed_ms,
    }
}

/// Reads the start of the latest TCN, and the completions in the order of the document, where MongoDB adds
/// each at the end. Their times have another order if the clock went back.
pub(in super::super) fn completion_state(
    collection: &str,
    found: &Document,
) -> Result<CompletionState, InvalidDocument> {
    let reader = DocumentReader { collection, whole: found };
    let Some(ours) = reader.part(found, "orchestrator")? else { return Ok(CompletionState::default()) };
    let started = match reader.part(ours, "orchestrator.tcn_started")? {
        None => None,
        Some(part) => Some(TcnStart {
            tcn: reader.integer(part, "orchestrator.tcn_started.tcn")?,
            ms: reader.integer(part, "orchestrator.tcn_started.ms")?,
        }),
    };
    let mut undelivered = Vec::new();
    for (id, part) in reader.part(ours, "orchestrator.completions")?.into_iter().flatten() {
        undelivered.push(read_completion(&reader, id, part)?);
    }
    Ok(CompletionState { started, undelivered })
}

fn read_completion(
    reader: &DocumentReader<'_>,
    id: &str,
    part: &Bson,
) -> Result<Completion, InvalidDocument> {
    const FIELD: &str = "orchestrator.completions";
    let invalid = |wanted| reader.invalid(FIELD, Some(part), wanted);
    let id = CompletionId::parse(id).ok_or_else(|| invalid("a table by ids of 32 hexadecimal digits"))?;
    let part = part.as_document().ok_or_else(|| invalid("a table of documents"))?;
    Ok(Completion {
        id,
        tcn: reader.integer(part, "orchestrator.completions.tcn")?,
        stencils: reader.natural(part, "orchestrator.completions.stencils")?,
        jobs: reader.natural(part, "orchestrator.completions.jobs")?,
        started_ms: match part.get("started_ms") {
            None | Some(Bson::Null) => None,
            Some(_) => Some(reader.integer(part, "orchestrator.completions.started_ms")?),
        },
        completed_ms: reader.integer(part, "orchestrator.completions.completed_ms")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_read_in_the_order_in_which_they_were_written() {
        let id = CompletionId::random();
        let first = Completion { id, tcn: 7, stencils: 2, jobs: 9, started_ms: None, completed_ms: 30 };
        let second = Completion {
            id: CompletionId::random(),
            tcn: 8,
            started_ms: Some(10),
            completed_ms: 25,
            ..first
        };
        // The clock went back between them.
        let written = doc! { id.to_string(): completion(&first), second.id.to_string(): completion(&second) };
        let found = doc! {
            "_id": "config",
            "orchestrator": { "tcn_started": { "tcn": 8, "ms": 12_i64 }, "completions": written },
        };
        let state = completion_state("stencils", &found).unwrap();
        assert_eq!(state.started, Some(TcnStart { tcn: 8, ms: 12 }));
        assert_eq!(state.undelivered, [first, second]);
        assert_eq!(completion_key(id), format!("orchestrator.completions.{id}"));
        assert_eq!(
            completion_state("stencils", &doc! { "_id": "config" }).unwrap(),
            CompletionState::default()
        );
    }

    #[test]
    fn an_invalid_completion_is_named_by_field() {
        let valid =
            doc! { "tcn": 1, "stencils": 1_i64, "jobs": 1_i64, "started_ms": 1_i64, "completed_ms": 1_i64 };
        let id = CompletionId::random().to_string();
        let with = |key: &str, value: Bson| {
            let mut part = valid.clone();
            part.insert(key, value);
            doc! { id.clone(): part }
        };
        for (completions, field) in [
            (doc! { "short": valid.clone() }, "orchestrator.completions"),
            (doc! { id.clone(): 7 }, "orchestrator.completions"),
            (with("tcn", Bson::Double(1.5)), "orchestrator.completions.tcn"),
            (with("jobs", Bson::Int64(-1)), "orchestrator.completions.jobs"),
            (with("started_ms", Bson::String("x".to_owned())), "orchestrator.completions.started_ms"),
        ] {
            let found = doc! { "_id": "config", "orchestrator": { "completions": completions } };
            assert_eq!(completion_state("stencils", &found).unwrap_err().field, field);
        }
    }
}
