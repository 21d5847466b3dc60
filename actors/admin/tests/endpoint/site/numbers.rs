//! Exports of the test tree: lines with numbers.

use std::{collections::BTreeMap, sync::Mutex};

use futures_util::{StreamExt, stream};
use orchestrator_subsystem::{ConsoleError, ExportPages, Exports};

/// Lines of a page.
pub(super) const LINES: u64 = 1_000;

/// Pages read by each reader, by its name.
static READ: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Number of pages that the export of the argument `reader=NAME` has read.
pub(crate) fn pages_read(reader: &str) -> u64 {
    READ.lock().unwrap().get(reader).copied().unwrap_or_default()
}

/// The export `numbers` with the arguments `reader`, `pages`, and `fail` or `hang` for a page that fails or
/// never comes.
pub(super) fn exports() -> Exports {
    Exports::new(|name, args| {
        if name != "numbers" {
            return Err(ConsoleError::UnknownVerb("numbers".to_owned()));
        }
        let arg = |name: &str| args.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
        let number = |name: &str| {
            let invalid = |_| ConsoleError::BadArguments(format!("`{name}` is not a number"));
            arg(name).map(|text| text.parse::<u64>().map_err(invalid)).transpose()
        };
        let pages =
            number("pages")?.ok_or_else(|| ConsoleError::BadArguments("`pages` is missing".to_owned()))?;
        Ok(read(arg("reader").unwrap_or_default(), pages, number("fail")?, number("hang")?))
    })
}

fn read(reader: String, pages: u64, fail: Option<u64>, hang: Option<u64>) -> ExportPages {
    let page = move |page: u64| {
        let reader = reader.clone();
        async move {
            *READ.lock().unwrap().entry(reader).or_default() += 1;
            if fail == Some(page) {
                return Err(ConsoleError::Refused("the store is away".to_owned()));
            }
            if hang == Some(page) {
                std::future::pending::<()>().await;
            }
            Ok((page * LINES..(page + 1) * LINES).map(|n| format!("{{\"n\":{n}}}\n")).collect())
        }
    };
    stream::iter(0..pages).then(page).boxed()
}
