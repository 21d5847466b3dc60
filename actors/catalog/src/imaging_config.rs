//! Configuration file of `deriva-imaging-server`, the polling server of
//! informatics-isi-edu/deriva-imaging-pipeline, for `config init`. Its work on one image is a program of the
//! same package, which becomes the handler.

use std::path::Path;

use orchestrator_subsystem::OriginalContext;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::deriva_config::{base, section_name};

/// Variable with the time between two polls, in seconds.
const POLL_SECS: &str = "DERIVA_IMAGING_POLL_SECONDS";
/// That time by default.
const POLL_SECS_DEFAULT: u64 = 300;
/// The server waits for a program without a limit; this is the longest that a handler may have.
const TIMEOUT_SECS: u32 = 604_800;

#[derive(Debug, Deserialize)]
struct ImagingFile {
    deriva_imaging_server: String,
    catalog_number: Value,
    credentials_file: String,
    get_claimable_url: String,
    put_claim_url: String,
    image_processing_status: String,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Translates the text of `file` into the section.
///
/// # Errors
/// The text is not such a file. The error repeats no value.
pub(crate) fn translate(text: &str, file: &Path, context: &mut OriginalContext) -> Result<Value, String> {
    let invalid = |error: serde_json::Error| match error.line() {
        0 => missing(&error),
        line => format!("line {line}: it is no configuration of deriva-imaging-server"),
    };
    // A list of its values would fit the type, too.
    let object: Map<String, Value> = serde_json::from_str(text).map_err(invalid)?;
    let from: ImagingFile = serde_json::from_value(Value::Object(object)).map_err(invalid)?;
    let poll_secs = match context.variable(POLL_SECS) {
        None => POLL_SECS_DEFAULT,
        Some(secs) => {
            let secs = secs.to_str().and_then(|secs| secs.parse().ok());
            secs.ok_or_else(|| format!("{POLL_SECS}: write a number of seconds"))?
        }
    };
    let host = from.deriva_imaging_server;
    let base = base("https", &host, &from.catalog_number).ok_or(
        "deriva_imaging_server, catalog_number: write the name of one host, and the catalog's number",
    )?;
    let status = from.image_processing_status;
    context.warn(
        "credentials_file: it is read for the host; move a cookie at its top level below the name of the host",
    );
    if from.others.contains_key("log") || from.others.contains_key("loglevel") {
        context.warn(
            "log, loglevel: the lines about polls and claims go to standard error, see RUST_LOG; \
             deriva-imaging-client logs to the file as before",
        );
    }
    let file = file.display().to_string();
    Ok(json!([{
        "name": section_name(&host),
        "base": base,
        "credential_file": from.credentials_file,
        "poll_secs": poll_secs,
        "poll_without_notices_secs": poll_secs,
        "rule": [{
            "name": "images",
            "query": from.get_claimable_url,
            "update": from.put_claim_url,
            "key": "RID",
            "limit": 1,
            "claim": {"guard": "if-match", "set": {&status: "in progress"}},
            "handler": {
                "kind": "command",
                "argv": ["deriva-imaging-client", "--config", file, "--rid", "$row.RID"],
                "timeout_secs": TIMEOUT_SECS,
            },
            "fail": {&status: "error"},
        }],
    }]))
}

/// Text about a key that is missing or has the wrong type.
fn missing(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let field = text.strip_prefix("missing field ").unwrap_or("a key of the server");
    format!("{field}: it is no configuration of deriva-imaging-server")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CatalogConfig, check};

    const EXAMPLE: &str = r#"{
        "baseuri": "https://lab.example.org/ermrest/catalog/1", "python": "/usr/bin/python3", "log": "/var/log/imaging.log",
        "loglevel": "debug", "image_processing_status": "processing_status", "original_file_name": "filename",
        "get_claimable_url": "/entity/isa:imaging_data/processing_status=new;processing_status=renew/filename::ciregexp::%5B.%5Dtif%24?limit=1",
        "put_claim_url": "/attributegroup/isa:imaging_data/RID;processing_status",
        "put_update_baseurl": "/attributegroup/isa:imaging_data/RID", "deriva_imaging_server": "lab.example.org",
        "credentials_file": "/home/lab/.deriva/credential.json", "catalog_number": "1"
    }"#;

    fn translated(text: &str, context: &mut OriginalContext) -> Result<Vec<CatalogConfig>, String> {
        translate(text, Path::new("/etc/imaging.json"), context)
            .map(|value| serde_json::from_value(value).unwrap())
    }

    #[test]
    fn claims_work_and_failures_are_taken_over() {
        let mut context = OriginalContext::new([(POLL_SECS.into(), "60".into())]);
        let catalogs = translated(EXAMPLE, &mut context).unwrap();
        assert_eq!(check(&catalogs), Vec::<String>::new());
        let (catalog, rule) = (&catalogs[0], &catalogs[0].rule[0]);
        assert_eq!(catalog.base, "https://lab.example.org/ermrest/catalog/1");
        assert_eq!((catalog.poll_secs, catalog.poll_without_notices_secs), (60.0, 60.0));
        assert_eq!(rule.update.as_deref(), Some("/attributegroup/isa:imaging_data/RID;processing_status"));
        assert_eq!(rule.claim.set["processing_status"], "in progress");
        assert_eq!(rule.fail["processing_status"], "error");
        assert_eq!(rule.handler.argv.expose()[1..4], ["--config", "/etc/imaging.json", "--rid"]);
        assert_eq!(context.take_warnings().len(), 2);
    }

    #[test]
    fn other_files_are_refused_without_their_values() {
        let mut context = OriginalContext::default();
        for (text, named) in [
            ("secret", "line 1"),
            ("[]", "line 1"),
            (r#"{"credentials_file": "secret"}"#, "`deriva_imaging_server`"),
            (&EXAMPLE.replace(r#""lab.example.org""#, r#""u:secret@h""#), "deriva_imaging_server"),
            (&EXAMPLE.replace(r#""1""#, r#"["secret"]"#), "catalog_number"),
        ] {
            let error = translated(text, &mut context).unwrap_err();
            assert!(error.contains(named) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
