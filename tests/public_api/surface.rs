//! Reads the public interface of a crate from its source.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, TraitItem, UseTree, Visibility};

/// Limit on re-exports of re-exports, which the compiler checks for circles.
const MAX_DEPTH: usize = 16;

/// The place of a module in its crate; empty for the root.
type Place = Vec<String>;

#[derive(Default)]
struct Modules(BTreeMap<Place, Vec<Item>>);

/// What a path leads to.
enum Found {
    Module(Place),
    /// The module that defines an item, and the item's name there.
    Item(Place, String),
    /// Something of another crate.
    Foreign,
}

pub(super) fn describe(crate_name: &str, root: &Path) -> String {
    let mut modules = Modules::default();
    modules.read(root, root.parent().expect("a directory"), Vec::new());
    let mut surface = Surface { modules: &modules, paths: BTreeMap::new(), lines: Vec::new() };
    let crate_name = crate_name.replace('-', "_");
    surface.add_module(&Vec::new(), &crate_name);
    surface.add_implementations();
    surface.lines.sort();
    surface.lines.dedup();
    surface.lines.concat()
}

impl Modules {
    /// Reads the module in `file`, whose child modules are in `directory`.
    fn read(&mut self, file: &Path, directory: &Path, place: Place) {
        let text = fs::read_to_string(file);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text);
        let parsed = parsed.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.add(directory, place, parsed.items);
    }

    fn add(&mut self, directory: &Path, place: Place, items: Vec<Item>) {
        for item in &items {
            let Item::Mod(child) = item else { continue };
            if is_for_tests(&child.attrs) {
                continue;
            }
            let name = child.ident.to_string();
            let below = directory.join(&name);
            let child_place = joined(&place, &name);
            match &child.content {
                Some((_, items)) => self.add(&below, child_place, items.clone()),
                None => self.read(&below.with_extension("rs"), &below, child_place),
            }
        }
        self.0.insert(place, items);
    }

    /// Returns what a path means in the module at `place`.
    fn find(&self, place: &Place, path: &[String], depth: usize) -> Found {
        let mut here = place.clone();
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => here.clear(),
                "self" => {}
                "super" => drop(here.pop()),
                _ => match self.find_name(&here, name, depth) {
                    Found::Module(module) => here = module,
                    Found::Item(module, item) if index + 1 == path.len() => {
                        return Found::Item(module, item);
                    }
                    _ => return Found::Foreign,
                },
            }
        }
        Found::Module(here)
    }

    fn find_name(&self, place: &Place, name: &str, depth: usize) -> Found {
        let child = joined(place, name);
        if self.0.contains_key(&child) {
            return Found::Module(child);
        }
        let Some(items) = self.0.get(place) else { return Found::Foreign };
        if items.iter().any(|item| name_of(item).is_some_and(|found| found == name)) {
            return Found::Item(place.clone(), name.to_owned());
        }
        let mut uses = items.iter().filter_map(|item| match item {
            Item::Use(item) => Some(leaves(&item.tree)),
            _ => None,
        });
        let path = uses.find_map(|leaves| {
            leaves.into_iter().find(|(_, exported)| exported == name).map(|(path, _)| path)
        });
        match path {
            Some(path) if depth < MAX_DEPTH && path != [name] => self.find(place, &path, depth + 1),
            _ => Found::Foreign,
        }
    }

    /// Returns the items of this name: a type and a macro may share one.
    fn items<'m>(&'m self, place: &Place, name: &'m str) -> impl Iterator<Item = &'m Item> {
        let items = self.0.get(place).map_or(&[][..], Vec::as_slice);
        items.iter().filter(move |item| name_of(item).is_some_and(|found| found == name))
    }
}

/// The interface while it is collected.
struct Surface<'m> {
    modules: &'m Modules,
    paths: BTreeMap<(Place, String), String>,
    lines: Vec<String>,
}

impl Surface<'_> {
    fn line(&mut self, path: &str, text: &str) {
        self.lines.push(format!("{path}: {text}\n"));
    }

    fn add_module(&mut self, place: &Place, path: &str) {
        let Some(items) = self.modules.0.get(place) else { return };
        // Items of this module before those of modules below it, which may export them again.
        for item in items {
            if is_hidden(attributes(item)) || !is_public(item) {
                continue;
            }
            match item {
                Item::Use(item) => {
                    for (target, exported) in leaves(&item.tree) {
                        self.add_export(place, path, &target, &exported);
                    }
                }
                Item::Mod(_) => {}
                item => {
                    let name = name_of(item).unwrap_or_default();
                    self.add_item(place, &name, &format!("{path}::{name}"));
                }
            }
        }
        for item in items {
            let Item::Mod(child) = item else { continue };
            if matches!(child.vis, Visibility::Public(_)) && !is_hidden(&child.attrs) {
                let name = child.ident.to_string();
                self.add_module(&joined(place, &name), &format!("{path}::{name}"));
            }
        }
    }

    fn add_export(&mut self, place: &Place, path: &str, target: &[String], exported: &str) {
        let path = format!("{path}::{exported}");
        match self.modules.find(place, target, 0) {
            Found::Module(module) => self.add_module(&module, &path),
            Found::Item(module, name) => self.add_item(&module, &name, &path),
            Found::Foreign => {
                let target = target.join("::");
                self.line(&path, &format!("pub use {target}"));
            }
        }
    }

    fn add_item(&mut self, place: &Place, name: &str, path: &str) {
        let key = (place.clone(), name.to_owned());
        if let Some(first) = self.paths.get(&key).filter(|first| *first != path) {
            let first = first.clone();
            self.line(path, &format!("pub use {first}"));
            return;
        }
        self.paths.insert(key, path.to_owned());
        let items: Vec<Item> = self.modules.items(place, name).cloned().collect();
        for item in items {
            self.describe_item(path, item);
        }
    }

    fn describe_item(&mut self, path: &str, item: Item) {
        let derived = derives(attributes(&item));
        match item {
            Item::Struct(item) => {
                let generics = text(&item.generics);
                let bounds = text(&item.generics.where_clause);
                let name = &item.ident;
                self.line(path, &clean(&format!("{derived}pub struct {name}{generics} {bounds}")));
                let Fields::Named(fields) = &item.fields else {
                    for (index, field) in item.fields.iter().enumerate() {
                        if matches!(field.vis, Visibility::Public(_)) {
                            self.line(path, &format!("pub {index}: {}", text(&field.ty)));
                        }
                    }
                    return;
                };
                for field in &fields.named {
                    if matches!(field.vis, Visibility::Public(_)) && !is_hidden(&field.attrs) {
                        let name = text(&field.ident);
                        self.line(path, &format!("pub {name}: {}", text(&field.ty)));
                    }
                }
            }
            Item::Enum(item) => {
                let generics = text(&item.generics);
                let name = &item.ident;
                self.line(path, &clean(&format!("{derived}pub enum {name}{generics}")));
                for mut variant in item.variants {
                    variant.attrs.clear();
                    variant.fields.iter_mut().for_each(|field| field.attrs.clear());
                    self.line(path, &text(&variant));
                }
            }
            Item::Trait(mut item) => {
                item.attrs.clear();
                let items = std::mem::take(&mut item.items);
                self.line(path, &text(&item));
                for item in items {
                    match item {
                        TraitItem::Fn(mut item) if !is_hidden(&item.attrs) => {
                            let has_default = item.default.take().is_some();
                            item.attrs.clear();
                            let signature = text(&item.sig);
                            let more = if has_default { " { .. }" } else { "" };
                            self.line(path, &format!("{signature}{more}"));
                        }
                        TraitItem::Type(mut item) => {
                            item.attrs.clear();
                            self.line(path, &text(&item));
                        }
                        TraitItem::Const(mut item) if !is_hidden(&item.attrs) => {
                            item.attrs.clear();
                            self.line(path, &text(&item));
                        }
                        _ => {}
                    }
                }
            }
            Item::Fn(item) => self.line(path, &format!("pub {}", text(&item.sig))),
            Item::Const(item) => {
                let name = &item.ident;
                self.line(path, &format!("pub const {name}: {}", text(&item.ty)));
            }
            Item::Type(mut item) => {
                item.attrs.clear();
                self.line(path, &text(&item));
            }
            item => {
                let name = name_of(&item).unwrap_or_default();
                self.line(path, &format!("pub {name}"));
            }
        }
    }

    /// Adds what is implemented for the types of the interface.
    fn add_implementations(&mut self) {
        let modules = self.modules;
        for (place, items) in &modules.0 {
            for item in items {
                let Item::Impl(item) = item else { continue };
                if is_for_tests(&item.attrs) {
                    continue;
                }
                let Some(path) = self.path_of(place, &item.self_ty) else { continue };
                self.describe_implementation(&path, item.clone());
            }
        }
    }

    fn path_of(&self, place: &Place, ty: &syn::Type) -> Option<String> {
        let syn::Type::Path(ty) = ty else { return None };
        let names: Vec<String> =
            ty.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        match self.modules.find(place, &names, 0) {
            Found::Item(module, name) => self.paths.get(&(module, name)).cloned(),
            _ => None,
        }
    }

    fn describe_implementation(&mut self, path: &str, item: syn::ItemImpl) {
        let mut head = item.clone();
        head.attrs.clear();
        head.items.clear();
        let head = text(&head);
        if item.trait_.is_some() {
            // Users cannot name the traits that seal others.
            if !head.contains("sealed::") {
                self.line(path, &head);
            }
            return;
        }
        for member in item.items {
            match member {
                ImplItem::Fn(member)
                    if matches!(member.vis, Visibility::Public(_))
                        && !is_hidden(&member.attrs)
                        && !is_for_tests(&member.attrs) =>
                {
                    self.line(path, &format!("{head} pub {}", text(&member.sig)));
                }
                ImplItem::Const(member) if matches!(member.vis, Visibility::Public(_)) => {
                    let name = &member.ident;
                    self.line(path, &format!("{head} pub const {name}: {}", text(&member.ty)));
                }
                _ => {}
            }
        }
    }
}

fn joined(place: &Place, name: &str) -> Place {
    let mut place = place.clone();
    place.push(name.to_owned());
    place
}

/// Returns the paths that a `use` names, and the names that it gives them.
fn leaves(tree: &UseTree) -> Vec<(Vec<String>, String)> {
    match tree {
        UseTree::Path(part) => {
            let mut below = leaves(&part.tree);
            for (path, name) in &mut below {
                if path.as_slice() == ["self"] {
                    path.clear();
                    *name = part.ident.to_string();
                }
                path.insert(0, part.ident.to_string());
            }
            below
        }
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
        UseTree::Rename(part) => vec![(vec![part.ident.to_string()], part.rename.to_string())],
        UseTree::Name(part) => vec![(vec![part.ident.to_string()], part.ident.to_string())],
        UseTree::Glob(_) => Vec::new(),
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_public(item: &Item) -> bool {
    let visibility = match item {
        Item::Const(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Mod(item) => &item.vis,
        Item::Static(item) => &item.vis,
        Item::Struct(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        Item::Use(item) => &item.vis,
        _ => return false,
    };
    matches!(visibility, Visibility::Public(_))
}

fn has(attributes: &[Attribute], name: &str, content: &str) -> bool {
    attributes.iter().any(|attribute| {
        let text = text(&attribute.meta);
        attribute.path().is_ident(name) && text.contains(content)
    })
}

fn is_hidden(attributes: &[Attribute]) -> bool {
    has(attributes, "doc", "(hidden)") || is_for_tests(attributes)
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    has(attributes, "cfg", "(test") || has(attributes, "cfg", "(all(test")
}

/// Returns the attributes that users depend on: derived traits, and `non_exhaustive`.
fn derives(attributes: &[Attribute]) -> String {
    let mut derived = String::new();
    for attribute in attributes {
        let path = attribute.path();
        if path.is_ident("derive") || path.is_ident("non_exhaustive") {
            derived.push_str("#[");
            derived.push_str(&text(&attribute.meta));
            derived.push_str("] ");
        }
    }
    derived
}

fn text(syntax: &impl ToTokens) -> String {
    let mut text = String::new();
    write_tokens(syntax.to_token_stream(), &mut text);
    clean(&text)
}

fn clean(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace(", )", ")").replace(", }", " }")
}

/// Writes tokens with spaces about as rustfmt does.
fn write_tokens(tokens: TokenStream, text: &mut String) {
    for token in tokens {
        match token {
            // The body of an item whose members have lines of their own.
            TokenTree::Group(group)
                if group.delimiter() == Delimiter::Brace && group.stream().is_empty() => {}
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => (" { ", " }"),
                    Delimiter::None => ("", ""),
                };
                text.push_str(open);
                write_tokens(group.stream(), text);
                text.push_str(close);
            }
            TokenTree::Punct(punct) => {
                let c = punct.as_char();
                let is_joint = punct.spacing() == Spacing::Joint;
                match c {
                    ',' | ';' => {
                        text.push(c);
                        text.push(' ');
                    }
                    ':' if !is_joint && !text.ends_with(':') => text.push_str(": "),
                    '=' | '+' | '|' if !is_joint => {
                        text.push(' ');
                        text.push(c);
                        text.push(' ');
                    }
                    '-' if is_joint => text.push_str(" -"),
                    '>' if text.ends_with('-') => text.push_str("> "),
                    _ => text.push(c),
                }
            }
            TokenTree::Ident(name) => {
                let ends_in_word =
                    text.ends_with(|c: char| c.is_alphanumeric() || "_)]".contains(c));
                let follows_bracket = text.ends_with('>');
                if ends_in_word || follows_bracket {
                    text.push(' ');
                }
                text.push_str(&name.to_string());
            }
            TokenTree::Literal(literal) => {
                if text.ends_with(|c: char| c.is_alphanumeric()) {
                    text.push(' ');
                }
                text.push_str(&literal.to_string());
            }
        }
    }
}
