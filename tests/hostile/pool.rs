//! Runs cells concurrently, several per processor because they mostly wait. One that exceeds nothing but
//! limits of durations is run again, alone.

use std::{
    any::Any,
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError},
    thread,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    behaviour::Behaviour,
    cell,
    edge::{Build, Cells, Plan},
    edges::broker,
    measured::Violation,
    reference,
};

/// Concurrent cells per processor.
const CELLS_PER_PROCESSOR: usize = 3;

type Key = (&'static str, Behaviour);
type Cell = (&'static str, Behaviour, Build);

#[derive(Default)]
struct Results {
    found: Mutex<HashMap<Key, Result<(), Violation>>>,
    more: Condvar,
}

impl Results {
    fn add(&self, (edge, behaviour, _): &Cell, result: Result<(), Violation>) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).insert((edge, *behaviour), result);
        self.more.notify_all();
    }
}

/// Waits for the result of a cell. The first call starts all cells that the command line selects.
///
/// # Panics
/// If a limit is violated.
pub(crate) fn result_of(edge: &'static str, behaviour: Behaviour, edges: &'static [Cells]) {
    static RESULTS: OnceLock<Arc<Results>> = OnceLock::new();
    let results = RESULTS.get_or_init(|| start(edges));
    let mut found = results.found.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(result) = found.remove(&(edge, behaviour)) {
            drop(found);
            if let Err(violation) = result {
                panic!("{edge} {behaviour}: {}", violation.text);
            }
            return;
        }
        found = results.more.wait(found).unwrap_or_else(PoisonError::into_inner);
    }
}

fn start(edges: &'static [Cells]) -> Arc<Results> {
    // Floods need many descriptors.
    let limit: Rlimit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("up to the hard limit");
    // Cells side by side are of different edges: some of them have much larger trees than others.
    let all = Behaviour::OF_SERVERS.into_iter().chain([Behaviour::MisusesLogin]).flat_map(|behaviour| {
        let edges = edges.iter().filter(move |(_, _, behaviours)| behaviours.contains(&behaviour));
        edges.map(move |(edge, build, _)| (*edge, behaviour, *build))
    });
    reference::prepare();
    let mut selected: Vec<_> = all.filter(|(edge, behaviour, _)| is_selected(edge, *behaviour)).collect();
    if selected.iter().any(|(edge, ..)| broker::EDGES.contains(edge)) {
        thread::spawn(broker::prepare);
    }
    selected.reverse();
    let results = Arc::new(Results::default());
    let found = results.clone();
    thread::spawn(move || run(selected, &found));
    results
}

/// Runs the cells, the last one first.
fn run(cells: Vec<Cell>, results: &Results) {
    let (left, late) = (Mutex::new(cells), Mutex::new(Vec::new()));
    let processors = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..processors * CELLS_PER_PROCESSOR {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some(cell) = next else { return };
                    match measured(&cell, false) {
                        Err(violation) if violation.is_late => {
                            late.lock().unwrap_or_else(PoisonError::into_inner).push((cell, violation));
                        }
                        result => results.add(&cell, result),
                    }
                }
            });
        }
    });
    for (cell, violation) in late.into_inner().unwrap_or_else(PoisonError::into_inner) {
        eprintln!("{} {}: again, alone, after: {}", cell.0, cell.1, violation.text);
        results.add(&cell, measured(&cell, true));
    }
}

/// Runs a cell.
fn measured((edge, behaviour, build): &Cell, is_again: bool) -> Result<(), Violation> {
    let plan = Plan { edge, behaviour: *behaviour, is_again, directory: PathBuf::new() };
    let ran = catch_unwind(AssertUnwindSafe(|| cell::run(plan, *build)));
    let measured = ran.unwrap_or_else(|panic| Err(Violation::lasting(text_of(&*panic))))?;
    eprintln!("{edge} {behaviour}: {measured}");
    Ok(())
}

/// Selects by the rules of Rust's test runner.
fn is_selected(edge: &str, behaviour: Behaviour) -> bool {
    let name = format!("{edge}::{behaviour}");
    let (mut filters, mut skipped, mut exact) = (Vec::new(), Vec::new(), false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--exact" => exact = true,
            "--skip" => skipped.extend(arguments.next()),
            "--test-threads" | "--format" | "--color" | "--logfile" | "-Z" => drop(arguments.next()),
            flag if flag.starts_with('-') => {}
            _ => filters.push(argument),
        }
    }
    let matches = |filter: &String| if exact { name == *filter } else { name.contains(filter.as_str()) };
    (filters.is_empty() || filters.iter().any(matches)) && !skipped.iter().any(matches)
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic".to_owned())
}
