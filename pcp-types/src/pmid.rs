//! Metric identifiers (`pmID`, `src/include/pcp/libpcp.h`).
//!
//! | bit 31 | bits 30..22 | bits 21..10 | bits 9..0 |
//! |---|---|---|---|
//! | flag, 0 | domain | cluster | item |

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// A metric's identifier: domain, cluster and item in one 32-bit word.
///
/// Prints and parses as `70.2.17`, each part in decimal. Ordered as the word
/// is, so by domain, then cluster, then item.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pmid(u32);

impl Pmid {
    /// The largest domain number: 9 bits.
    pub const MAX_DOMAIN: u32 = 0x1ff;
    /// The largest cluster number: 12 bits.
    pub const MAX_CLUSTER: u32 = 0xfff;
    /// The largest item number: 10 bits.
    pub const MAX_ITEM: u32 = 0x3ff;

    /// Puts the three parts together.
    ///
    /// # Errors
    ///
    /// [`Error::PartTooLarge`] if a part does not fit its bits.
    pub const fn new(domain: u32, cluster: u32, item: u32) -> Result<Self, Error> {
        let (part, found, max) = if domain > Self::MAX_DOMAIN {
            ("domain", domain, Self::MAX_DOMAIN)
        } else if cluster > Self::MAX_CLUSTER {
            ("cluster", cluster, Self::MAX_CLUSTER)
        } else if item > Self::MAX_ITEM {
            ("item", item, Self::MAX_ITEM)
        } else {
            return Ok(Self(domain << 22 | cluster << 10 | item));
        };
        Err(Error::PartTooLarge { part, found, max })
    }

    /// Returns the identifier of a 32-bit word in a file. Every word is accepted: the flag bit is
    /// kept and compares unequal.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// Returns the 32-bit word.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Returns the domain, 0..=511: which agent the metric comes from.
    pub const fn domain(self) -> u32 {
        self.0 >> 22 & Self::MAX_DOMAIN
    }

    /// Returns the cluster, 0..=4095.
    pub const fn cluster(self) -> u32 {
        self.0 >> 10 & Self::MAX_CLUSTER
    }

    /// Returns the item, 0..=1023.
    pub const fn item(self) -> u32 {
        self.0 & Self::MAX_ITEM
    }
}

impl fmt::Display for Pmid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.domain(), self.cluster(), self.item())
    }
}

impl fmt::Debug for Pmid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pmid({self})")
    }
}

impl FromStr for Pmid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let syntax = || Error::Syntax { what: "pmid", text: text.to_owned() };
        let mut parts = text.split('.').map(|part| part.parse::<u32>().map_err(|_| syntax()));
        let mut next = || parts.next().unwrap_or_else(|| Err(syntax()));
        let pmid = Self::new(next()?, next()?, next()?)?;
        if parts.next().is_some() {
            return Err(syntax());
        }
        Ok(pmid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_the_one_pcp_writes() {
        let pmid = Pmid::new(400, 1, 1).unwrap();
        assert_eq!(pmid.raw(), 0x6400_0401);
        assert_eq!(pmid.to_string(), "400.1.1");
        assert_eq!(Pmid::new(2, 3, 3).unwrap().raw(), 0x0080_0c03);
    }

    #[test]
    fn each_part_is_refused_one_above_its_maximum() {
        assert!(Pmid::new(511, 4095, 1023).is_ok());
        assert!(matches!(Pmid::new(512, 0, 0), Err(Error::PartTooLarge { part: "domain", .. })));
        assert!(matches!(Pmid::new(0, 4096, 0), Err(Error::PartTooLarge { part: "cluster", .. })));
        assert!(matches!(Pmid::new(0, 0, 1024), Err(Error::PartTooLarge { part: "item", .. })));
    }

    #[test]
    fn text_reads_back_and_other_text_is_refused() {
        assert_eq!("70.2.17".parse::<Pmid>().unwrap(), Pmid::new(70, 2, 17).unwrap());
        for bad in ["", "70", "70.2", "70.2.17.1", "70.2.x", "70..1", "-1.0.0"] {
            assert!(bad.parse::<Pmid>().is_err(), "{bad}");
        }
    }
}
