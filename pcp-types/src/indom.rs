//! Instance domains and instances (`pmInDom`, `src/include/pcp/libpcp.h`).
//!
//! | bit 31 | bits 30..22 | bits 21..0 |
//! |---|---|---|
//! | flag, 0 | domain | serial |

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// An instance domain's identifier: domain and serial in one 32-bit word.
///
/// Prints and parses as `70.2051`. A metric without instances has
/// `Option::<InDom>::None`; the word 0xffffffff (`PM_INDOM_NULL`) exists only
/// in files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InDom(u32);

impl InDom {
    /// The largest serial number: 22 bits.
    pub const MAX_SERIAL: u32 = 0x3f_ffff;
    /// `PM_INDOM_NULL`, the word that stands for "no instance domain".
    pub const NULL_RAW: u32 = u32::MAX;

    /// Puts the two parts together.
    ///
    /// # Errors
    ///
    /// [`Error::PartTooLarge`] if a part does not fit its bits.
    pub const fn new(domain: u32, serial: u32) -> Result<Self, Error> {
        let (part, found, max) = if domain > crate::Pmid::MAX_DOMAIN {
            ("domain", domain, crate::Pmid::MAX_DOMAIN)
        } else if serial > Self::MAX_SERIAL {
            ("serial", serial, Self::MAX_SERIAL)
        } else {
            return Ok(Self(domain << 22 | serial));
        };
        Err(Error::PartTooLarge { part, found, max })
    }

    /// Returns the domain of a word of a file; `None` for 0xffffffff.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        if raw == Self::NULL_RAW { None } else { Some(Self(raw)) }
    }

    /// Returns the 32-bit word.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Returns the word for an optional domain: 0xffffffff for `None`.
    pub fn option_raw(indom: Option<Self>) -> u32 {
        indom.map_or(Self::NULL_RAW, Self::raw)
    }

    /// Returns the domain number, 0..=511: which agent the instances come from.
    pub const fn domain(self) -> u32 {
        self.0 >> 22 & crate::Pmid::MAX_DOMAIN
    }

    /// Returns the serial, 0..=4 194 303.
    pub const fn serial(self) -> u32 {
        self.0 & Self::MAX_SERIAL
    }
}

impl fmt::Display for InDom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.domain(), self.serial())
    }
}

impl fmt::Debug for InDom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InDom({self})")
    }
}

impl FromStr for InDom {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let syntax = || Error::Syntax { what: "indom", text: text.to_owned() };
        let (domain, serial) = text.split_once('.').ok_or_else(syntax)?;
        let number = |part: &str| part.parse::<u32>().map_err(|_| syntax());
        Self::new(number(domain)?, number(serial)?)
    }
}

/// An instance's number within its domain (internal instance identifier),
/// never negative.
///
/// The value of a singular metric has `Option::<InstanceId>::None`; the word
/// 0xffffffff (`PM_IN_NULL`) exists only in files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(i32);

impl InstanceId {
    /// `PM_IN_NULL`, the word that stands for "no instance".
    pub const NULL_RAW: u32 = u32::MAX;

    /// Returns an instance number.
    ///
    /// # Errors
    ///
    /// [`Error::NegativeInstance`] below 0.
    pub const fn new(id: i32) -> Result<Self, Error> {
        if id < 0 { Err(Error::NegativeInstance(id)) } else { Ok(Self(id)) }
    }

    /// Returns the number, 0..=2 147 483 647.
    pub const fn get(self) -> i32 {
        self.0
    }

    /// Returns the word that stands for an optional instance in a file.
    pub fn option_raw(instance: Option<Self>) -> u32 {
        instance.map_or(Self::NULL_RAW, |id| id.0.cast_unsigned())
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InstanceId({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_the_one_pcp_writes() {
        let indom = InDom::new(400, 7).unwrap();
        assert_eq!(indom.raw(), 0x6400_0007);
        assert_eq!(indom.to_string(), "400.7");
        assert_eq!(InDom::new(70, 1 << 11 | 3).unwrap().to_string(), "70.2051");
    }

    #[test]
    fn the_null_word_is_none_and_back() {
        assert_eq!(InDom::from_raw(u32::MAX), None);
        assert_eq!(InDom::option_raw(None), u32::MAX);
        assert_eq!(InstanceId::option_raw(None), u32::MAX);
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert!(InDom::new(511, InDom::MAX_SERIAL).is_ok());
        assert!(InDom::new(512, 0).is_err());
        assert!(InDom::new(0, InDom::MAX_SERIAL + 1).is_err());
        assert!(InstanceId::new(-1).is_err());
        assert_eq!(InstanceId::new(i32::MAX).unwrap().get(), i32::MAX);
    }

    #[test]
    fn text_reads_back_and_other_text_is_refused() {
        assert_eq!("70.2051".parse::<InDom>().unwrap(), InDom::new(70, 2051).unwrap());
        for bad in ["", "70", "70.", ".1", "70.1.2", "70.4194304"] {
            assert!(bad.parse::<InDom>().is_err(), "{bad}");
        }
    }
}
