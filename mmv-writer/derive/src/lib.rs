//! The derive macros `Metrics` and `Labels` of `mmv-writer`, which exports them.
//!
//! `attributes` reads the description of a metric from its field, `expand` writes the
//! implementation. All that the macro can know is checked when it runs: names, texts,
//! attributes. Types are checked by the traits of `mmv_writer::derived`.

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used)]

mod attributes;
mod expand;

use proc_macro::TokenStream;

/// Makes a struct of metric handles one that registers itself; see
/// `mmv_writer::Metrics`.
#[proc_macro_derive(Metrics, attributes(metric))]
pub fn derive_metrics(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::expand(&input).into()
}

/// Makes a struct a set of labels, one for each field; see `mmv_writer::Labels`.
#[proc_macro_derive(Labels)]
pub fn derive_labels(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::expand_labels(&input).into()
}
