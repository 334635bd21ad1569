//! Structs of metrics that register themselves: what the code of `#[derive(Metrics)]`
//! uses.

use pcp_types::{Semantics, Units};

use crate::builder::{HistogramBuilder, MetricBuilder};
use crate::family::{Family, Labels};
use crate::metric::{Buckets, Handle, Histogram, OwnedHistogram};
use crate::registration::Help;
use crate::{Error, Label, Registry};

/// A struct whose fields are metrics.
///
/// `#[derive(Metrics)]` (feature `derive`, on by default) makes a metric of each field: a
/// handle, a histogram, a [`Family`], or another struct of metrics, whose metrics have the
/// field's name and a dot before theirs. The name is the field's, the help text the first paragraph
/// of its documentation, and the long help text all of it, if there is more and it has at
/// most 255 bytes.
///
/// ```
/// use mmv_writer::{Counter, Family, Gauge, Histogram, Labels, Metrics, Registry, Units};
///
/// #[derive(Labels, Clone, PartialEq, Eq, Hash)]
/// struct Route {
///     endpoint: &'static str,
///     code: u16,
/// }
///
/// #[derive(Labels, Clone, PartialEq, Eq, Hash)]
/// struct Endpoint {
///     endpoint: &'static str,
/// }
///
/// #[derive(Metrics)]
/// struct Shop {
///     /// Orders taken since the start.
///     #[metric(unit = "count")]
///     orders: Counter,
///     /// Requests answered.
///     #[metric(unit = "count", max_series = 100)]
///     requests: Family<Route, Counter>,
///     /// Time from an order to its answer.
///     #[metric(units = Units::microseconds())]
///     latency: Family<Endpoint, Histogram>,
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
/// # /*
/// let registry = Registry::new("shop")?;
/// # */
/// # let registry = Registry::builder("shop").directory(directory.path()).build()?;
/// let shop = Shop::register(&registry)?;
///
/// shop.orders.inc(); // mmv.shop.orders
/// shop.requests.get(&Route { endpoint: "/cart", code: 200 }).inc();
/// let latency = shop.latency.get(&Endpoint { endpoint: "/cart" });
/// latency.time(|| shop.store.queue.set(3)); // mmv.shop.store.queue.length
/// # Ok(())
/// # }
/// ```
///
/// | attribute | of | meaning |
/// |---|---|---|
/// | `#[metric(name = "a.b")]` | all | the name in place of the field's |
/// | `#[metric(help = "…")]` | metrics | the help text in place of the documentation |
/// | `#[metric(unit = "us")]` | numbers, histograms | `"count"`, `"bytes"`, `"ns"`, `"us"`, `"ms"` or `"s"`, or written out: `"seconds"` |
/// | `#[metric(units = EXPRESSION)]` | numbers, histograms | the [`Units`]; without this a plain number |
/// | `#[metric(semantics = discrete)]` | metrics | `counter`, `instant` or `discrete`, in place of the handle's |
/// | `#[metric(buckets = EXPRESSION)]` | histograms | the [`Buckets`]; without this [`Buckets::for_units`] |
/// | `#[metric(max_series = 100)]` | families | as [`MetricBuilder::max_series`] |
/// | `#[metric(item = 7)]` | metrics | as [`item`](crate::pcp::MetricBuilderExt::item) |
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
    /// The errors of [`MetricBuilder::build`], for the first metric that cannot be registered;
    /// those before it stay.
    fn register(registry: &Registry) -> Result<Self, Error> {
        Self::register_under(registry, "")
    }

    /// Registers all metrics with `prefix` and a dot before each name; without a dot if the prefix
    /// is empty.
    ///
    /// # Errors
    ///
    /// The errors of [`register`](Self::register).
    fn register_under(registry: &Registry, prefix: &str) -> Result<Self, Error>;
}

/// The metric that a field describes by its name, its documentation and its attributes.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Description<'p> {
    pub prefix: &'p str,
    pub name: &'static str,
    pub help: Option<&'static str>,
    pub long_help: Option<&'static str>,
    pub units: Option<Units>,
    pub semantics: Option<Semantics>,
    pub buckets: Option<Buckets>,
    pub max_series: Option<usize>,
    pub item: Option<u32>,
    pub isolated: bool,
    pub labels: Vec<Label>,
}

impl Description<'_> {
    /// Returns the name with the prefix.
    pub fn name(&self) -> String {
        let dot = if self.prefix.is_empty() || self.name.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.prefix, self.name)
    }

    fn builder<H: Handle>(self, registry: &Registry) -> MetricBuilder<'_, H> {
        let mut builder = MetricBuilder::new(registry, self.name());
        let spec = &mut builder.spec;
        spec.help =
            Help { short: self.help.map(str::to_owned), long: self.long_help.map(str::to_owned) };
        spec.units = self.units.unwrap_or(spec.units);
        spec.semantics = self.semantics.unwrap_or(spec.semantics);
        spec.item = self.item;
        spec.isolated = self.isolated;
        spec.labels = self.labels;
        builder
    }

    fn histogram(self, registry: &Registry) -> HistogramBuilder<'_> {
        let buckets = self.buckets;
        let builder = HistogramBuilder::new(self.builder(registry));
        match buckets {
            Some(buckets) => builder.buckets(buckets),
            None => builder,
        }
    }
}

/// A type that a field of a struct of metrics can have.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a metric nor a struct of metrics",
    note = "metrics are handles such as `Counter`, `Gauge<i64>` and `Histogram`, and families of them",
    note = "add `#[derive(Metrics)]` to a struct of them, or `#[metric(skip)]` to other fields"
)]
pub trait Field: Sized {
    const IS_STRUCT: bool = false;
    const HAS_UNITS: bool = false;
    const HAS_BUCKETS: bool = false;
    const HAS_SERIES: bool = false;

    fn register(registry: &Registry, at: Description<'_>) -> Result<Self, Error>;
}

impl<H: Handle> Field for H {
    const HAS_UNITS: bool = H::IS_MEASURED;

    fn register(registry: &Registry, at: Description<'_>) -> Result<Self, Error> {
        at.builder::<H>(registry).build()
    }
}

impl<L: Labels, H: Handle + Clone> Field for Family<L, H> {
    const HAS_UNITS: bool = H::IS_MEASURED;
    const HAS_SERIES: bool = true;

    fn register(registry: &Registry, at: Description<'_>) -> Result<Self, Error> {
        let max_series = at.max_series;
        let builder = at.builder::<H>(registry);
        match max_series {
            Some(most) => builder.max_series(most).build_family(),
            None => builder.build_family(),
        }
    }
}

impl<L: Labels> Field for Family<L, Histogram> {
    const HAS_UNITS: bool = true;
    const HAS_BUCKETS: bool = true;
    const HAS_SERIES: bool = true;

    fn register(registry: &Registry, at: Description<'_>) -> Result<Self, Error> {
        let max_series = at.max_series;
        let builder = at.histogram(registry);
        match max_series {
            Some(most) => builder.max_series(most).build_family(),
            None => builder.build_family(),
        }
    }
}

impl Field for Histogram {
    const HAS_UNITS: bool = true;
    const HAS_BUCKETS: bool = true;

    fn register(registry: &Registry, at: Description<'_>) -> Result<Self, Error> {
        at.histogram(registry).build()
    }
}

impl Field for OwnedHistogram {
    const HAS_UNITS: bool = true;
    const HAS_BUCKETS: bool = true;

    fn register(registry: &Registry, at: Description<'_>) -> Result<Self, Error> {
        at.histogram(registry).build_owned()
    }
}
