//! The requests of a page.
//!
//! In: the part of an address after the token. Out: a [`Question`] whose numbers are within
//! their limits, or `None`. Everything in it is digits and a few signs: nothing is decoded.

const MAX_METRICS: usize = 100;
const MAX_COLUMNS: u32 = 1 << 13;
/// The furthest offset from the start, in seconds: 10 000 years.
const MAX_OFFSET: f64 = 3.2e11;

/// A metric of one of the archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SideMetric {
    pub(super) side: usize,
    pub(super) pmid: u32,
}

/// A part of time, as offsets in seconds from the start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    pub(super) from: f64,
    pub(super) to: f64,
}

/// A request of a page.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Question {
    /// The page as HTML.
    Page,
    /// The archives, metrics and time zone.
    Header,
    /// The current end of the archives.
    Now,
    /// The values of metrics in columns.
    Columns { metrics: Vec<SideMetric>, span: Span, columns: u32, raw: bool },
    /// Heat maps of histograms.
    Heat { metrics: Vec<SideMetric>, span: Span },
    /// The events in a span of time.
    Events { span: Span },
    /// The movement of each metric in a span of time.
    Movements { span: Span },
    /// The changes in a span of time, or the differences between archives there.
    Changes { span: Span },
    /// The next or former sample.
    Sample { metrics: Vec<SideMetric>, at: f64, forward: bool },
}

impl Question {
    /// Reads the path after the token, and the query.
    pub(super) fn parse(path: &str, query: Option<&str>) -> Option<Self> {
        let pairs = Pairs::parse(query.unwrap_or_default())?;
        Some(match path {
            "" => Self::Page,
            "header" => Self::Header,
            "now" => Self::Now,
            "columns" => Self::Columns {
                metrics: pairs.metrics()?,
                span: pairs.span()?,
                columns: pairs.number("columns", MAX_COLUMNS)?.max(1),
                raw: pairs.number("raw", 1)? == 1,
            },
            "heat" => Self::Heat { metrics: pairs.metrics()?, span: pairs.span()? },
            "events" => Self::Events { span: pairs.span()? },
            "movements" => Self::Movements { span: pairs.span()? },
            "changes" => Self::Changes { span: pairs.span()? },
            "sample" => Self::Sample {
                metrics: pairs.metrics()?,
                at: pairs.offset("at")?,
                forward: pairs.number("forward", 1)? == 1,
            },
            _ => return None,
        })
    }
}

/// The fields of a query.
struct Pairs<'q>(Vec<(&'q str, &'q str)>);

impl<'q> Pairs<'q> {
    fn parse(query: &'q str) -> Option<Self> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        pairs.map(|pair| pair.split_once('=')).collect::<Option<_>>().map(Self)
    }

    fn get(&self, name: &str) -> Option<&'q str> {
        self.0.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn number(&self, name: &str, most: u32) -> Option<u32> {
        self.get(name)?.parse().ok().filter(|number| *number <= most)
    }

    fn offset(&self, name: &str) -> Option<f64> {
        self.get(name)?.parse().ok().filter(|offset: &f64| offset.abs() <= MAX_OFFSET)
    }

    fn span(&self) -> Option<Span> {
        let from = self.offset("from")?;
        let to = self.offset("to")?;
        (from <= to).then_some(Span { from, to })
    }

    /// Parses the metrics in the form `SIDE:PMID,SIDE:PMID`.
    fn metrics(&self) -> Option<Vec<SideMetric>> {
        let mut metrics = Vec::new();
        for text in self.get("of")?.split(',').take(MAX_METRICS + 1) {
            let (side, pmid) = text.split_once(':')?;
            metrics.push(SideMetric { side: side.parse().ok()?, pmid: pmid.parse().ok()? });
        }
        (metrics.len() <= MAX_METRICS).then_some(metrics)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn questions_have_all_their_numbers() {
        let span = Span { from: -1.5, to: 60.0 };
        let metrics = vec![SideMetric { side: 0, pmid: 7 }, SideMetric { side: 1, pmid: 8 }];
        let columns =
            Question::parse("columns", Some("of=0:7,1:8&from=-1.5&to=60&columns=9&raw=0"));
        assert_eq!(columns, Some(Question::Columns { metrics, span, columns: 9, raw: false }));
        assert_eq!(Question::parse("", None), Some(Question::Page));
        assert_eq!(
            Question::parse("events", Some("from=-1.5&to=60")),
            Some(Question::Events { span })
        );
    }

    #[test]
    fn other_questions_are_none() {
        for (path, query) in [
            ("columns", "of=0:7&from=0&to=60&columns=9"),
            ("columns", "of=0:7&from=0&to=60&columns=99999&raw=0"),
            ("columns", "of=0:7&from=0&to=60&columns=-1&raw=0"),
            ("columns", "of=0&from=0&to=60&columns=9&raw=0"),
            ("columns", "from=0&to=60&columns=9&raw=0"),
            ("events", "from=60&to=0"),
            ("changes", "from=60&to=0"),
            ("movements", "from=60&to=0"),
            ("events", "from=NaN&to=1"),
            ("events", "from=0&to=1e300"),
            ("events", "from=0&to=inf"),
            ("events", "from"),
            ("../", ""),
            ("nothing", ""),
        ] {
            assert_eq!(Question::parse(path, Some(query)), None, "{path} {query}");
        }
        let many = vec!["0:1"; MAX_METRICS + 1].join(",");
        assert_eq!(Question::parse("heat", Some(&format!("of={many}&from=0&to=1"))), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(path in "(columns|heat|sample)", query in "[a-z0-9:,&=.e-]{0,64}") {
            let _ = Question::parse(&path, Some(&query));
        }
    }
}
