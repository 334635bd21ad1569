//! A total that users share equally.

/// The most that each of some users may keep of what they have, so that all together keep at
/// most `most`.
pub(crate) fn fair_level(counts: &(impl Iterator<Item = usize> + Clone), most: usize) -> usize {
    let kept = |level: usize| counts.clone().map(|count| count.min(level)).sum::<usize>();
    let (mut fits, mut highest) = (0, most);
    while fits < highest {
        let middle = fits + (highest - fits).div_ceil(2);
        if kept(middle) <= most {
            fits = middle;
        } else {
            highest = middle - 1;
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_little_keeps_it_and_the_others_keep_equal_parts() {
        for (counts, most, level) in [
            (&[3, 100, 50][..], 43, 20),
            (&[3, 100, 50], 153, 153),
            (&[3, 100, 50], 1_000, 1_000),
            (&[7; 100], 99, 0),
            (&[7; 100], 250, 2),
            (&[], 10, 10),
        ] {
            assert_eq!(fair_level(&counts.iter().copied(), most), level, "{counts:?} {most}");
        }
    }
}
