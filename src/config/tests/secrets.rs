//! No output shows a password from the configuration: every key with the format `address`, in every layer.

use serde_json::Value;

use super::{
    super::{
        Config, Sources,
        schema::{Rule, Schema, ValueFormat},
    },
    collect_keys,
};

/// Secret that no text may show.
pub(super) const SECRET: &str = "S3CR3T";

/// Valid and malformed addresses with a password.
pub(super) const ADDRESSES: [&str; 12] = [
    "scheme://user:S3CR3T@host",
    "scheme://:S3CR3T@host:1/x",
    "mongodb://user:S3CR3T?x@host",
    "scheme://user:S3CR3T%2F%40@host",
    "scheme://user:S3CR3T%40host",
    "scheme://user:S3CR3T",
    "user:S3CR3T@host:1",
    "host=db user=me password=S3CR3T",
    "host=db password = 'S3CR3T S3CR3T'",
    "scheme://host/?password=S3CR3T",
    "scheme://host/?x=y&p%61ssword=S3CR3T",
    "scheme:/user:S3CR3T/S3CR3T@host",
];

/// A configuration with one entry of every array.
const FILE: &str = r#"
[[ingester]]
name = "i"
[[ingester.stream]]
name = "s"
source = "stins"
upstream_url = "tcp://detector:9999"

[[hook]]
name = "h"
on = "queue.failed"
url = "http://receiver/S3CR3T"

[[catalog]]
name = "lab"
base = "https://h/ermrest/catalog/1"
[[catalog.rule]]
name = "convert"
table = "T"
claim.set.state = "claimed"
"#;

/// Path of a schema key with the entries of `FILE`.
fn with_entries(key: &str) -> String {
    let names = [
        ("ingester", "i"),
        ("ingester.i.stream", "s"),
        ("catalog", "lab"),
        ("catalog.lab.rule", "convert"),
        ("hook", "h"),
    ];
    let mut path = String::new();
    for word in key.split('.') {
        path.push_str(if path.is_empty() { "" } else { "." });
        path.push_str(word);
        if let Some((_, name)) = names.iter().find(|(array, _)| *array == path) {
            path.push_str(&format!(".{name}"));
        }
    }
    path
}

/// All keys with the format `address`, with true for each list.
pub(super) fn addresses() -> Vec<(String, bool)> {
    let schema = Schema::whole();
    let mut all = Vec::new();
    collect_keys("", schema.root(), &mut all);
    let marked = all
        .into_iter()
        .filter(|(_, rule)| matches!(rule.value_format(), Some(ValueFormat::Address | ValueFormat::Webhook)));
    marked.map(|(key, rule)| (with_entries(&key), rule.has_type("array"))).collect()
}

fn sources(sets: &[String], environment: &[(String, String)]) -> (tempfile::NamedTempFile, Sources) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), FILE).unwrap();
    let sources = Sources {
        files: vec![file.path().to_owned()],
        environment: environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        sets: sets.to_vec(),
        only: None,
        ..Sources::default()
    };
    (file, sources)
}

/// Loads `sources` and returns everything that is printed about them: the configuration or the errors.
fn printed(sources: &Sources) -> Result<Vec<String>, Vec<String>> {
    match (Config::load(sources), Config::print_effective(sources)) {
        (Ok(config), Ok(text)) => Ok(vec![text, config.redacted().to_string()]),
        (Err(error), Err(again)) => Err(vec![format!("{error:#}"), format!("{again:?}")]),
        _ => panic!("loading and printing differ"),
    }
}

#[test]
fn a_password_in_any_address_is_refused_and_never_shown() {
    let all = addresses();
    assert!(all.len() >= 15, "{all:?}");
    for address in ADDRESSES {
        let value =
            |list: bool| if list { format!("[\"x\", {}]", Value::from(address)) } else { address.to_owned() };
        let sets: Vec<_> = all.iter().map(|(key, list)| format!("{key}={}", value(*list))).collect();
        let name = |key: &str| format!("ORCHESTRATOR__{}", key.to_ascii_uppercase().replace('.', "__"));
        let environment: Vec<_> = all.iter().map(|(key, list)| (name(key), value(*list))).collect();
        for (sets, environment) in [(sets.as_slice(), [].as_slice()), (&[], &environment)] {
            let (_file, sources) = sources(sets, environment);
            let texts = printed(&sources).expect_err("a password is refused");
            for (key, _) in &all {
                assert!(texts[0].contains(&format!(": {key}: ..: it")), "{key} = {address}: {}", texts[0]);
            }
            assert!(!texts.concat().contains(SECRET), "{address}: {texts:?}");
        }
    }
}

#[test]
fn a_misplaced_password_is_never_shown() {
    for address in ADDRESSES {
        let sets = [
            format!("provenance.amqp.ulr={address}"),
            format!("provenanec.amqp.url={address}"),
            format!("provenance.amqp={address}"),
            format!("provenance={address}"),
            format!("provenance.batch={address}"),
            format!("provenance.ranges={address}"),
            format!("provenance.transport={address}"),
            format!("provenance.amqp.url={{url = {}}}", Value::from(address)),
            format!("provenance.amqp={{ur = {}}}", Value::from(address)),
            format!("provenance.amqp.url=[{}]", Value::from(address)),
            format!("provenance.amqp.url=\"{address}"),
            format!("provenance.amqp.url:{address}"),
            format!("\"{address}\".x=1"),
            format!("catalog.{address}.x=1"),
            format!("catalog.lab.rule.{}.limit=1", Value::from(address)),
            format!("queue.hold_secs={address}"),
            format!("admin.listen={address}"),
            format!("telemetry.format={address}"),
            format!("{address}=1"),
            address.to_owned(),
        ];
        let (_file, wrong) = sources(&sets, &[]);
        let texts = printed(&wrong).expect_err("all are wrong");
        assert!(!texts.concat().contains(SECRET), "{texts:?}");
        assert!(texts[0].lines().count() > sets.len(), "each error is reported: {texts:?}");
        let names =
            ["PROVENANCE__AMQP__ULR", "PROVENANCE__AMQP", "PROVENANCE__BATCH", "PROVENANCE", "ADMIN__CHAOS"];
        let environment = names.map(|name| (format!("ORCHESTRATOR__{name}"), address.to_owned()));
        let (_file, wrong) = sources(&[], &environment);
        let texts = printed(&wrong).expect_err("all are wrong");
        assert!(!texts.concat().contains(SECRET), "{texts:?}");
        assert!(texts[0].lines().count() > names.len(), "each error is reported: {texts:?}");
    }
    for set in
        ["catalog.lab.tokn=S3CR3T", "catalog.lab.token.x=S3CR3T", "catalog.lab.password=S3CR3T", "x.y=S3CR3T"]
    {
        let (_file, sources) = sources(&[set.to_owned()], &[]);
        let texts = printed(&sources).expect_err(set);
        assert!(!texts.concat().contains(SECRET), "{set}: {texts:?}");
    }
}

#[test]
fn an_address_with_a_password_is_refused_in_keys_for_something_else() {
    for key in ["provenance.amqp.url_file", "queue.database", "telemetry.filter"] {
        let (_file, sources) = sources(&[format!("{key}=amqp://user:S3CR3T@host/")], &[]);
        let texts = printed(&sources).expect_err(key);
        assert!(texts[0].contains("looks like an address with a password"), "{texts:?}");
        assert!(!texts.concat().contains(SECRET), "{texts:?}");
    }
}

/// Secrets in headers, arguments, and the query of a webhook's address.
#[test]
fn accepted_secrets_are_never_shown() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let hook = r#"handler = { kind = "http", url = "https://h/S3CR3T/hook?token=S3CR3T", headers = ["X-Key: S3CR3T"] }"#;
    let command = r#"handler = { kind = "command", argv = ["/bin/x", "--password", "S3CR3T", "amqp://u:S3CR3T@h", "-u", "me:S3CR3T", "-H", "Authorization: Bearer S3CR3T", "plain"] }"#;
    for (handler, shown) in [(hook, "https://h/***"), (command, "\"plain\"")] {
        std::fs::write(file.path(), format!("{FILE}{handler}\n")).unwrap();
        let sources = Sources { files: vec![file.path().to_owned()], ..Sources::default() };
        let texts = printed(&sources).unwrap_or_else(|texts| panic!("{texts:?}"));
        for text in texts {
            assert!(text.contains(shown) && !text.contains(SECRET), "{text}");
        }
    }
    for set in [
        r#"catalog.lab.rule.convert.handler={ kind = "http", url = "https://h/", headers = ["X-Key: S3CR3T"] }"#,
        r#"catalog.lab.rule.convert.handler.headers=["X-Key: S3CR3T"]"#,
        r#"catalog.lab.rule.convert.handler.argv=["S3CR3T"]"#,
        "catalog.lab.token=S3CR3T",
    ] {
        let (_file, sources) = sources(&[set.to_owned()], &[]);
        let texts = printed(&sources).unwrap_or_else(|texts| texts).concat();
        assert!(!texts.contains(SECRET), "{set}: {texts}");
    }
}

/// A secret in a file is a warning if all users can read the file.
#[test]
fn a_token_in_a_file_that_others_can_read_is_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let warnings = |text: &str, sets: &[String], mode: u32| {
        let (file, sources) = sources(sets, &[]);
        std::fs::write(file.path(), text).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        (file.path().display().to_string(), Config::load(&sources).unwrap().warnings)
    };
    let with_token = FILE.replace("base =", "token = \"S3CR3T\"\nbase =");
    let (file, shown) = warnings(&with_token, &[], 0o644);
    let text = format!(
        "catalog.token is in {file}, which all users can read: run chmod 600 {file}, or set catalog.token_file"
    );
    assert_eq!(shown, [text]);
    for (text, sets, mode) in [
        (with_token.as_str(), vec![], 0o600),
        (&with_token, vec![], 0o640),
        (FILE, vec![], 0o644),
        (FILE, vec!["catalog.lab.token=S3CR3T".to_owned()], 0o644),
    ] {
        assert_eq!(warnings(text, &sets, mode).1, [""; 0], "{mode:o} {sets:?}");
    }
}

/// Keys that are no addresses, although their names or descriptions mention one.
const NO_ADDRESSES: [&str; 9] = [
    "catalog.agent",
    "catalog.rule.filter",
    "catalog.rule.sort",
    "ingester.name",
    "producer.mongodb.database",
    "producer.queue",
    "provenance.dead_letters",
    "provenance.mongodb.database",
    "provenance.ranges",
];

/// Every key for an address or a secret has the `format` that says so.
#[test]
fn every_address_has_its_format() {
    const WORDS: [&str; 22] = [
        "url",
        "urls",
        "uri",
        "dsn",
        "address",
        "addresses",
        "endpoint",
        "server",
        "servers",
        "host",
        "hosts",
        "broker",
        "redis",
        "amqp",
        "http",
        "https",
        "tcp",
        "upstream",
        "listen",
        "advertise",
        "proxy",
        "faktory",
    ];
    let schema = Schema::whole();
    let mut all = Vec::new();
    collect_keys("", schema.root(), &mut all);
    let texts = |rule: &Rule<'_>| {
        let item = rule.item().is_some_and(|item| item.has_type("string"));
        (rule.has_type("string") || item) && rule.choice().is_none()
    };
    let mut wrong = Vec::new();
    for (key, rule) in all {
        let last = key.rsplit('.').next().unwrap();
        if ["headers", "argv", "env"].contains(&last) {
            assert!(
                matches!(
                    rule.value_format(),
                    Some(ValueFormat::Secret | ValueFormat::Header | ValueFormat::Command)
                ),
                "{key}: the format is missing"
            );
            continue;
        }
        let path = ["_file", "_dir", "_path", "_column"].iter().any(|end| last.ends_with(end));
        if !texts(&rule) || path || rule.value_format().is_some() || NO_ADDRESSES.contains(&key.as_str()) {
            continue;
        }
        let description = rule.keyword("description").and_then(Value::as_str).unwrap_or_default();
        let words = format!("{last} {description}").to_ascii_lowercase();
        let mut words = words.split(|c: char| !c.is_ascii_alphanumeric());
        if words.any(|word| WORDS.contains(&word)) {
            wrong.push(key);
        }
    }
    assert!(wrong.is_empty(), "give these the type Address, or add them to NO_ADDRESSES: {wrong:?}");
}
