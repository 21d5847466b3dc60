//! Dependency cycles between the files of a crate. Imports are resolved through re-exports.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// Segments of a path. A module's path is relative to its crate.
type Names = Vec<String>;

/// Dependencies of each module, with the paths that cause them.
type Edges = BTreeMap<Names, BTreeMap<Names, BTreeSet<String>>>;

/// Items that end at a semicolon.
const STATEMENTS: &[&str] = &["use", "const", "static", "type", "let"];
/// Keywords before the name of an item.
const DEFINITIONS: &[&str] = &["struct", "enum", "union", "trait", "type", "const", "static", "fn"];

/// Items that end at their first brace or semicolon.
const BLOCKS: &[&str] =
    &["fn", "impl", "mod", "struct", "enum", "trait", "async", "unsafe", "extern", "macro_rules"];

struct Import {
    path: Names,
    name: String,
    exported: bool,
}

/// Source file without its test code.
#[derive(Default)]
struct Module {
    children: BTreeSet<String>,
    imports: Vec<Import>,
    paths: Vec<Names>,
    words: BTreeSet<String>,
    /// Names of the items that are defined here, at any depth.
    items: BTreeSet<String>,
}

impl Module {
    /// Reads the tokens of a file, or of a block or an inline module `depth` levels below it.
    fn read(&mut self, tokens: &[TokenTree], depth: usize) {
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' && is_test(tokens.get(at + 1)) => {
                    item_length(&tokens[at..])
                }
                TokenTree::Group(group) => {
                    self.read(&trees(group.stream()), depth);
                    1
                }
                TokenTree::Ident(ident) if ident == "mod" => self.read_module(&tokens[at..], depth),
                TokenTree::Ident(ident) if ident == "use" && at + 1 < tokens.len() => {
                    let end = tokens[at..].iter().position(|token| is(token, ';')).unwrap_or(1);
                    self.read_imports(&tokens[at + 1..at + end], &[], is_exported(&tokens[..at]), depth);
                    end
                }
                // The path of `pub(in path)` imports nothing.
                TokenTree::Ident(ident) if ident == "pub" => {
                    1 + usize::from(matches!(tokens.get(at + 1), Some(TokenTree::Group(_))))
                }
                TokenTree::Ident(ident) if DEFINITIONS.iter().any(|definition| ident == definition) => {
                    self.items.insert(word(tokens.get(at + 1)));
                    1
                }
                TokenTree::Ident(_) => self.read_path(&tokens[at..], depth),
                _ => 1,
            };
        }
    }

    fn read_module(&mut self, tokens: &[TokenTree], depth: usize) -> usize {
        match tokens {
            [_, TokenTree::Ident(name), end, ..] if is(end, ';') => {
                self.children.insert(name.to_string());
                3
            }
            [_, TokenTree::Ident(_), TokenTree::Group(body), ..] => {
                self.read(&trees(body.stream()), depth + 1);
                3
            }
            _ => 1,
        }
    }

    fn read_imports(&mut self, tokens: &[TokenTree], prefix: &[String], exported: bool, depth: usize) {
        // A trailing comma adds an empty branch.
        for branch in tokens.split(|token| is(token, ',')).filter(|branch| !branch.is_empty()) {
            let mut path = prefix.to_vec();
            let mut alias = None;
            for token in branch {
                match token {
                    TokenTree::Ident(ident) if ident == "as" => alias = Some(String::new()),
                    TokenTree::Ident(ident) if alias.is_some() => alias = Some(ident.to_string()),
                    TokenTree::Ident(ident) => path.push(ident.to_string()),
                    TokenTree::Punct(punct) if punct.as_char() == '*' => path.push("*".to_owned()),
                    TokenTree::Group(group) => {
                        self.read_imports(&trees(group.stream()), &path, exported, depth);
                        path.clear();
                    }
                    _ => {}
                }
            }
            if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            if let Some(last) = path.last() {
                let name = alias.unwrap_or_else(|| last.clone());
                self.imports.push(Import { path: above_inline(path, depth), name, exported });
            }
        }
    }

    fn read_path(&mut self, tokens: &[TokenTree], depth: usize) -> usize {
        let mut path = vec![tokens[0].to_string()];
        while let [TokenTree::Punct(first), second, TokenTree::Ident(name), ..] =
            &tokens[path.len() * 3 - 2..]
            && first.as_char() == ':'
            && first.spacing() == Spacing::Joint
            && is(second, ':')
        {
            path.push(name.to_string());
        }
        let length = path.len() * 3 - 2;
        self.words.insert(path[0].clone());
        if path.len() > 1 {
            self.paths.push(above_inline(path, depth));
        }
        length
    }
}

fn trees(stream: TokenStream) -> Vec<TokenTree> {
    stream.into_iter().collect()
}

fn is(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn word(token: Option<&TokenTree>) -> String {
    token.map(ToString::to_string).unwrap_or_default()
}

/// Returns true if the attribute restricts its item to test builds.
fn is_test(attribute: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(group)) = attribute else { return false };
    let text = group.stream().to_string().replace(' ', "");
    text == "test" || text == "cfg(test)" || (text.starts_with("cfg(all(") && text.contains("test"))
}

/// Number of tokens of the item, field or arm that begins with an attribute.
fn item_length(tokens: &[TokenTree]) -> usize {
    let mut start = 0;
    while tokens.get(start).is_some_and(|token| is(token, '#')) {
        start += 2;
    }
    if word(tokens.get(start)) == "pub" {
        start += 1;
        start += usize::from(matches!(tokens.get(start), Some(TokenTree::Group(_))));
    }
    let (first, second) = (word(tokens.get(start)), word(tokens.get(start + 1)));
    let statement = STATEMENTS.contains(&first.as_str()) && second != "fn";
    let block = !statement && (BLOCKS.contains(&first.as_str()) || second == "fn");
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => block && group.delimiter() == Delimiter::Brace,
        _ => is(token, ';') || (!statement && !block && is(token, ',')),
    };
    let end = tokens.iter().skip(start).position(ends);
    end.map_or(tokens.len(), |end| start + end + 1)
}

fn is_exported(before: &[TokenTree]) -> bool {
    match before {
        [.., visibility, TokenTree::Group(_)] | [.., visibility] => word(Some(visibility)) == "pub",
        [] => false,
    }
}

/// Path relative to the file: each inline module removes one `super`.
fn above_inline(mut path: Names, depth: usize) -> Names {
    let supers = path.iter().take_while(|segment| *segment == "super").count();
    let inner = supers.min(depth);
    if inner > 0 {
        path.splice(..inner, ["self".to_owned()]);
        if supers > inner {
            path.remove(0);
        }
    }
    path
}

/// Files of a crate by module path.
struct Crate(BTreeMap<Names, Module>);

impl Crate {
    /// Reads the root and all modules outside of tests. `text` returns a module's source.
    fn read(text: impl Fn(&[String]) -> String) -> Self {
        let mut modules = BTreeMap::new();
        let mut open = vec![Names::new()];
        while let Some(path) = open.pop() {
            let stream: TokenStream = text(&path).parse().expect("Rust source");
            let mut module = Module::default();
            module.read(&trees(stream), 0);
            open.extend(
                module.children.iter().map(|child| path.iter().chain([child]).cloned().collect::<Names>()),
            );
            modules.insert(path, module);
        }
        Self(modules)
    }

    /// Module that defines the item `path` as written in module `from`, or None for other crates' items.
    fn defining(&self, from: &[String], path: &[String], steps: usize) -> Option<Names> {
        let mut module = from.to_vec();
        let supers = path.iter().take_while(|segment| *segment == "super").count();
        module.truncate(module.len().saturating_sub(supers));
        let mut rest = &path[supers..];
        match path[0].as_str() {
            "crate" => (module, rest) = (Names::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {}
            first => {
                let known = &self.0[from];
                let imported =
                    known.imports.iter().any(|import| import.name == *first && import.path != path);
                if !known.children.contains(first) && !imported {
                    return None;
                }
            }
        }
        while let [first, after @ ..] = rest {
            let known = &self.0[&module];
            if known.children.contains(first) {
                module.push(first.clone());
                rest = after;
                continue;
            }
            let import = known.imports.iter().find(|import| import.name == *first);
            return match import {
                Some(import) if steps > 0 => {
                    self.defining(&module, &[import.path.as_slice(), after].concat(), steps - 1)
                }
                _ => Some(self.behind_globs(&module, first).unwrap_or(module)),
            };
        }
        Some(module)
    }

    /// Module that defines `name` and that `module` re-exports with a glob.
    fn behind_globs(&self, module: &[String], name: &str) -> Option<Names> {
        let globs = self.0[module].imports.iter().filter(|import| import.exported && import.name == "*");
        let sources = globs.filter_map(|glob| self.defining(module, &glob.path[..glob.path.len() - 1], 0));
        sources.into_iter().find(|source| self.0[source].items.contains(name))
    }

    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (from, module) in &self.0 {
            let passed_on = |import: &&Import| import.exported && !module.words.contains(&import.name);
            let imports =
                module.imports.iter().filter(|import| !passed_on(import)).map(|import| &import.path);
            let targets = edges.entry(from.clone()).or_default();
            for path in imports.chain(&module.paths) {
                let path = path.strip_suffix(&["*".to_owned()]).unwrap_or(path);
                if let Some(target) = self.defining(from, path, 16).filter(|target| target != from) {
                    targets.entry(target).or_default().insert(path.join("::"));
                }
            }
        }
        edges
    }
}

/// Merges each top-level module with the modules below it.
fn top_level(edges: &Edges) -> Edges {
    let top = |module: &Names| module.iter().take(1).cloned().collect::<Names>();
    let mut merged = Edges::new();
    for (from, targets) in edges {
        let from = top(from);
        let merged = merged.entry(from.clone()).or_default();
        for (to, paths) in targets.iter().map(|(to, paths)| (top(to), paths)) {
            if to != from {
                merged.entry(to).or_default().extend(paths.iter().cloned());
            }
        }
    }
    merged
}

/// Describes each set of modules that depend on each other, with their imports.
fn cycles(edges: &Edges) -> Vec<String> {
    let reached: BTreeMap<&Names, BTreeSet<&Names>> = edges
        .keys()
        .map(|start| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
            while let Some(module) = open.pop() {
                open.extend(edges[module].keys().filter(|next| seen.insert(*next)));
            }
            (start, seen)
        })
        .collect();
    let components: BTreeSet<Vec<&Names>> = edges
        .keys()
        .map(|one| {
            edges.keys().filter(|two| reached[one].contains(two) && reached[two].contains(one)).collect()
        })
        .filter(|component: &Vec<_>| component.len() > 1)
        .collect();
    components.iter().map(|component| describe(component, edges)).collect()
}

fn describe(component: &[&Names], edges: &Edges) -> String {
    let name = |module: &Names| if module.is_empty() { "crate".to_owned() } else { module.join("::") };
    let mut text = component.iter().map(|module| name(module)).collect::<Vec<_>>().join(", ");
    for from in component {
        for (to, paths) in edges[*from].iter().filter(|(to, _)| component.contains(to)) {
            let paths = paths.iter().cloned().collect::<Vec<_>>().join(", ");
            text += &format!("\n    {} -> {}: {paths}", name(from), name(to));
        }
    }
    text
}

#[test]
fn modules_depend_on_each_other_in_one_direction() {
    let mut offenders = Vec::new();
    let actors = fs::read_dir(super::root().join("actors")).expect("a folder of ours");
    let rules = super::root().join("actors/queue/rules");
    let crates = actors.map(|entry| entry.expect("an entry").path()).chain([rules]);
    for (folder, root) in crates.map(|path| (path, "lib")).chain([(super::root(), "main")]) {
        let read = |path: &[String]| {
            let file = if path.is_empty() { root.to_owned() } else { path.join("/") };
            let file = folder.join("src").join(Path::new(&file).with_extension("rs"));
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
        };
        let edges = Crate::read(read).edges();
        // In the other crates, `edge/` and the modules beside it use each other.
        let top = if root == "main" { cycles(&top_level(&edges)) } else { Vec::new() };
        let found = cycles(&edges).into_iter().chain(top);
        offenders.extend(found.map(|cycle| format!("{}: {cycle}", folder.display())));
    }
    super::assert_none("files that depend on each other", &offenders);
}

fn edges_of(files: &[(&str, &str)]) -> Edges {
    let texts: BTreeMap<&str, &str> = files.iter().copied().collect();
    Crate::read(|path| texts[path.join("::").as_str()].to_owned()).edges()
}

#[test]
fn a_cycle_through_a_re_export_is_found() {
    let edges = edges_of(&[
        ("", "mod a; pub mod b; pub use a::Made; fn top() -> b::Other { b::make() }"),
        ("a", "use std::fmt; pub struct Made; fn of(b: &crate::b::Other) { vec![(1, b.field)]; }"),
        ("b", "mod c; pub use c::Other; pub fn make() {}"),
        ("b::c", "use crate::Made; pub struct Other { field: Made }"),
    ]);
    assert_eq!(cycles(&edges), ["a, b::c\n    a -> b::c: crate::b::Other\n    b::c -> a: crate::Made"]);
}

#[test]
fn a_parent_and_child_that_import_each_other_are_a_cycle() {
    let parent = "mod child; pub const MAX: u8 = 1; fn f() { let _ = self::child::made(); }";
    let child = "use super::MAX; pub fn made() -> u8 { MAX }";
    let edges = edges_of(&[("", "mod parent;"), ("parent", parent), ("parent::child", child)]);
    let imports = "\n    parent -> parent::child: self::child::made\n    parent::child -> parent: super::MAX";
    assert_eq!(cycles(&edges), [format!("parent, parent::child{imports}")]);
}

#[test]
fn top_level_modules_are_a_cycle_although_their_files_are_none() {
    let edges = edges_of(&[
        ("", "mod a; mod b;"),
        ("a", "pub mod c; fn f() { crate::b::made() }"),
        ("a::c", "pub struct Made;"),
        ("b", "use crate::a::c::Made; pub fn made() -> Made {}"),
    ]);
    assert_eq!(cycles(&edges), Vec::<String>::new());
    let imports = "a -> b: crate::b::made\n    b -> a: crate::a::c::Made";
    assert_eq!(cycles(&top_level(&edges)), [format!("a, b\n    {imports}")]);
}

#[test]
fn declarations_re_exports_and_tests_make_no_cycle() {
    let parent = "mod child; mod tests_of; pub(crate) use self::child::Thing; pub const MAX: u8 = 1;
        #[cfg(test)] mod tests { use super::{child::Thing, MAX}; }
        #[cfg(test)] #[allow(unused)] pub(crate) fn of<A, B>(a: A, b: B) -> child::Thing { child::Thing }";
    let files = [
        ("", "mod parent;"),
        ("parent", parent),
        ("parent::child", "// super::super::parent::tests_of\nuse super::MAX; pub struct Thing;"),
        ("parent::tests_of", "mod inner { use super::super::Thing; const S: &str = \"super::MAX\"; }"),
    ];
    assert_eq!(cycles(&edges_of(&files)), Vec::<String>::new());
}
