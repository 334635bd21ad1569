//! The page in which a browser shows metrics over time: one file, with its data.
//!
//! Nothing from an archive is part of the HTML: names and texts are in the compressed data,
//! as base64, and the script writes them as text only. The content security policy allows
//! this style and this script and nothing else; the page cannot load anything.

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

/// The page with data: gzip, as in `commands::snapshot`.
pub(crate) fn with_data(data: &[u8]) -> String {
    let nonce = nonce();
    let mut page = String::with_capacity(HTML.len() + CSS.len() + data.len().div_ceil(3) * 4);
    // One pass, so that nothing inserted is looked at again.
    for (place, part) in HTML.split("@@").enumerate() {
        match (place % 2, part) {
            (0, text) => page.push_str(text),
            (_, "NONCE") => page.push_str(&nonce),
            (_, "CSS") => page.push_str(CSS),
            (_, "SCRIPT") => SCRIPTS.iter().for_each(|script| page.push_str(script)),
            (_, "DATA") => BASE64_STANDARD.encode_string(data, &mut page),
            (_, other) => unreachable!("{other} is not part of the page"),
        }
    }
    page
}

/// A number that nobody can know in advance, for the content security policy.
fn nonce() -> String {
    let random = || RandomState::new().hash_one(0);
    format!("{:016x}{:016x}", random(), random())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small() {
        let size =
            HTML.len() + CSS.len() + SCRIPTS.iter().map(|script| script.len()).sum::<usize>();
        assert!(size < 80_000, "{size} bytes");
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
