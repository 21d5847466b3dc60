//! The lines of the list: as a tree with folded branches or flat, filtered and sorted. No I/O.

use std::{collections::BTreeMap, iter::Peekable, slice::Iter};

use orchestrator_subsystem::wire::NodeSnapshot;
use orchestrator_supervise::without_root;

use crate::cli::top::rows::{Row, Sort};

/// Number of children from which a branch is folded at first, as pools are.
const FOLD_FROM: usize = 24;

/// Form of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Children below their supervisors, and peers below their child.
    Tree,
    /// Children with their paths, without peers.
    Flat,
}

/// Mark before the name of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    /// There is nothing below.
    Leaf,
    Open,
    /// The values include those of the hidden lines.
    Folded,
}

/// One line of the list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) row: Row,
    pub(super) name: String,
    /// Number of ancestors in the list.
    pub(super) level: usize,
    pub(super) fold: Fold,
}

/// Selection and order of the lines.
#[derive(Debug, Clone)]
pub(super) struct Listing {
    pub(super) form: Form,
    pub(super) sort: Sort,
    /// Words that a line contains, or one of its descendants in a tree. Case does not matter.
    pub(super) filter: String,
    /// Branches that were folded or opened by a key.
    folds: BTreeMap<String, bool>,
}

/// A line with the lines below it.
struct Branch {
    line: Line,
    /// Values of the line and all lines below it.
    total: Row,
    below: Vec<Branch>,
}

impl Listing {
    pub(super) fn new(sort: Sort, filter: String) -> Self {
        Self { form: Form::Tree, sort, filter, folds: BTreeMap::new() }
    }

    /// Folds or opens the branch of a line.
    pub(super) fn set_folded(&mut self, line: &Line, folded: bool) {
        if line.fold != Fold::Leaf {
            self.folds.insert(line.row.path.clone(), folded);
        }
    }

    /// `rows` are the rows of the tree in its order.
    pub(super) fn lines(&self, root: &NodeSnapshot, rows: &[Row]) -> Vec<Line> {
        let words: Vec<String> = self.filter.to_lowercase().split_whitespace().map(str::to_owned).collect();
        let mut lines = Vec::new();
        match (self.form, self.branch(root, &mut rows.iter().peekable(), 0, &words)) {
            (_, None) => {}
            (Form::Tree, Some(branch)) => branch.flatten(&mut lines),
            (Form::Flat, Some(_)) => {
                let mut rows = rows.iter().filter(|row| row.peer.is_none());
                root.walk(&mut |node| lines.extend(rows.next().and_then(|row| flat(node, row, &words))));
                lines.sort_by(|a, b| self.sort.compare(&a.row, &b.row));
            }
        }
        lines
    }

    /// None if the filter removes the whole branch. Takes the rows of the branch from `rows` in any case.
    fn branch(
        &self,
        node: &NodeSnapshot,
        rows: &mut Peekable<Iter<'_, Row>>,
        level: usize,
        words: &[String],
    ) -> Option<Branch> {
        let row = rows.next()?;
        let mut below = Vec::new();
        while let Some(peer) = rows.next_if(|row| row.peer.is_some()) {
            below.extend(self::peer(node, peer, level + 1, words));
        }
        for child in &node.children {
            below.extend(self.branch(child, rows, level + 1, words));
        }
        if below.is_empty() && !contains(&text(node, row), words) {
            return None;
        }
        below.sort_by(|a, b| self.sort.compare(&a.total, &b.total));
        let mut total = row.clone();
        below.iter().for_each(|branch| total.add(&branch.total));
        let fold = match below.len() {
            0 => Fold::Leaf,
            // A filter shows every match.
            _ if words.is_empty() && self.is_folded(node) => Fold::Folded,
            _ => Fold::Open,
        };
        let row = if fold == Fold::Folded { &total } else { row }.clone();
        if fold == Fold::Folded {
            below.clear();
        }
        let label = node.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
        let name = if level == 0 { &node.path } else { &node.id };
        Some(Branch { line: Line { row, name: format!("{name}{label}"), level, fold }, total, below })
    }

    fn is_folded(&self, node: &NodeSnapshot) -> bool {
        let is_large = node.kind == "pool" || node.children.len() >= FOLD_FROM;
        self.folds.get(&node.path).copied().unwrap_or(is_large)
    }
}

impl Branch {
    fn flatten(self, lines: &mut Vec<Line>) {
        lines.push(self.line);
        self.below.into_iter().for_each(|branch| branch.flatten(lines));
    }
}

fn peer(node: &NodeSnapshot, row: &Row, level: usize, words: &[String]) -> Option<Branch> {
    let name = row.peer.clone()?;
    contains(&text(node, row), words).then(|| Branch {
        line: Line { row: row.clone(), name, level, fold: Fold::Leaf },
        total: row.clone(),
        below: Vec::new(),
    })
}

fn flat(node: &NodeSnapshot, row: &Row, words: &[String]) -> Option<Line> {
    let name = without_root(&node.path).to_owned();
    contains(&text(node, row), words).then(|| Line { row: row.clone(), name, level: 0, fold: Fold::Leaf })
}

/// Text that the filter is applied to.
fn text(node: &NodeSnapshot, row: &Row) -> String {
    let label = node.label.as_deref().unwrap_or_default();
    let peer = row.peer.as_deref().unwrap_or_default();
    [&row.path, label, &node.kind, &row.state, &row.link, peer].join(" ").to_lowercase()
}

fn contains(text: &str, words: &[String]) -> bool {
    words.iter().all(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::top::{
        rows::rows,
        snapshots::{mailbox, node, of},
    };

    /// Names of the lines of a tree with a pool of 30 workers, indented by level.
    fn names(listing: &Listing) -> Vec<String> {
        let mut pool = node("o/q/pool", "running", 0, &json!([]));
        pool["kind"] = json!("pool");
        let worker = |n: usize| node(&format!("o/q/pool/{n}"), "running", n as u64, &mailbox(0));
        pool["children"] = (0..30).map(worker).collect();
        let mut queue = node("o/q", "running", 0, &json!([]));
        queue["children"] = json!([node("o/q/Reader", "paused", 1, &json!([])), pool]);
        let mut root = node("o", "running", 0, &json!([]));
        root["children"] = json!([node("o/admin", "running", 0, &json!([])), queue]);
        let tree = of(1_000, 1_000, &root);
        let lines = listing.lines(&tree.root, &rows(&tree, &tree));
        lines
            .iter()
            .map(|line| format!("{}{} {}", " ".repeat(line.level), line.name, line.row.restarts))
            .collect()
    }

    fn listing(filter: &str) -> Listing {
        Listing::new(Sort::Path, filter.to_owned())
    }

    #[test]
    fn a_pool_is_one_line_with_the_sum_of_its_children() {
        let mut listing = listing("");
        assert_eq!(names(&listing), ["o 0", " admin 0", " q 0", "  Reader 1", "  pool 435"]);
        listing.folds.insert("o/q/pool".to_owned(), false);
        assert_eq!(names(&listing).len(), 35);
        listing.folds.insert("o/q".to_owned(), true);
        assert_eq!(names(&listing), ["o 0", " admin 0", " q 436"]);
    }

    #[test]
    fn siblings_are_sorted_by_the_sum_of_their_branches() {
        let mut listing = listing("");
        listing.sort = Sort::Restarts;
        assert_eq!(names(&listing), ["o 0", " q 0", "  pool 435", "  Reader 1", " admin 0"]);
        listing.form = Form::Flat;
        assert_eq!(names(&listing)[..2], ["q/pool/29 29", "q/pool/28 28"]);
        assert_eq!(names(&listing).len(), 35);
    }

    #[test]
    fn a_filter_keeps_ancestors_of_matches_and_opens_folded_branches() {
        assert_eq!(names(&listing("reader PAUSED")), ["o 0", " q 0", "  Reader 1"]);
        assert_eq!(names(&listing("pool/7")), ["o 0", " q 0", "  pool 0", "   7 7"]);
        assert_eq!(names(&listing("absent")), [""; 0]);
        let flat = Listing { form: Form::Flat, ..listing("pool/2") };
        assert_eq!(names(&flat).len(), 11, "without their ancestors");
    }
}
