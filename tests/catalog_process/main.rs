//! Catalogs in the real binary, with a stand-in for ERMrest and a real broker.

mod agents;
/// Judges a number that depends on the load: `tests/run` runs these one at a time, after all others.
mod alone {
    mod sharing;
}
mod faults;
mod hooks;
mod jobs;
mod moving;
mod notify_only;
mod plan;
mod polling;
mod rules;
mod session;
mod why;

const PAGE: &str = include_str!("../../actors/catalog/README.md");

/// Code blocks without their fences.
fn page_blocks(heading: &str) -> Vec<&'static str> {
    let (_, section) = PAGE.split_once(heading).expect("the section");
    let section = section.split("\n#").next().expect("its end");
    section.split("```").skip(1).step_by(2).filter_map(|block| Some(block.split_once('\n')?.1)).collect()
}
