//! The modules of a crate, and the paths that each of them mentions.
//!
//! Comes in: the root file of a crate. Goes out: its modules, each with its place
//! in the tree, its file and the paths in its code, and for each path the module
//! that defines what it names. Items under `#[cfg(test)]` are left out. Paths are
//! resolved by names alone; types are not needed to know the module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, Item, Macro, Meta, UseTree};

pub(super) type Place = Vec<String>;

#[derive(Debug, Default)]
pub(super) struct Crate {
    pub(super) modules: BTreeMap<Place, Module>,
}

#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) file: PathBuf,
    items: BTreeSet<String>,
    /// Names from `use`, with the paths they stand for.
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    pub(super) mentions: Vec<Mention>,
}

/// A path as written in the code.
#[derive(Debug)]
pub(super) struct Mention {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// Meaning of a name.
enum Target {
    Module(Place),
    /// An item, by the module that defines it.
    Item(Place),
}

impl Crate {
    pub(super) fn parse(root: &Path) -> Self {
        let mut parsed = Self::default();
        parsed.add_file(root, root.parent().unwrap_or(Path::new("")), Vec::new());
        parsed
    }

    fn add_file(&mut self, file: &Path, directory: &Path, place: Place) {
        let parsed = fs::read_to_string(file)
            .map_err(|error| error.to_string())
            .and_then(|text| syn::parse_file(&text).map_err(|error| error.to_string()))
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.add(file, directory, place, parsed.items);
    }

    fn add(&mut self, file: &Path, directory: &Path, place: Place, items: Vec<Item>) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for item in items {
            let Item::Mod(child) = item else {
                module.visit_item(&item);
                continue;
            };
            if is_for_tests(&child.attrs) {
                continue;
            }
            let name = child.ident.to_string();
            let below = directory.join(&name);
            let child_place = joined(&place, &name);
            if let Some((_, items)) = child.content {
                self.add(file, &below, child_place, items);
                continue;
            }
            let named = path_attribute(&child.attrs);
            let named = named.zip(file.parent()).map(|(path, parent)| parent.join(path));
            let file = named.unwrap_or_else(|| below.with_extension("rs"));
            self.add_file(&file, &below, child_place);
        }
        self.modules.insert(place, module);
    }

    /// Returns the module that a path leads into, if it is mentioned in the module at `place`;
    /// `None` for a path into another crate.
    pub(super) fn resolve(&self, place: &Place, path: &[String]) -> Option<Place> {
        match self.follow(place, path, 0)? {
            Target::Module(place) | Target::Item(place) => Some(place),
        }
    }

    fn follow(&self, place: &Place, path: &[String], depth: usize) -> Option<Target> {
        let mut here = place.clone();
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => here.clear(),
                "self" => {}
                "super" => drop(here.pop()?),
                _ => match self.find(&here, name, depth) {
                    Some(Target::Module(found)) => here = found,
                    Some(item) => return Some(item),
                    // The first name of a path may be that of a crate or a type.
                    None if index == 0 => return None,
                    // Made by a macro, or of another crate.
                    None => return Some(Target::Item(here)),
                },
            }
        }
        Some(Target::Module(here))
    }

    /// Returns the meaning of `name` in the module at `place`.
    fn find(&self, place: &Place, name: &str, depth: usize) -> Option<Target> {
        // Modules may import each other's globs.
        if depth > 16 {
            return None;
        }
        let child = joined(place, name);
        if self.modules.contains_key(&child) {
            return Some(Target::Module(child));
        }
        let module = self.modules.get(place)?;
        if module.items.contains(name) {
            return Some(Target::Item(place.clone()));
        }
        if let Some(path) = module.imports.get(name) {
            // Not by its own import: `use glob::glob`.
            return (path.first().map(String::as_str) != Some(name))
                .then(|| self.follow(place, path, depth + 1))?;
        }
        module.globs.iter().find_map(|glob| match self.follow(place, glob, depth + 1)? {
            Target::Module(from) if from != *place => self.find(&from, name, depth + 1),
            _ => None,
        })
    }
}

fn joined(place: &Place, name: &str) -> Place {
    let mut place = place.clone();
    place.push(name.to_owned());
    place
}

fn path_attribute(attrs: &[Attribute]) -> Option<String> {
    let attribute = attrs.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let Meta::NameValue(meta) = &attribute.meta else { return None };
    let syn::Expr::Lit(value) = &meta.value else { return None };
    let syn::Lit::Str(text) = &value.lit else { return None };
    Some(text.value())
}

/// Returns whether the attributes leave an item out of everything but tests.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    let requires_test = |tokens: &TokenStream| {
        let text = tokens.to_string().replace(' ', "");
        text == "test" || text.starts_with("all(test,")
    };
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && requires_test(&list.tokens),
        Meta::Path(path) => path.is_ident("test"),
        Meta::NameValue(_) => false,
    })
}

impl Module {
    fn mention(&mut self, path: Vec<String>, line: usize) {
        if path.len() > 1 {
            self.mentions.push(Mention { path, line });
        }
    }

    fn import(&mut self, tree: &UseTree, mut path: Vec<String>) {
        let line = tree.span().start().line;
        let add = |module: &mut Self, name: &Ident, path: Vec<String>| {
            module.mention(path.clone(), line);
            module.imports.insert(name.to_string(), path);
        };
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.import(&part.tree, path);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, path.clone()));
            }
            UseTree::Glob(_) => {
                self.mention(path.clone(), line);
                self.globs.push(path);
            }
            UseTree::Rename(part) => {
                path.push(part.ident.to_string());
                add(self, &part.rename, path);
            }
            UseTree::Name(part) if part.ident == "self" => {
                let name = path.last().cloned().unwrap_or_default();
                self.mention(path.clone(), line);
                self.imports.insert(name, path);
            }
            UseTree::Name(part) => {
                path.push(part.ident.to_string());
                add(self, &part.ident, path);
            }
        }
    }

    /// Notes the paths in the arguments of a macro, which are tokens without grammar.
    fn mention_tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut line, mut colons) = (Vec::new(), 0, 0);
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.mention(std::mem::take(&mut path), line);
                        line = name.span().start().line;
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                other => {
                    self.mention(std::mem::take(&mut path), line);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.mention_tokens(group.stream());
                    }
                }
            }
        }
        self.mention(path, line);
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Impl(item) => (&item.attrs, None),
            Item::Use(item) => (&item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if is_for_tests(attributes) {
            return;
        }
        self.items.extend(name.map(Ident::to_string));
        match item {
            Item::Use(item) => self.import(&item.tree, Vec::new()),
            item => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string());
        self.mention(names.collect(), path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(in crate::a)` uses nothing of it.
    }

    fn visit_macro(&mut self, code: &'ast Macro) {
        self.mention_tokens(code.tokens.clone());
        visit::visit_macro(self, code);
    }
}
