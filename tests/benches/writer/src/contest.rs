//! Rivals that do the same in turns, and the lines of the table.

/// One way to do a piece of work; a run returns the nanoseconds of one operation.
pub(crate) struct Rival<'a> {
    name: &'static str,
    run: Box<dyn FnMut() -> Result<f64, String> + 'a>,
    /// Limit on the cost of ours, in multiples of this one.
    most: Option<f64>,
    /// Lower limit on the cost of this one, in multiples of ours.
    least: Option<f64>,
}

impl<'a> Rival<'a> {
    pub(crate) fn new(name: &'static str, mut run: impl FnMut() -> f64 + 'a) -> Self {
        Self::fallible(name, move || Ok(run()))
    }

    pub(crate) fn fallible(
        name: &'static str,
        run: impl FnMut() -> Result<f64, String> + 'a,
    ) -> Self {
        Self { name, run: Box::new(run), most: None, least: None }
    }

    /// Sets a target: ours costs at most `times` times this.
    pub(crate) fn at_most(self, times: f64) -> Self {
        Self { most: Some(times), ..self }
    }

    /// Sets a target: this costs at least `times` times ours.
    pub(crate) fn at_least(self, times: f64) -> Self {
        Self { least: Some(times), ..self }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) rounds: usize,
    /// Operations of a run.
    pub(crate) count: u64,
    /// Part of the names of the rows wanted.
    pub(crate) only: String,
}

impl Options {
    pub(crate) fn wants(&self, work: &str) -> bool {
        work.contains(&self.only)
    }
}

pub(crate) fn head() {
    println!("| work | ours | the other | its time | ours / other | target |");
    println!("|---|---|---|---|---|---|");
}

/// Holds ours, the first rival, against the others, who take turns; a line of
/// medians for each of them. `limit` is what ours may take, in nanoseconds.
pub(crate) fn hold(
    options: &Options,
    work: &str,
    limit: Option<f64>,
    mut rivals: Vec<Rival<'_>>,
) -> Result<(), String> {
    if !options.wants(work) {
        return Ok(());
    }
    let mut times = vec![Vec::new(); rivals.len()];
    // The first round warms up and is not counted.
    for round in 0..=options.rounds {
        for (rival, times) in rivals.iter_mut().zip(&mut times) {
            let time = (rival.run)().map_err(|error| format!("{work}, {}: {error}", rival.name))?;
            if round > 0 {
                times.push(time);
            }
        }
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    let Some((&ours, others)) = medians.split_first() else { return Ok(()) };
    if let Some(limit) = limit {
        let verdict = verdict(ours <= limit);
        println!("| {work} | {} | - | - | - | {} {verdict} |", shown(ours), shown(limit));
    }
    for (other, rival) in others.iter().zip(rivals.iter().skip(1)) {
        let ratio = ours / other;
        let target = match (rival.most, rival.least) {
            (Some(most), _) => format!("at most {most:.1} x {}", verdict(ratio <= most)),
            (_, Some(least)) => format!("at most 1/{least:.0} x {}", verdict(1.0 / ratio >= least)),
            _ => "-".to_owned(),
        };
        let (ours, other) = (shown(ours), shown(*other));
        println!("| {work} | {ours} | {} | {other} | {ratio:.2} x | {target} |", rival.name);
    }
    Ok(())
}

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "MISSED" }
}

fn shown(nanoseconds: f64) -> String {
    if nanoseconds < 10_000.0 {
        format!("{nanoseconds:.2} ns")
    } else {
        format!("{:.3} ms", nanoseconds / 1e6)
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
