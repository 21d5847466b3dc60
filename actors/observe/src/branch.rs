//! Paths of the tree.

/// True for the child at `branch` itself and for its descendants.
pub fn is_in_branch(path: &str, branch: &str) -> bool {
    path.strip_prefix(branch).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Leaves out the name of the root, as commands take paths. The root has no shorter path.
pub fn without_root(path: &str) -> &str {
    path.split_once('/').map_or(path, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_end_at_slashes() {
        for (path, branch, is_in) in
            [("o/a", "o/a", true), ("o/a/b", "o/a", true), ("o/ab", "o/a", false), ("o", "o/a", false)]
        {
            assert_eq!(is_in_branch(path, branch), is_in, "{path} in {branch}");
        }
    }

    #[test]
    fn the_root_has_no_shorter_path() {
        assert_eq!(["o", "o/a", "o/a/b"].map(without_root), ["o", "a", "a/b"]);
    }
}
