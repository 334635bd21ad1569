//! A grid of Braille cells, two dots wide and four high.

/// Dots, returned as lines of Braille characters.
#[derive(Debug)]
pub(crate) struct Canvas {
    columns: usize,
    rows: usize,
    /// One Braille pattern per cell, row by row.
    cells: Vec<u8>,
}

/// The bit of each dot of a cell, by column and row from the top left, in the order
/// of the Unicode block "Braille Patterns".
const DOT: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

impl Canvas {
    pub(crate) fn new(columns: usize, rows: usize) -> Self {
        Self { columns, rows, cells: vec![0; columns * rows] }
    }

    pub(crate) fn dots_wide(&self) -> usize {
        self.columns * 2
    }

    pub(crate) fn dots_high(&self) -> usize {
        self.rows * 4
    }

    /// Sets the dot at `x` from the left and `y` from the top.
    fn set(&mut self, x: usize, y: usize) {
        if x >= self.dots_wide() {
            return;
        }
        let bit = DOT[x % 2][y % 4];
        if let Some(cell) = self.cells.get_mut(y / 4 * self.columns + x / 2) {
            *cell |= bit;
        }
    }

    /// Sets all dots from one dot to another.
    pub(crate) fn line(&mut self, from: (usize, usize), to: (usize, usize)) {
        let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1));
        for step in 0..=steps {
            self.set(between(from.0, to.0, step, steps), between(from.1, to.1, step, steps));
        }
    }

    /// Returns a row of characters; cells without a dot are blanks.
    pub(crate) fn row(&self, row: usize) -> String {
        let cells = self.cells.iter().skip(row * self.columns).take(self.columns);
        cells
            .map(|&dots| match dots {
                0 => ' ',
                _ => char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' '),
            })
            .collect()
    }
}

/// Returns the coordinate after `step` of `steps` equal steps, rounded.
fn between(from: usize, to: usize, step: usize, steps: usize) -> usize {
    if steps == 0 {
        return from;
    }
    let moved = (from.abs_diff(to) * step + steps / 2) / steps;
    if to >= from { from + moved } else { from - moved }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eight_dots_of_a_cell_are_those_of_unicode() {
        for (x, y, character) in [
            (0, 0, '\u{2801}'),
            (0, 1, '\u{2802}'),
            (0, 2, '\u{2804}'),
            (1, 0, '\u{2808}'),
            (1, 1, '\u{2810}'),
            (1, 2, '\u{2820}'),
            (0, 3, '\u{2840}'),
            (1, 3, '\u{2880}'),
        ] {
            let mut canvas = Canvas::new(1, 1);
            canvas.set(x, y);
            assert_eq!(canvas.row(0), character.to_string());
        }
    }

    #[test]
    fn a_diagonal_sets_one_dot_a_step() {
        let mut canvas = Canvas::new(2, 1);
        canvas.line((3, 0), (0, 3));
        assert_eq!(canvas.row(0), "\u{2860}\u{280a}");
    }

    #[test]
    fn dots_outside_are_ignored() {
        let mut canvas = Canvas::new(1, 1);
        canvas.set(2, 0);
        canvas.set(0, 4);
        assert_eq!(canvas.row(0), " ");
    }
}
