//! Time zones by their names and rules.

use jiff::tz::TimeZone;

use crate::ArgumentError;

/// Returns the local zone. Without TZ the system's own file is read, and the time zone database is
/// not searched for its name, which takes longer than most commands.
pub fn local() -> TimeZone {
    if std::env::var_os("TZ").is_some() {
        return TimeZone::system();
    }
    let file = std::fs::read("/etc/localtime").ok();
    let zone = file.and_then(|file| TimeZone::tzif("Local", &file).ok());
    zone.unwrap_or_else(TimeZone::system)
}

/// Returns a zone by its name in the time zone database, also with the colon of `:Area/City`, or by
/// a POSIX rule. UTC and GMT need no database.
///
/// # Errors
///
/// [`ArgumentError::Usage`] for a zone that does not exist.
pub fn named(name: &str) -> Result<TimeZone, ArgumentError> {
    let plain = name.strip_prefix(':').unwrap_or(name);
    if plain == "UTC" || plain == "GMT" {
        return at_zero(plain);
    }
    TimeZone::get(plain).or_else(|_| TimeZone::posix(plain)).map_err(|_| {
        ArgumentError::Usage(format!(
            "\"{name}\" is not a time zone: neither a name such as Europe/Berlin, \
             nor a POSIX rule with an offset such as PST8PDT"
        ))
    })
}

/// Returns a zone of this abbreviation with the clock of UTC.
///
/// # Errors
///
/// [`ArgumentError::Usage`] for text that is not an abbreviation.
pub fn at_zero(abbreviation: &str) -> Result<TimeZone, ArgumentError> {
    TimeZone::posix(&format!("{abbreviation}+0"))
        .map_err(|_| ArgumentError::Usage(format!("\"{abbreviation}\" is not a time zone")))
}
