//! Lines of reports in CSV, for tests that are about values.

#[track_caller]
pub(crate) fn cells(line: &str) -> String {
    let cells = line.splitn(3, ',').nth(2).unwrap();
    if !line.starts_with("Time") {
        return cells.to_owned();
    }
    let mut names = String::new();
    for part in cells.split(" (") {
        let after = if names.is_empty() { part } else { part.split_once(')').unwrap().1 };
        names.push_str(after);
    }
    names
}
