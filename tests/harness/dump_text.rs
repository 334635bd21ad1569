//! Output of pmdumplog and `mmv-archive dump`, as lines that can be compared.
//!
//! pmdumplog prints the contents of hash tables in their order, which has no
//! meaning: metrics and instance domains of a section, and the names of a metric.
//! They are sorted here.

/// Splits printed text into lines, with sections and names in a fixed order.
pub(crate) fn lines(printed: &[u8]) -> Vec<String> {
    let printed = String::from_utf8_lossy(printed);
    let mut lines: Vec<String> = Vec::new();
    let mut section: Option<Section> = None;
    for line in printed.lines() {
        let starts = ["Descriptions for Metrics", "Instance Domains in", "Metric Help Text in"];
        let starts = starts.iter().any(|title| line.starts_with(title));
        // Help text contains empty lines; it is the last section that does.
        let ends = line.is_empty() && section.as_ref().is_some_and(|section| !section.is_help);
        if starts || ends {
            lines.extend(section.take().into_iter().flat_map(Section::sorted));
        }
        if starts {
            section = Some(Section { is_help: line.contains("Help"), entries: Vec::new() });
            lines.push(line.to_owned());
        } else if let Some(section) = &mut section {
            section.push(line);
        } else {
            lines.push(with_sorted_names(line));
        }
    }
    lines.extend(section.into_iter().flat_map(Section::sorted));
    lines
}

/// A section of entries, each of which begins with an identifier.
struct Section {
    is_help: bool,
    entries: Vec<Vec<String>>,
}

impl Section {
    fn push(&mut self, line: &str) {
        let begins = line.starts_with("PMID: ") || line.starts_with("InDom: ");
        match self.entries.last_mut() {
            Some(entry) if !begins => entry.push(line.to_owned()),
            _ => self.entries.push(vec![with_sorted_names(line)]),
        }
    }

    fn sorted(mut self) -> Vec<String> {
        self.entries.sort();
        self.entries.concat()
    }
}

/// Sorts the names in `29.0.6 (b or a): ...`.
fn with_sorted_names(line: &str) -> String {
    let parts = line.split_once(" (").and_then(|(before, rest)| {
        let (names, after) = rest.split_once(')')?;
        Some((before, names, after))
    });
    let Some((before, names, after)) = parts else { return line.to_owned() };
    let mut names: Vec<&str> = names.split(" or ").collect();
    names.sort_unstable();
    format!("{before} ({}){after}", names.join(" or "))
}
