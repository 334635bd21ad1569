//! What moves in the archives of a page, for the order of its programs and charts.

use std::collections::BTreeMap;

use pcp_archive::scan::Selection;
use serde::Serialize;

use super::sides::Side;
use crate::Failure;
use crate::movement::{Movement, MovementLimits, Movements};
use crate::time::Window;

/// What moves in a window of all sides.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PageMovements {
    /// The largest one of any side, by the name of the program.
    programs: BTreeMap<String, f64>,
    metrics: Vec<SideMovement>,
}

#[derive(Debug, Serialize)]
struct SideMovement {
    side: usize,
    #[serde(flatten)]
    movement: Movement,
}

impl PageMovements {
    /// Adds what moves in a window of the page, of the programs of the side at a place.
    ///
    /// # Errors
    ///
    /// Those of the reader.
    pub(crate) fn add(
        &mut self,
        place: usize,
        side: &Side,
        selection: Selection<'_>,
        window: Window,
    ) -> Result<(), Failure> {
        let own = side.own_window(window);
        let found = Movements::read(selection, (own.start, own.end), MovementLimits::PAGE)?;
        for (program, size) in found.programs {
            let most = self.programs.entry(program).or_default();
            *most = most.max(size);
        }
        for movement in found.metrics {
            self.metrics.push(SideMovement { side: place, movement });
        }
        Ok(())
    }
}
