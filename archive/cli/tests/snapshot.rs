//! Snapshots, pages with their data, of an archive that is hard to draw. They stay in the target
//! directory for inspection.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value as Json;
use test_archives::Builder;

use crate::pictures;
use crate::programs;

fn run(base: &Path, output: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmv-archive"));
    command.arg("snapshot").arg(base).arg("-o").arg(output).args(["-Z", "UTC"]);
    command.args(arguments).output().unwrap()
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

struct Page {
    html: String,
    header: Json,
    numbers: Vec<u8>,
    said: String,
}

fn page(base: &Path, name: &str, arguments: &[&str]) -> Page {
    let path = place(name);
    let output = run(base, &path, arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(output.stdout.is_empty());
    let html = std::fs::read_to_string(path).unwrap();
    let (_, after) = html.split_once("id=\"data\">").unwrap();
    let packed = BASE64_STANDARD.decode(after.split_once('<').unwrap().0).unwrap();
    let mut data = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut data).unwrap();
    assert!(data.starts_with(b"MMVSNAP1"));
    let length = u32::from_le_bytes(data[8..12].try_into().unwrap()) as usize;
    let header = serde_json::from_slice(&data[12..12 + length]).unwrap();
    let numbers = data[12 + length..].to_vec();
    assert_eq!((12 + length) % 8, 0);
    Page { html, header, numbers, said }
}

type Bounds = Option<(f64, f64)>;

impl Page {
    /// Returns the bounds of each column of a metric's only series, and whether it is joined.
    fn cells(&self, metric: &str) -> Vec<(Bounds, bool)> {
        let metrics = self.header["metrics"].as_array().unwrap();
        let wanted = metrics.iter().find(|one| one["name"] == metric).unwrap();
        let all = self.header["series"].as_array().unwrap();
        let count = |series: &Json| series["count"].as_u64().unwrap() as usize;
        let own = all.iter().position(|series| series["pmid"] == wanted["of"][0]).unwrap();
        let before = |of: fn(usize) -> usize| all[..own].iter().map(|one| of(count(one))).sum();
        let (blocks, cells): (usize, usize) = (before(|n| n.div_ceil(64)), before(|n| n));
        let total: usize = all.iter().map(|one| count(one).div_ceil(64)).sum();
        let all_cells: usize = all.iter().map(count).sum();
        let (bounds, bytes) = (16 * total, 16 * total + 4 * all_cells);
        assert_eq!(self.numbers.len(), bytes + 2 * all_cells);
        let n = count(&all[own]);
        let double = |at: usize| f64::from_le_bytes(self.numbers[at..at + 8].try_into().unwrap());
        let short = |at: usize| u16::from_le_bytes([self.numbers[at], self.numbers[at + 1]]);
        (0..n)
            .map(|i: usize| {
                let scale = 16 * (blocks + i / 64);
                let (least, most) = (double(scale), double(scale + 8));
                let value = |place: usize| {
                    let part = f64::from(short(bounds + 4 * cells + 2 * place)) / 65_535.0;
                    least * (1.0 - part) + most * part
                };
                let flags = self.numbers[bytes + 2 * cells + n + i];
                ((flags & 1 == 1).then(|| (value(i), value(n + i))), flags & 2 == 2)
            })
            .collect()
    }

    fn values(&self, metric: &str) -> Vec<f64> {
        self.cells(metric).iter().filter_map(|(bounds, _)| Some(bounds.as_ref()?.1)).collect()
    }
}

#[test]
fn a_page_has_its_data_and_loads_nothing() {
    let (_directory, base) = pictures::archive();
    let page = page(&base, "pictures.html", &[]);
    assert!(page.html.contains("default-src 'none'; script-src 'nonce-"));
    assert!(!page.html.contains("://"), "no address of anything");
    assert!(page.said.contains("pictures.html: ") && page.said.contains(" columns of "));
    let names: Vec<_> =
        page.header["metrics"].as_array().unwrap().iter().map(|m| m["name"].clone()).collect();
    assert!(names.contains(&"pictures.constant".into()), "{names:?}");
    let mut constant = page.values("pictures.constant");
    constant.dedup();
    assert_eq!(constant, [42.0]);
    let large = page.values("pictures.large");
    assert!(large.contains(&(2f64.powi(63) + 2f64.powi(62))));
    assert_eq!(page.values("pictures.once"), [7.0]);
    let spikes = page.values("pictures.spike").into_iter().filter(|value| *value > 1e8).count();
    assert_eq!(spikes, 1);
}

#[test]
fn what_archives_have_is_not_part_of_the_html() {
    let (_directory, base) = pictures::archive();
    let page = page(&base, "hostile.html", &[]);
    let header = page.header.to_string();
    assert!(header.contains(pictures::HOSTILE.replace('"', "\\\"").as_str()), "{header}");
    for text in ["pictures", "alert", "onerror", "example.com"] {
        assert!(!page.html.contains(text), "{text}");
    }
    assert_eq!(page.html.matches("</script>").count(), 2);
}

#[test]
fn nothing_is_joined_over_a_mark() {
    let (_directory, base) = pictures::archive();
    let page = page(&base, "gap.html", &["pictures.wave"]);
    let cells = page.cells("pictures.wave");
    let parted = cells.iter().filter(|(bounds, joined)| bounds.is_some() && !joined).count();
    assert_eq!(parted, 2, "the first value, and the one after the mark");
    assert_eq!(page.header["marks"].as_array().unwrap().len(), 1);
}

#[test]
fn the_limit_of_the_size_decides_the_resolution() {
    let (_directory, base) = pictures::archive();
    let whole = page(&base, "whole.html", &[]);
    assert!(!whole.said.contains("--max-size"), "{}", whole.said);
    let limit = whole.html.len() * 9 / 10;
    let small = page(&base, "small.html", &["--max-size", &limit.to_string()]);
    assert!(small.html.len() <= limit);
    let columns = |page: &Page| page.header["columns"].as_u64().unwrap();
    assert!(columns(&small) < columns(&whole));
    assert!(small.said.contains(&format!("{} would be possible", columns(&whole))));
    // A value that only one record has is there at any resolution.
    assert!(small.values("pictures.spike").contains(&1e9));
    let path = place("none.html");
    let output = run(&base, &path, &["--max-size", "1K"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!path.exists());
}

#[test]
fn histograms_are_maps_of_what_they_counted() {
    let (_directory, base) = programs::shop(true);
    let page = page(&base, "shop.html", &["mmv"]);
    let heat = &page.header["heats"][0];
    assert_eq!(heat["name"], "mmv.shop.latency");
    let counted: f64 =
        heat["cells"].as_array().unwrap().iter().map(|cell| cell[2].as_f64().unwrap()).sum();
    let buckets = heat["buckets"].as_array().unwrap().len();
    assert_eq!((counted, buckets), (36.0, 3), "{heat}");
    let events = page.header["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["kind"] == "appeared" && event["file"] == "shop"));
    let names: Vec<_> = page.header["metrics"].as_array().unwrap().iter().collect();
    assert!(names.iter().all(|metric| metric["name"] != "mmv.shop.latency.bucket"));
}

#[test]
fn a_window_is_all_that_is_in_it() {
    let (_directory, base) = pictures::archive();
    let page = page(&base, "window.html", &["-S", "60s", "-T", "30s", "pictures.wave"]);
    let length = page.header["end"].as_f64().unwrap() - page.header["start"].as_f64().unwrap();
    assert!((length - 30.0).abs() < 1e-6);
}

#[test]
fn what_cannot_be_written_is_an_error_and_leaves_nothing() {
    let (directory, base) = pictures::archive();
    let status = |output: &Path, arguments: &[&str]| run(&base, output, arguments).status.code();
    let page = directory.path().join("page.html");
    assert_eq!(status(&page, &["no.such.metric"]), Some(1));
    assert_eq!(status(&page, &["pictures.text"]), Some(1));
    assert_eq!(status(Path::new("/nonexistent/page.html"), &[]), Some(74));
    assert_eq!(status(&page, &["--max-size", "many"]), Some(2));
    std::fs::create_dir(&page).unwrap();
    assert_eq!(status(&page, &[]), Some(74), "a directory of that name");
    let hidden = std::fs::read_dir(directory.path()).unwrap().flatten();
    let hidden: Vec<_> =
        hidden.filter(|file| file.file_name().as_encoded_bytes()[0] == b'.').collect();
    assert!(hidden.is_empty(), "{hidden:?}");
}

#[test]
fn a_single_record_has_a_page() {
    let archive = Builder::named("one")
        .metric("one.value", "u32 instant")
        .row(0, [("one.value", 5)])
        .finish();
    assert_eq!(page(&archive, "one.html", &[]).values("one.value"), [5.0]);
}
