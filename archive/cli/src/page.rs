//! The page in which a browser shows metrics over time: with its data in one file, or fed by
//! a server.
//!
//! Nothing from an archive is part of the HTML: names and texts are in the data, and the script
//! writes them as text only. The content security policy allows this style and this script;
//! the page of a file cannot load anything, that of a server only from it.
//!
//! | module | contents |
//! |---|---|
//! | `sides` | the archives of a page, on one axis of time |
//! | `header` | what the page knows apart from values: metrics, events, the clock |
//! | `series` | what the series of an envelope are of |
//! | `heat` | what histograms counted |
//! | `movement` | what moves in the archives of a page, for the order of charts |
//! | `payload` | the data within a file |
//! | `tile` | the data that a server sends for a window |
//! | `numbers` | numbers as browsers store them |

mod gzip;
pub(crate) mod header;
pub(crate) mod heat;
pub(crate) mod movement;
mod numbers;
pub(crate) mod payload;
pub(crate) mod series;
pub(crate) mod sides;
pub(crate) mod tile;

use std::hash::{BuildHasher as _, RandomState};

use base64::prelude::{BASE64_STANDARD, Engine as _};

const HTML: &str = include_str!("page/page.html");
const CSS: &str = include_str!("page/page.css");
const SCRIPTS: [&str; 4] = [
    include_str!("page/data.js"),
    include_str!("page/draw.js"),
    include_str!("page/charts.js"),
    include_str!("page/page.js"),
];
/// The script of a page that contains its data, and of one that requests it.
const FROM_FILE: &str = include_str!("page/file.js");
const LIVE: &str = include_str!("page/live.js");

/// Returns the page with data: gzip, as in `page::payload`.
pub(crate) fn with_data(data: &[u8]) -> String {
    let nonce = nonce();
    let policy = format!("{}; connect-src 'none'", policy(&nonce));
    assembled(&nonce, &policy, data, FROM_FILE)
}

/// Returns the page that requests its data.
pub(crate) fn live(nonce: &str) -> String {
    assembled(nonce, &live_policy(nonce), &[], LIVE)
}

/// Returns the content security policy of a page, which may only load data from its own origin.
pub(crate) fn live_policy(nonce: &str) -> String {
    format!("{}; connect-src 'self'", policy(nonce))
}

fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
         base-uri 'none'; form-action 'none'"
    )
}

fn assembled(nonce: &str, policy: &str, data: &[u8], begin: &str) -> String {
    let mut page = String::with_capacity(HTML.len() + CSS.len() + data.len().div_ceil(3) * 4);
    // One pass, so that nothing inserted is looked at again.
    for (place, part) in HTML.split("@@").enumerate() {
        match (place % 2, part) {
            (0, text) => page.push_str(text),
            (_, "NONCE") => page.push_str(nonce),
            (_, "POLICY") => page.push_str(policy),
            (_, "CSS") => page.push_str(CSS),
            (_, "SCRIPT") => {
                SCRIPTS.iter().chain([&begin]).for_each(|script| push_code(&mut page, script));
            }
            (_, "DATA") => BASE64_STANDARD.encode_string(data, &mut page),
            (_, other) => unreachable!("{other} is not part of the page"),
        }
    }
    page
}

/// Adds a script without indentation and without the lines that are empty or comments. No text in a
/// script extends over several lines.
fn push_code(page: &mut String, script: &str) {
    let lines = script.split_inclusive('\n').map(|line| line.trim_start_matches(' '));
    page.extend(lines.filter(|line| *line != "\n" && !line.starts_with("//")));
}

/// Returns an unpredictable number for the content security policy.
fn nonce() -> String {
    format!("{:016x}{:016x}", RandomState::new().hash_one(0), RandomState::new().hash_one(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small() {
        let size = live("").len();
        println!("{size} bytes of page");
        assert!(size < 90_000, "{size} bytes");
    }

    /// The scripts are one: of two functions with one name the later one counts.
    #[test]
    fn no_two_functions_have_one_name() {
        let scripts = SCRIPTS.iter().chain([&FROM_FILE, &LIVE]);
        let lines = scripts.flat_map(|script| script.lines());
        let names = lines.filter_map(|line| {
            let line = line.strip_prefix("async ").unwrap_or(line);
            line.strip_prefix("function ")?.split('(').next()
        });
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert!(names.len() > 20 && twice.is_none(), "{twice:?}");
    }

    #[test]
    fn the_page_may_load_nothing() {
        let page = with_data(b"data");
        assert!(page.contains("default-src 'none'"), "{page}");
        for text in
            ["http:", "https:", "src=", "href=", "url(", "@import", "import(", "innerHTML", "eval("]
        {
            assert!(!page.contains(text), "{text}");
        }
        assert!(page.contains("ZGF0YQ=="));
        assert_ne!(with_data(b""), with_data(b""), "the nonce is another one each time");
    }
}
