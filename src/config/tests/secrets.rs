//! No password comes out of a configuration: every key that the schema marks as an address, through every layer.

use serde_json::Value;

use super::{
    super::{
        Config, Sources,
        schema::{Mark, Rule, Schema},
    },
    gather,
};

/// Secret that no text may show.
pub(super) const SECRET: &str = "S3CR3T";

/// Addresses with a password, sound and malformed.
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

/// One entry of everything that has entries.
const FILE: &str = r#"
[[ingester]]
name = "i"
[[ingester.stream]]
name = "s"
source = "stins"
upstream_url = "tcp://detector:9999"

[[catalog]]
name = "lab"
base = "https://h/ermrest/catalog/1"
[[catalog.rule]]
name = "convert"
table = "T"
claim.set.state = "claimed"
"#;

/// Path of a key of the schema, with the entries of `FILE`.
fn with_entries(key: &str) -> String {
    let names =
        [("ingester", "i"), ("ingester.i.stream", "s"), ("catalog", "lab"), ("catalog.lab.rule", "convert")];
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

/// All keys that are addresses, and whether each is a list of them.
pub(super) fn addresses() -> Vec<(String, bool)> {
    let schema = Schema::whole();
    let mut all = Vec::new();
    gather("", schema.root(), &mut all);
    let marked = all.into_iter().filter(|(_, rule)| rule.mark() == Some(Mark::Address));
    marked.map(|(key, rule)| (with_entries(&key), rule.wants("array"))).collect()
}

fn sources(sets: &[String], environment: &[(String, String)]) -> (tempfile::NamedTempFile, Sources) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), FILE).unwrap();
    let sources = Sources {
        files: vec![file.path().to_owned()],
        environment: environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        sets: sets.to_vec(),
        only: None,
    };
    (file, sources)
}

/// All that is printed about `sources`.
fn told(sources: &Sources) -> Result<Vec<String>, Vec<String>> {
    match (Config::load(sources), Config::explained(sources)) {
        (Ok(config), Ok(printed)) => Ok(vec![printed, config.redacted().to_string()]),
        (Err(error), Err(again)) => Err(vec![format!("{error:#}"), format!("{again:?}")]),
        _ => panic!("they judge alike"),
    }
}

#[test]
fn a_password_in_any_address_is_refused_and_told_by_none() {
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
            let texts = told(&sources).expect_err("a password is refused");
            for (key, _) in &all {
                assert!(texts[0].contains(&format!(": {key}: ..: it")), "{key} = {address}: {}", texts[0]);
            }
            assert!(!texts.concat().contains(SECRET), "{address}: {texts:?}");
        }
    }
}

/// Where an address with a password may end up by mistake.
#[test]
fn a_slip_of_the_hand_shows_no_password() {
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
        let texts = told(&wrong).expect_err("all are wrong");
        assert!(!texts.concat().contains(SECRET), "{texts:?}");
        assert!(texts[0].lines().count() > sets.len(), "each is told: {texts:?}");
        let names =
            ["PROVENANCE__AMQP__ULR", "PROVENANCE__AMQP", "PROVENANCE__BATCH", "PROVENANCE", "ADMIN__CHAOS"];
        let environment = names.map(|name| (format!("ORCHESTRATOR__{name}"), address.to_owned()));
        let (_file, wrong) = sources(&[], &environment);
        let texts = told(&wrong).expect_err("all are wrong");
        assert!(!texts.concat().contains(SECRET), "{texts:?}");
        assert!(texts[0].lines().count() > names.len(), "each is told: {texts:?}");
    }
    for set in
        ["catalog.lab.tokn=S3CR3T", "catalog.lab.token.x=S3CR3T", "catalog.lab.password=S3CR3T", "x.y=S3CR3T"]
    {
        let (_file, sources) = sources(&[set.to_owned()], &[]);
        let texts = told(&sources).expect_err(set);
        assert!(!texts.concat().contains(SECRET), "{set}: {texts:?}");
    }
}

/// An address with a password in the key for the file that should hold it, for one.
#[test]
fn an_address_with_a_password_is_refused_where_none_belongs() {
    for key in ["provenance.amqp.url_file", "queue.database", "telemetry.filter"] {
        let (_file, sources) = sources(&[format!("{key}=amqp://user:S3CR3T@host/")], &[]);
        let texts = told(&sources).expect_err(key);
        assert!(texts[0].contains("looks like an address with a password"), "{texts:?}");
        assert!(!texts.concat().contains(SECRET), "{texts:?}");
    }
}

/// Values that are accepted all the same: headers, arguments, and the query of a webhook's address.
#[test]
fn what_may_be_secret_is_taken_and_not_shown() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let hook =
        r#"handler = { kind = "http", url = "https://h/hook?token=S3CR3T", headers = ["X-Key: S3CR3T"] }"#;
    let command = r#"handler = { kind = "command", argv = ["/bin/x", "--password", "S3CR3T", "amqp://u:S3CR3T@h", "plain"] }"#;
    for (handler, shown) in [(hook, "https://h/hook?***"), (command, "\"plain\"")] {
        std::fs::write(file.path(), format!("{FILE}{handler}\n")).unwrap();
        let sources = Sources { files: vec![file.path().to_owned()], ..Sources::default() };
        let texts = told(&sources).unwrap_or_else(|texts| panic!("{texts:?}"));
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
        let texts = told(&sources).unwrap_or_else(|texts| texts).concat();
        assert!(!texts.contains(SECRET), "{set}: {texts}");
    }
}

/// Keys whose names or descriptions speak of addresses and that are none.
const NO_ADDRESSES: [&str; 8] = [
    "catalog.agent",
    "catalog.rule.filter",
    "catalog.rule.sort",
    "ingester.name",
    "producer.mongodb.database",
    "provenance.dead_letters",
    "provenance.mongodb.database",
    "provenance.ranges",
];

/// A key that is an address, a secret, or may hold one has the mark: `format` in its section's type.
#[test]
fn every_address_has_its_mark() {
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
    gather("", schema.root(), &mut all);
    let texts = |rule: &Rule<'_>| {
        let item = rule.item().is_some_and(|item| item.wants("string"));
        (rule.wants("string") || item) && rule.choice().is_none()
    };
    let mut wrong = Vec::new();
    for (key, rule) in all {
        let last = key.rsplit('.').next().unwrap();
        if ["headers", "argv", "env"].contains(&last) {
            assert!(
                matches!(rule.mark(), Some(Mark::Secret | Mark::Header | Mark::Command)),
                "{key}: how is it shown?"
            );
            continue;
        }
        let path = ["_file", "_dir", "_path", "_column"].iter().any(|end| last.ends_with(end));
        if !texts(&rule) || path || rule.mark().is_some() || NO_ADDRESSES.contains(&key.as_str()) {
            continue;
        }
        let description = rule.says("description").and_then(Value::as_str).unwrap_or_default();
        let words = format!("{last} {description}").to_ascii_lowercase();
        let mut words = words.split(|c: char| !c.is_ascii_alphanumeric());
        if words.any(|word| WORDS.contains(&word)) {
            wrong.push(key);
        }
    }
    assert!(
        wrong.is_empty(),
        "give these #[schemars(extend(\"format\" = \"address\"))], or add them to NO_ADDRESSES: {wrong:?}"
    );
}
