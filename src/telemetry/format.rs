//! Formats of a log line: text and JSON. Every value is escaped and limited by [`sanitize`].

use std::fmt::{self, Debug};

use orchestrator_text::sanitize;
use serde::ser::{SerializeMap, Serializer as _};
use serde_json::Value;
use tracing::{Event, Subscriber, field::Field, field::Visit};
use tracing_subscriber::{
    field::MakeExt,
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::{JsonFields, Writer, debug_fn},
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

/// Name of the field with the event's message.
const MESSAGE: &str = "message";

/// Field formatter of the text format: the message, then ` name=value` for each field.
pub(super) fn text_fields() -> impl for<'a> FormatFields<'a> + Send + Sync + 'static {
    let field = |writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        let value = sanitize(format!("{value:?}"));
        match field.name() {
            MESSAGE => writer.write_str(&value),
            name => write!(writer, "{name}={value}"),
        }
    };
    debug_fn(field).delimited(" ")
}

/// The JSON format: one object a line with timestamp, level, the event's fields, target, and the span, whose
/// `path` is the child's.
pub(super) struct Json;

impl<S> FormatEvent<S, JsonFields> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        cx: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let span = event.parent().and_then(|id| cx.span(id)).or_else(|| cx.lookup_current());
        let span = span.and_then(|span| {
            let fields = span.extensions().get::<FormattedFields<JsonFields>>()?.fields.clone();
            let mut fields: Value = serde_json::from_str(&fields).ok()?;
            fields.as_object_mut()?.insert("name".to_owned(), span.name().into());
            Some(fields)
        });
        let mut line = Vec::new();
        let mut write = || {
            let mut serializer = serde_json::Serializer::new(&mut line);
            let mut map = serializer.serialize_map(None)?;
            map.serialize_entry("timestamp", &timestamp)?;
            map.serialize_entry("level", event.metadata().level().as_str())?;
            let mut fields = Fields { map: &mut map, result: Ok(()) };
            event.record(&mut fields);
            fields.result?;
            map.serialize_entry("target", event.metadata().target())?;
            if let Some(span) = &span {
                map.serialize_entry("span", span)?;
            }
            map.end()
        };
        write().map_err(|_: serde_json::Error| fmt::Error)?;
        writeln!(writer, "{}", String::from_utf8_lossy(&line))
    }
}

/// Writes an event's fields into a map until the first error.
struct Fields<'a, M: SerializeMap> {
    map: &'a mut M,
    result: Result<(), M::Error>,
}

impl<M: SerializeMap> Fields<'_, M> {
    fn entry(&mut self, field: &Field, value: &impl serde::Serialize) {
        if self.result.is_ok() {
            self.result = self.map.serialize_entry(field.name(), value);
        }
    }
}

impl<M: SerializeMap> Visit for Fields<'_, M> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.entry(field, &sanitize(format!("{value:?}")));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.entry(field, &sanitize(value));
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.entry(field, &value);
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.entry(field, &value);
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.entry(field, &value);
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.entry(field, &value);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::{Layer, Registry, layer::SubscriberExt};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Logs a hostile name in each kind of field and returns the output.
    fn logged(layer: impl FnOnce(Lines) -> Box<dyn Layer<Registry> + Send + Sync>) -> String {
        let lines = Lines::default();
        tracing::subscriber::with_default(Registry::default().with(layer(lines.clone())), || {
            let span = tracing::error_span!("child", path = "orchestrator/queue");
            let name = "a\n2026-01-01T00:00:00Z ERROR forged \u{1b}[2J\u{202e}\u{9b}";
            let long = "x".repeat(3_000_000);
            span.in_scope(|| {
                tracing::warn!(%name, path = ?name, plain = name, %long, n = 7, "received {name}");
            });
        });
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).expect("UTF-8")
    }

    fn check(text: &str) {
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!text.trim_end().chars().any(orchestrator_text::is_escaped), "{text}");
        assert!(text.contains("forged") && text.contains("bytes left out"), "{text}");
        assert!(text.len() < 3_000, "{} bytes", text.len());
    }

    #[test]
    fn a_field_is_escaped_and_limited_in_text() {
        let text = logged(|lines| {
            let writer = move || lines.clone();
            let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
            layer.fmt_fields(text_fields()).boxed()
        });
        check(&text);
        assert!(text.contains(r"received a\n2026") && text.contains("n=7"), "{text}");
        assert!(text.contains("child{path=\"orchestrator/queue\"}"), "{text}");
    }

    #[test]
    fn a_field_is_escaped_and_limited_in_json() {
        let text = logged(|lines| {
            let writer = move || lines.clone();
            let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
            layer.fmt_fields(JsonFields::new()).event_format(Json).boxed()
        });
        check(&text);
        let line: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&line["n"], &line["level"]), (&7.into(), &"WARN".into()));
        assert_eq!(line["span"]["path"], "orchestrator/queue");
        assert!(line["message"].as_str().unwrap().starts_with(r"received a\n2026"), "{text}");
        assert!(line["timestamp"].is_string() && line["target"].is_string(), "{text}");
    }
}
