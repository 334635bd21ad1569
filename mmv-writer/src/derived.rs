//! Structs of metrics that register themselves: what the code of `#[derive(Metrics)]`
//! uses.

use pcp_types::{Semantics, Units};

use crate::builder::MetricBuilder;
use crate::metric::{Buckets, Counter, Handle, Histogram, OwnedCounter, OwnedHistogram};
use crate::registration::Help;
use crate::{Error, Label, Registrar};

/// A struct whose fields are metrics.
///
/// `#[derive(Metrics)]` (feature `derive`, on by default) makes a metric of each field: a
/// handle, a histogram, or another struct of metrics, whose metrics have the field's name
/// and a dot before theirs. The name is the field's, the help text the first paragraph
/// of its documentation, and the long help text all of it, if there is more and it has at
/// most 255 bytes.
///
/// ```
/// use mmv_writer::{Counter, Gauge, Histogram, Metrics, Registry, Units};
///
/// #[derive(Metrics)]
/// struct Shop {
///     /// Orders taken since the start.
///     #[metric(units = Units::count())]
///     orders: Counter<u64>,
///     /// Time from an order to its answer.
///     #[metric(units = Units::microseconds())]
///     latency: Histogram,
///     store: Store,
/// }
///
/// #[derive(Metrics)]
/// struct Store {
///     /// Things that wait to be packed.
///     #[metric(name = "queue.length", units = Units::count())]
///     queue: Gauge<u32>,
/// }
///
/// # fn main() -> Result<(), mmv_writer::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let builder = Registry::builder("shop").directory(directory.path());
/// let registry = builder.build()?; // or live().build()?
/// let shop = Shop::register(&registry)?;
/// let _published = registry.publish()?;
///
/// shop.orders.inc(); // mmv.shop.orders
/// shop.latency.time(|| shop.store.queue.set(3)); // mmv.shop.store.queue.length
/// # Ok(())
/// # }
/// ```
///
/// | attribute | of | meaning |
/// |---|---|---|
/// | `#[metric(name = "a.b")]` | all | the name in place of the field's |
/// | `#[metric(help = "…")]` | metrics | the help text in place of the documentation |
/// | `#[metric(units = EXPRESSION)]` | numbers, histograms | the [`Units`]; without this a plain number |
/// | `#[metric(semantics = discrete)]` | metrics | `counter`, `instant` or `discrete`, in place of the handle's |
/// | `#[metric(buckets = EXPRESSION)]` | histograms | the [`Buckets`]; without this [`Buckets::for_units`] |
/// | `#[metric(item = 7)]` | metrics | as [`MetricBuilder::item`] |
/// | `#[metric(isolated)]` | metrics | as [`MetricBuilder::isolated`] |
/// | `#[metric(label(owner = "sales"))]` | metrics | a label, as [`Label::new`] |
/// | `#[metric(flatten)]` | structs | no name: the metrics of the struct are beside those of this one |
/// | `#[metric(skip)]` | other fields | no metric; the field gets its type's default |
///
/// An attribute that does not fit its field is a compile error, as is a name that is no
/// metric name:
///
/// ```compile_fail
/// #[derive(mmv_writer::Metrics)]
/// struct Shop {
///     #[metric(units = mmv_writer::Units::count())]
///     busy: mmv_writer::Timer, // has units of its own
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a struct of metrics",
    note = "add `#[derive(mmv_writer::Metrics)]` to it"
)]
pub trait Metrics: Sized {
    /// Registers all metrics of the struct.
    ///
    /// # Errors
    ///
    /// As [`MetricBuilder::build`], for the first metric that cannot be registered;
    /// those before it stay.
    fn register<R: Registrar>(registry: &R) -> Result<Self, Error> {
        Self::register_under(registry, "")
    }

    /// As [`register`](Self::register), with `prefix` and a dot before each name; no dot if it
    /// is empty.
    ///
    /// # Errors
    ///
    /// As [`register`](Self::register).
    fn register_under<R: Registrar>(registry: &R, prefix: &str) -> Result<Self, Error>;
}

/// What a field says about its metric.
#[doc(hidden)]
#[derive(Debug)]
pub struct Description<'p> {
    pub prefix: &'p str,
    pub name: &'static str,
    pub help: Option<&'static str>,
    pub long_help: Option<&'static str>,
    pub units: Option<Units>,
    pub semantics: Option<Semantics>,
    pub buckets: Option<Buckets>,
    pub item: Option<u32>,
    pub isolated: bool,
    pub labels: Vec<Label>,
}

impl Description<'_> {
    /// The name with the prefix.
    pub fn name(&self) -> String {
        let (prefix, name) = (self.prefix, self.name);
        let dot = if prefix.is_empty() || name.is_empty() { "" } else { "." };
        format!("{prefix}{dot}{name}")
    }

    fn builder<H: Handle, R: Registrar>(self, registry: &R) -> MetricBuilder<'_, H, R> {
        let mut builder = MetricBuilder::new(registry, self.name());
        let spec = &mut builder.spec;
        let text = |text: Option<&str>| text.map(str::to_owned);
        spec.help = Help { short: text(self.help), long: text(self.long_help) };
        spec.units = self.units.unwrap_or(spec.units);
        spec.semantics = self.semantics.unwrap_or(spec.semantics);
        (spec.item, spec.isolated, spec.labels) = (self.item, self.isolated, self.labels);
        builder
    }
}

/// A type that a field of a struct of metrics can have.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a metric nor a struct of metrics",
    note = "metrics are handles such as `Counter<u64>`, `Gauge<f64>` and `Histogram`",
    note = "add `#[derive(Metrics)]` to a struct of them, or `#[metric(skip)]` to other fields"
)]
pub trait Field: Sized {
    const IS_STRUCT: bool = false;
    const HAS_UNITS: bool = false;
    const HAS_BUCKETS: bool = false;

    fn register<R: Registrar>(registry: &R, at: Description<'_>) -> Result<Self, Error>;
}

impl<H: Handle> Field for H {
    const HAS_UNITS: bool = H::IS_MEASURED;

    fn register<R: Registrar>(registry: &R, at: Description<'_>) -> Result<Self, Error> {
        at.builder::<H, R>(registry).build()
    }
}

impl Field for Histogram {
    const HAS_UNITS: bool = true;
    const HAS_BUCKETS: bool = true;

    fn register<R: Registrar>(registry: &R, at: Description<'_>) -> Result<Self, Error> {
        let buckets = at.buckets;
        let builder = at.builder::<Counter<u64>, R>(registry);
        let buckets = buckets.unwrap_or(Buckets::for_units(builder.spec.units));
        builder.build_histogram_of(buckets)
    }
}

impl Field for OwnedHistogram {
    const HAS_UNITS: bool = true;
    const HAS_BUCKETS: bool = true;

    fn register<R: Registrar>(registry: &R, at: Description<'_>) -> Result<Self, Error> {
        let buckets = at.buckets;
        let builder = at.builder::<OwnedCounter<u64>, R>(registry);
        let buckets = buckets.unwrap_or(Buckets::for_units(builder.spec.units));
        builder.build_histogram_of(buckets)
    }
}
