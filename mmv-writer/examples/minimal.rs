//! The smallest instrumented program: one counter. `ci/size` measures what that
//! adds to a program.

fn main() -> Result<(), mmv_writer::Error> {
    let registry = mmv_writer::Registry::builder("minimal").sealed().lenient().build()?;
    let turns = registry.counter("turns").build()?;
    registry.publish()?;
    (0..std::env::args().count()).for_each(|_| turns.inc());
    Ok(())
}
