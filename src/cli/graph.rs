//! `orchestrator graph`: the tree in the dot language of Graphviz. No I/O.

use orchestrator_subsystem::wire::{NodeSnapshot, TreeSnapshot};

/// Formats the tree as a directed graph (graphviz.org/doc/info/lang.html). Supervisors are boxes, failed and stuck children are red;
/// dashed arrows lead to children of other branches that a child sends to.
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

fn attributes(node: &NodeSnapshot) -> String {
    let mut label =
        node.label.as_ref().map_or_else(|| node.id.clone(), |label| format!("{} ({label})", node.id));
    label.push_str(&format!("\n{}", if node.stuck { "stuck" } else { &node.state }));
    if let Some(strategy) = &node.strategy {
        label.push_str(&format!("\n{strategy}"));
    }
    if let Some(link) = &node.link {
        label.push_str(&format!("\n{} {}", link.kind, link.state));
    }
    let shape = if node.strategy.is_some() { "box" } else { "ellipse" };
    let colour = match node.state.as_str() {
        _ if node.stuck => "red",
        "running" if node.link.as_ref().is_some_and(|link| link.state != "up") => "orange",
        "running" => "darkgreen",
        "paused" | "stopping" | "starting" => "orange",
        "stopped" => "gray",
        _ => "red",
    };
    format!("label={}, shape={shape}, color={colour}", quoted(&label))
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
