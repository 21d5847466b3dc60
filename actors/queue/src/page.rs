//! Page about a [`Listing`]: one HTML file with style, script and data, which loads nothing.

use std::io::{self, Write};

use orchestrator_queue_rules::listing::{Listing, LogUrl};
use orchestrator_subsystem::text;
use serde::Serialize;

const PAGE: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/page.css");
const SCRIPT: &str = include_str!("../page/page.js");

/// Columns of a row of data. The script takes their order from here.
const COLUMNS: [&str; 9] =
    ["attr_path", "fetcher", "payload", "state", "position", "started", "finished", "exit_code", "attempts"];

/// Data except the rows, which are written one by one.
#[derive(Serialize)]
struct Head<'a> {
    columns: [&'static str; 9],
    secs_per_job: Option<f64>,
    log_url: Option<&'a str>,
    fetchers: &'a [String],
}

/// Writes the page.
///
/// # Errors
/// `out` fails.
pub(crate) fn write(listing: &Listing, log_url: Option<&LogUrl>, out: &mut dyn Write) -> io::Result<()> {
    let mut rest = PAGE;
    while let Some((before, name, behind)) = next_placeholder(rest) {
        out.write_all(before.as_bytes())?;
        match name {
            "style" => out.write_all(STYLE.as_bytes())?,
            "script" => out.write_all(SCRIPT.as_bytes())?,
            "summary" => out.write_all(summary(listing).as_bytes())?,
            _ => write_data(listing, log_url, out)?,
        }
        rest = behind;
    }
    out.write_all(rest.as_bytes())
}

/// Splits a text around its first `{{name}}`.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (name, behind) = rest.split_once("}}")?;
    Some((before, name, behind))
}

/// Text without characters that HTML escapes.
fn summary(listing: &Listing) -> String {
    let counts = listing.counts;
    let pace = match listing.pace.secs_per_job() {
        _ if listing.paused => " Hand-outs are paused.".to_owned(),
        Some(secs) => format!(" One job was handed out every {secs:.1} s in the last hours."),
        None => String::new(),
    };
    let cut = if listing.is_cut {
        format!(" Only {} jobs are listed.", listing.groups.len())
    } else {
        String::new()
    };
    format!(
        "As of {}. Waiting jobs: {}, of which {} wait for a job of the same attribute path. Jobs in progress: {}.{pace}{cut}",
        text::time_of(listing.at),
        counts.ready,
        counts.held,
        counts.in_flight,
    )
}

fn write_data(listing: &Listing, log_url: Option<&LogUrl>, out: &mut dyn Write) -> io::Result<()> {
    let head = json(&Head {
        columns: COLUMNS,
        secs_per_job: listing.pace.secs_per_job().filter(|_| !listing.paused),
        log_url: log_url.map(|url| url.as_str()),
        fetchers: &listing.fetchers,
    })?;
    out.write_all(head.trim_end_matches('}').as_bytes())?;
    out.write_all(b",\"rows\":[")?;
    for (i, group) in listing.groups.iter().enumerate() {
        if i > 0 {
            out.write_all(b",\n")?;
        }
        let last = group.last;
        let row = json(&(
            &group.attr_path,
            group.fetcher,
            &group.payload,
            group.state as u8,
            group.position,
            last.map(|log| log.started),
            last.and_then(|log| log.finished),
            last.and_then(|log| log.exit_code),
            group.attempts,
        ))?;
        out.write_all(row.as_bytes())?;
    }
    out.write_all(b"]}")
}

/// The text ends no element and begins no comment of HTML.
fn json(value: &impl Serialize) -> io::Result<String> {
    Ok(serde_json::to_string(value)?.replace('<', "\\u003c"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use orchestrator_queue_rules::{
        listing::{GroupState, ListedGroup, Pace},
        storage::{Counts, LogRow},
    };
    use serde_json::{Value, json};

    fn listing(attr_path: &str) -> Listing {
        let group = ListedGroup {
            attr_path: attr_path.to_owned(),
            fetcher: 0,
            payload: "{{style}} </script> <!-- & \u{2028}\0".to_owned(),
            state: GroupState::Waiting,
            position: Some(1),
            last: Some(LogRow { started: 5, finished: Some(9), exit_code: Some(-3) }),
            attempts: 2,
        };
        Listing {
            at: 0,
            paused: false,
            counts: Counts { ready: 7, held: 2, in_flight: 3, ..Counts::default() },
            pace: Pace { handed_out: 10, secs: 25 },
            fetchers: vec!["</script>".to_owned()],
            groups: vec![group.clone(), group],
            is_cut: false,
        }
    }

    fn page(listing: &Listing, log_url: Option<&str>) -> String {
        let url = log_url.map(|url| url.parse().unwrap());
        let mut page = Vec::new();
        write(listing, url.as_ref(), &mut page).unwrap();
        String::from_utf8(page).unwrap()
    }

    fn data(page: &str) -> Value {
        let (_, rest) = page.split_once("id=\"data\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn foreign_text_stays_data() {
        let attr_path = "</script><script>alert(1)</script>{{data}}";
        let listing = listing(attr_path);
        let page = page(&listing, Some("https://x/{attr_path}?<"));
        // Those of the page itself.
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(!page.contains("<!--"));
        let data = data(&page);
        let row = json!([attr_path, 0, listing.groups[0].payload, 0, 1, 5, 9, -3, 2]);
        assert_eq!(data["rows"], json!([row, row]));
        assert_eq!(
            (&data["fetchers"], &data["log_url"]),
            (&json!(["</script>"]), &json!("https://x/{attr_path}?<"))
        );
    }

    #[test]
    fn totals_are_there_without_a_script() {
        let mut listing = listing("a");
        let text = "As of 1970-01-01T00:00:00Z. Waiting jobs: 7, of which 2 wait for a job of the same attribute path. \
                    Jobs in progress: 3.";
        let paced = page(&listing, None);
        assert!(paced.contains(&format!("{text} One job was handed out every 2.5 s in the last hours.</p>")));
        assert_eq!((&data(&paced)["secs_per_job"], &data(&paced)["log_url"]), (&json!(2.5), &Value::Null));
        listing.paused = true;
        listing.is_cut = true;
        let paused = page(&listing, None);
        assert!(paused.contains(&format!("{text} Hand-outs are paused. Only 2 jobs are listed.</p>")));
        assert_eq!(data(&paused)["secs_per_job"], Value::Null);
    }
}
