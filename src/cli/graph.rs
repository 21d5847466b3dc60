//! `orchestrator graph`: the tree in the dot language of Graphviz, or as JSON. No I/O.

use anstyle::AnsiColor;
use orchestrator_subsystem::wire::{NodeSnapshot, TreeSnapshot};
use serde_json::{Value, json};

/// Formats the tree as a directed graph (graphviz.org/doc/info/lang.html). Supervisors are boxes, failed and
/// stuck children are red; dashed arrows lead to the children that a child sends to.
pub(crate) fn dot(snapshot: &TreeSnapshot) -> String {
    let mut text = String::from("digraph orchestrator {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n");
    snapshot.root.walk(&mut |node| {
        text.push_str(&format!("  {} [{}];\n", quoted(&node.path), attributes(node)));
        for child in &node.children {
            text.push_str(&format!("  {} -> {};\n", quoted(&node.path), quoted(&child.path)));
        }
        for to in &node.sends_to {
            let arrow = "style=dashed, constraint=false";
            text.push_str(&format!("  {} -> {} [{arrow}];\n", quoted(&node.path), quoted(to)));
        }
    });
    text.push_str("}\n");
    text
}

/// The same graph as lists of nodes and edges.
pub(crate) fn lists(snapshot: &TreeSnapshot) -> Value {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    snapshot.root.walk(&mut |node| {
        let link = node.link.as_ref().map(|link| json!({ "kind": link.kind, "state": link.state }));
        nodes.push(json!({
            "path": node.path, "label": node.label, "kind": node.kind, "state": node.state, "stuck": node.stuck, "link": link,
        }));
        let children = node.children.iter().map(|child| ("child", &child.path));
        for (kind, to) in children.chain(node.sends_to.iter().map(|to| ("sends", to))) {
            edges.push(json!({ "kind": kind, "from": node.path, "to": to }));
        }
    });
    json!({ "nodes": nodes, "edges": edges })
}

/// Colours of the lines of the table of the tree, the first of which is its head.
pub(crate) fn line_colours(snapshot: &TreeSnapshot) -> Vec<Option<AnsiColor>> {
    let mut colours = vec![None];
    snapshot.root.walk(&mut |node| {
        colours.push(match colour(node) {
            "red" => Some(AnsiColor::Red),
            "orange" => Some(AnsiColor::Yellow),
            _ => None,
        });
    });
    colours
}

/// Uses the names of Graphviz.
fn colour(node: &NodeSnapshot) -> &'static str {
    match node.shown() {
        "running" => "darkgreen",
        "paused" | "blocked" | "stopping" | "starting" => "orange",
        "stopped" => "gray",
        _ => "red",
    }
}

fn attributes(node: &NodeSnapshot) -> String {
    let mut label =
        node.label.as_ref().map_or_else(|| node.id.clone(), |label| format!("{} ({label})", node.id));
    label.push_str(&format!("\n{}", node.shown()));
    if let Some(strategy) = &node.strategy {
        label.push_str(&format!("\n{strategy}"));
    }
    if let Some(link) = &node.link {
        label.push_str(&format!("\n{} {}", link.kind, link.state));
    }
    let shape = if node.strategy.is_some() { "box" } else { "ellipse" };
    format!("label={}, shape={shape}, color={}", quoted(&label), colour(node))
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_and_escaped() {
        assert_eq!(quoted("a\"]; b\\\n"), "\"a\\\"]; b\\\\\\n\"");
    }
}
