//! The pictures of the pages show the console of today: each was made from the files that it shows.

use std::{collections::BTreeSet, fs, path::Path};

use orchestrator_harness::Picture;

#[test]
fn each_picture_was_made_from_the_files_of_today() {
    let listed = Picture::all();
    let old: Vec<_> =
        listed.iter().filter(|one| one.hash != one.hash_now()).map(|one| one.path.as_str()).collect();
    assert!(old.is_empty(), "{old:?} show an earlier console: ./tests/run --full pictures, and look at them");

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("images");
    let names = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut pictures: BTreeSet<_> =
        names.map(|name| format!("images/{}", name.to_str().expect("UTF-8"))).collect();
    pictures.remove("images/SOURCES");
    assert_eq!(listed.into_iter().map(|one| one.path).collect::<BTreeSet<_>>(), pictures);
}
