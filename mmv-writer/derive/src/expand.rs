//! The code that the macros write.

use std::collections::HashSet;

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, Ident, LitStr, Result, Type};

use crate::attributes::Attributes;

/// Writes the implementations of `Metrics` and `Field` for a struct, or its errors. These come with
/// implementations that do nothing: otherwise the compiler would also report that there are none.
pub(crate) fn expand(input: &DeriveInput) -> TokenStream {
    let name = &input.ident;
    match register(input) {
        Ok((checks, body)) => {
            let implementations = implementations(name, &body);
            quote!(#(#checks)* #implementations)
        }
        Err(errors) => {
            let body = quote! {
                let _ = (registry, prefix);
                ::core::unreachable!()
            };
            with_errors(input, &errors, &implementations(name, &body))
        }
    }
}

/// Writes the errors, and what stands in for the code if that is possible.
fn with_errors(input: &DeriveInput, errors: &Error, stand_in: &TokenStream) -> TokenStream {
    let errors = errors.to_compile_error();
    if input.generics.params.is_empty() { quote!(#errors #stand_in) } else { errors }
}

/// Writes the checks of the fields, and the body of `register_under`.
fn register(input: &DeriveInput) -> Result<(Vec<TokenStream>, TokenStream)> {
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new(parameter.span(), "a struct of metrics has no generic parameters"));
    }
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => return Err(no_struct(data.enum_token.span)),
        Data::Union(data) => return Err(no_struct(data.union_token.span)),
    };
    let Fields::Named(fields) = fields else { return Err(no_struct(input.ident.span())) };
    let mut names = HashSet::new();
    let mut checks = Vec::new();
    let mut members = Vec::new();
    let mut errors: Option<Error> = None;
    for field in &fields.named {
        match member(field, &mut names) {
            Ok((check, value)) => {
                checks.push(check);
                members.push(value);
            }
            Err(error) => match &mut errors {
                Some(errors) => errors.combine(error),
                None => errors = Some(error),
            },
        }
    }
    if let Some(errors) = errors {
        return Err(errors);
    }
    Ok((checks, quote!(::core::result::Result::Ok(Self { #(#members),* }))))
}

fn implementations(name: &Ident, register_under: &TokenStream) -> TokenStream {
    quote! {
        #[automatically_derived]
        impl ::mmv_writer::Metrics for #name {
            fn register_under(
                registry: &::mmv_writer::Registry,
                prefix: &str,
            ) -> ::core::result::Result<Self, ::mmv_writer::Error> {
                #register_under
            }
        }

        #[automatically_derived]
        impl ::mmv_writer::derived::Field for #name {
            const IS_STRUCT: bool = true;

            fn register(
                registry: &::mmv_writer::Registry,
                description: ::mmv_writer::derived::Description<'_>,
            ) -> ::core::result::Result<Self, ::mmv_writer::Error> {
                <Self as ::mmv_writer::Metrics>::register_under(registry, &description.name())
            }
        }
    }
}

/// Writes the implementation of `Labels` for a struct, or its errors with one that does nothing.
pub(crate) fn expand_labels(input: &DeriveInput) -> TokenStream {
    let name = &input.ident;
    match visit(input) {
        Ok(body) => labels_implementation(name, &body),
        Err(errors) => {
            let body = quote!(let _ = visit;);
            with_errors(input, &errors, &labels_implementation(name, &body))
        }
    }
}

/// Writes the body of `visit`.
fn visit(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new(parameter.span(), "a set of labels has no generic parameters"));
    }
    let text = "`Labels` is for structs with named fields: each is a label, named as the field, \
                whose value implements `Display`";
    let Data::Struct(data) = &input.data else { return Err(Error::new(name.span(), text)) };
    let Fields::Named(fields) = &data.fields else { return Err(Error::new(name.span(), text)) };
    if fields.named.is_empty() {
        return Err(Error::new(name.span(), "a set of labels has at least one label"));
    }
    let mut visits = TokenStream::new();
    for field in &fields.named {
        let Some(ident) = &field.ident else { continue };
        let label = ident.unraw().to_string();
        if !label.is_ascii() || !label.starts_with(|first: char| first.is_ascii_alphabetic()) {
            let text = format!("`{label}` is not a label name, which begins with a letter");
            return Err(Error::new(ident.span(), text));
        }
        // The span of the type: one without `Display` is reported there.
        let value = quote_spanned!(field.ty.span()=> &self.#ident);
        visits.extend(quote!(visit(#label, #value);));
    }
    Ok(visits)
}

fn labels_implementation(name: &Ident, visit: &TokenStream) -> TokenStream {
    quote! {
        #[automatically_derived]
        impl ::mmv_writer::Labels for #name {
            fn visit<'l>(
                &'l self,
                visit: &mut dyn ::core::ops::FnMut(&'l str, &dyn ::core::fmt::Display),
            ) {
                #visit
            }
        }
    }
}

fn no_struct(span: Span) -> Error {
    Error::new(
        span,
        "`Metrics` is for structs with named fields: each is a metric, named as the field",
    )
}

/// Writes the checks of a field's type, and its value in the struct.
fn member(field: &Field, names: &mut HashSet<String>) -> Result<(TokenStream, TokenStream)> {
    let attributes = Attributes::from_field(field)?;
    let Some(ident) = &field.ident else { return Err(no_struct(field.span())) };
    if attributes.skip.is_some() {
        return Ok((quote!(), quote!(#ident: ::core::default::Default::default())));
    }
    let name = name(ident, &attributes)?;
    if attributes.flatten.is_none() && !names.insert(name.clone()) {
        let text = format!("another field is the metric `{name}` already");
        return Err(Error::new(ident.span(), text));
    }
    let ty = &field.ty;
    let checks = checks(ty, &attributes);
    // What is not given is as in the default.
    let help = attributes.help.iter();
    let long_help = attributes.long_help.iter();
    let units = attributes.units.iter();
    let semantics = attributes.semantics.iter();
    let buckets = attributes.buckets.iter();
    let max_series = attributes.max_series.iter();
    let item = attributes.item.iter();
    let isolated = attributes.isolated.is_some();
    let labels = attributes.labels.iter().map(|(name, value)| {
        let name = LitStr::new(&name.unraw().to_string(), name.span());
        quote!(::mmv_writer::Label::new(#name, #value))
    });
    // The span of the type: a type that is not a metric is reported there.
    let register = quote_spanned!(ty.span()=> <#ty as ::mmv_writer::derived::Field>::register);
    let value = quote! {
        #ident: #register(
            registry,
            ::mmv_writer::derived::Description {
                prefix,
                name: #name,
                #(help: ::core::option::Option::Some(#help),)*
                #(long_help: ::core::option::Option::Some(#long_help),)*
                #(units: ::core::option::Option::Some(#units),)*
                #(
                    semantics: ::core::option::Option::Some(
                        ::mmv_writer::pcp::Semantics::#semantics,
                    ),
                )*
                #(buckets: ::core::option::Option::Some(#buckets),)*
                #(max_series: ::core::option::Option::Some(#max_series),)*
                #(item: ::core::option::Option::Some(#item),)*
                isolated: #isolated,
                labels: ::std::vec![#(#labels),*],
                ..::core::default::Default::default()
            },
        )?
    };
    Ok((checks, value))
}

/// Returns the field's part of the metric's name; empty for a flattened struct.
fn name(ident: &Ident, attributes: &Attributes) -> Result<String> {
    if attributes.flatten.is_some() {
        return Ok(String::new());
    }
    if let Some(name) = &attributes.name {
        return Ok(name.value());
    }
    let name = ident.unraw().to_string();
    if name.is_ascii() && name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Ok(name);
    }
    let text = format!("`{name}` is not a metric name: add `#[metric(name = \"…\")]`");
    Err(Error::new(ident.span(), text))
}

/// Writes assertions on constants of the field's type, which fail when the struct is compiled.
fn checks(ty: &Type, attributes: &Attributes) -> TokenStream {
    let mut checks = TokenStream::new();
    let mut check = |span: Span, property: &str, is: bool, text: &str| {
        let property = Ident::new(property, span);
        let not = if is { quote!() } else { quote!(!) };
        checks.extend(quote_spanned! {span=>
            const _: () = ::core::assert!(
                #not <#ty as ::mmv_writer::derived::Field>::#property,
                #text
            );
        });
    };
    if let Some(span) = attributes.flatten {
        check(span, "IS_STRUCT", true, "`flatten` is for a struct of metrics; this is a metric");
    }
    if let Some(units) = &attributes.units {
        let text = "`units` is for numbers and histograms; this has none, or units of its own";
        check(units.span(), "HAS_UNITS", true, text);
    }
    if let Some(buckets) = &attributes.buckets {
        check(buckets.span(), "HAS_BUCKETS", true, "`buckets` is for histograms");
    }
    if let Some(max_series) = &attributes.max_series {
        check(max_series.span(), "HAS_SERIES", true, "`max_series` is for families");
    }
    let of_metric = [
        attributes.semantics.as_ref().map(Spanned::span),
        attributes.item.as_ref().map(Spanned::span),
        attributes.isolated,
        attributes.labels.first().map(|(name, _)| name.span()),
    ];
    for span in of_metric.into_iter().flatten() {
        let text =
            "this attribute is for a metric; this is a struct of metrics, which has only `name`";
        check(span, "IS_STRUCT", false, text);
    }
    checks
}

#[cfg(test)]
mod tests;
