//! The smallest instrumented program: one counter. `ci/size` measures what that
//! adds to a program.

fn main() -> Result<(), mmv_writer::Error> {
    let registry = mmv_writer::Registry::builder("minimal").lenient().build()?;
    let turns = registry.counter::<u64>("turns").build()?;
    let _published = registry.publish()?;
    (0..std::env::args().count()).for_each(|_| turns.inc());
    Ok(())
}
