//! The description of a metric by its field: the documentation and `#[metric(...)]`.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::parse::Parse;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprLit, Field, Ident, Lit, LitStr, Meta, Result, parse_quote};

/// Limit of the format on help texts, in bytes.
const MAX_HELP: usize = 255;

const KNOWN: &str = "`name`, `help`, `unit`, `units`, `semantics`, `buckets`, `max_series`, `item`, \
                     `isolated`, `label`, `flatten` and `skip`";

/// The description of one field.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) name: Option<LitStr>,
    pub(crate) help: Option<String>,
    pub(crate) long_help: Option<String>,
    pub(crate) units: Option<Expr>,
    /// The name of a variant of `Semantics`.
    pub(crate) semantics: Option<Ident>,
    pub(crate) buckets: Option<Expr>,
    pub(crate) max_series: Option<Expr>,
    pub(crate) item: Option<Expr>,
    pub(crate) isolated: Option<Span>,
    pub(crate) labels: Vec<(Ident, Expr)>,
    pub(crate) flatten: Option<Span>,
    pub(crate) skip: Option<Span>,
}

impl Attributes {
    /// Reads the attributes and the documentation of a field.
    pub(crate) fn from_field(field: &Field) -> Result<Self> {
        let mut found = Self::default();
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("metric"))
        {
            attribute.parse_nested_meta(|meta| found.take(&meta))?;
        }
        if found.skip.is_none() {
            found.take_documentation(&field.attrs)?;
        }
        found.check_combination()?;
        Ok(found)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let Some(key) = meta.path.get_ident() else {
            return Err(meta.error(format!("unknown attribute; there are {KNOWN}")));
        };
        match key.to_string().as_str() {
            "name" => {
                let name: LitStr = value(meta, self.name.is_some())?;
                check_name(&name)?;
                self.name = Some(name);
            }
            "help" => {
                let help: LitStr = value(meta, self.help.is_some())?;
                check_help(&help.value(), help.span())?;
                self.help = Some(help.value());
            }
            "unit" => {
                let name: LitStr = value(meta, self.units.is_some())?;
                self.units = Some(unit(&name)?);
            }
            "units" => self.units = Some(value(meta, self.units.is_some())?),
            "buckets" => self.buckets = Some(value(meta, self.buckets.is_some())?),
            "max_series" => self.max_series = Some(value(meta, self.max_series.is_some())?),
            "item" => self.item = Some(value(meta, self.item.is_some())?),
            "semantics" => {
                self.semantics = Some(semantics(&value(meta, self.semantics.is_some())?)?);
            }
            "isolated" => self.isolated = Some(flag(meta, self.isolated)?),
            "flatten" => self.flatten = Some(flag(meta, self.flatten)?),
            "skip" => self.skip = Some(flag(meta, self.skip)?),
            "label" => meta.parse_nested_meta(|label| {
                let Some(name) = label.path.get_ident() else {
                    return Err(label.error("a label is written as `label(name = value)`"));
                };
                self.labels.push((name.clone(), value(&label, false)?));
                Ok(())
            })?,
            other => {
                return Err(meta.error(format!("unknown attribute `{other}`; there are {KNOWN}")));
            }
        }
        Ok(())
    }

    /// Takes the help texts from the documentation: its first paragraph, and all of it if
    /// there is more and it fits.
    fn take_documentation(&mut self, attributes: &[Attribute]) -> Result<()> {
        let lines: Vec<(String, Span)> = attributes.iter().filter_map(doc_line).collect();
        let is_empty = |(line, _): &&(String, Span)| line.is_empty();
        let text = |lines: &[(String, Span)]| {
            let lines: Vec<&str> = lines.iter().map(|(line, _)| line.as_str()).collect();
            lines.join("\n").trim().to_owned()
        };
        let start = lines.iter().take_while(is_empty).count();
        let lines = lines.get(start..).unwrap_or_default();
        let end = lines.iter().take_while(|line| !is_empty(line)).count();
        let (first, rest) = lines.split_at(end);
        if self.help.is_none()
            && let Some((_, span)) = first.first()
        {
            let help = text(first).replace('\n', " ");
            check_help(&help, *span)?;
            self.help = Some(help);
        }
        let long = text(lines);
        if !text(rest).is_empty() && long.len() <= MAX_HELP {
            self.long_help = Some(long);
        }
        Ok(())
    }

    fn check_combination(&self) -> Result<()> {
        let of_metric = self.units.is_some() || self.semantics.is_some() || self.buckets.is_some();
        let other = of_metric || self.name.is_some() || self.item.is_some();
        let other = other
            || self.max_series.is_some()
            || self.isolated.is_some()
            || !self.labels.is_empty();
        match (self.flatten, self.skip) {
            (Some(span), None) if other => Err(Error::new(
                span,
                "`flatten` is for a struct of metrics, which has no more attributes",
            )),
            (flatten, Some(span)) if other || flatten.is_some() => Err(Error::new(
                span,
                "`skip` is for a field that is not a metric, which has no more attributes",
            )),
            _ => Ok(()),
        }
    }
}

/// Parses the value after `key =`.
fn value<T: Parse>(meta: &ParseNestedMeta<'_>, is_there: bool) -> Result<T> {
    if is_there {
        return Err(meta.error("this attribute is there already"));
    }
    meta.value()?.parse()
}

fn flag(meta: &ParseNestedMeta<'_>, before: Option<Span>) -> Result<Span> {
    if before.is_some() {
        return Err(meta.error("this attribute is there already"));
    }
    Ok(meta.path.span())
}

/// Returns the expression of a unit by its name.
fn unit(name: &LitStr) -> Result<Expr> {
    let constructor = match name.value().as_str() {
        "count" => "count",
        "bytes" => "bytes",
        "ns" | "nanoseconds" => "nanoseconds",
        "us" | "microseconds" => "microseconds",
        "ms" | "milliseconds" => "milliseconds",
        "s" | "seconds" => "seconds",
        other => {
            let text = format!(
                "unknown unit {other:?}; there are \"count\", \"bytes\", \"ns\", \"us\", \"ms\" and \
                 \"s\", also written out, and `units = EXPRESSION` for others"
            );
            return Err(Error::new(name.span(), text));
        }
    };
    let constructor = Ident::new(constructor, name.span());
    Ok(parse_quote!(::mmv_writer::Units::#constructor()))
}

fn semantics(name: &Ident) -> Result<Ident> {
    let variant = match name.to_string().as_str() {
        "counter" => "Counter",
        "instant" => "Instant",
        "discrete" => "Discrete",
        other => {
            let text = format!(
                "unknown semantics `{other}`; there are `counter`, `instant` and `discrete`"
            );
            return Err(Error::new(name.span(), text));
        }
    };
    Ok(Ident::new(variant, name.span()))
}

/// Checks a name, or the part of one: as `pcp_types::names::is_metric_name`.
fn check_name(name: &LitStr) -> Result<()> {
    let text = name.value();
    let begins = text.starts_with(|first: char| first.is_ascii_alphabetic());
    let has_parts = text.split('.').all(|part| {
        !part.is_empty() && part.bytes().all(|one| one.is_ascii_alphanumeric() || one == b'_')
    });
    if begins && has_parts && text.len() <= MAX_HELP {
        return Ok(());
    }
    let text = format!(
        "{text:?} is not a metric name: letters, digits, `_` and single dots, a letter first, at \
         most {MAX_HELP} bytes"
    );
    Err(Error::new(name.span(), text))
}

fn check_help(help: &str, span: Span) -> Result<()> {
    if help.contains('\0') {
        return Err(Error::new(span, "a help text has no NUL"));
    }
    if help.len() <= MAX_HELP {
        return Ok(());
    }
    let found = help.len();
    let text = format!(
        "the first paragraph is the help text of the metric: {found} bytes, and at most \
         {MAX_HELP} are allowed. End the paragraph earlier, or add `#[metric(help = \"…\")]`"
    );
    Err(Error::new(span, text))
}

/// Returns the text of a documentation attribute: a line, or a block of lines.
fn doc_line(attribute: &Attribute) -> Option<(String, Span)> {
    let Meta::NameValue(doc) = &attribute.meta else { return None };
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &doc.value else { return None };
    doc.path.is_ident("doc").then(|| (text.value().trim().to_owned(), text.span()))
}
