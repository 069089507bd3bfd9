//! The command line.

use std::str::FromStr;

use super::{Failure, Result, nic::Address};

const KNOWN: [&str; 7] = ["core", "size", "sizes", "sizes-of", "to-mac", "from-mac", "pace"];

/// Words, and options with a value each, in any order.
pub struct Arguments {
    pub words: Vec<String>,
    options: Vec<(String, String)>,
}

impl Arguments {
    pub fn of(mut given: impl Iterator<Item = String>) -> Result<Self> {
        let mut found = Self { words: Vec::new(), options: Vec::new() };
        while let Some(word) = given.next() {
            let Some(name) = word.strip_prefix("--") else {
                found.words.push(word);
                continue;
            };
            if !KNOWN.contains(&name) {
                return Err(Failure::new(format!("option {word} is unknown")));
            }
            let value = given.next().ok_or_else(|| Failure::new(format!("{word} has no value")))?;
            found.options.push((name.to_owned(), value));
        }
        Ok(found)
    }

    /// A word that must be there.
    pub fn word(&self, index: usize, name: &str) -> Result<&str> {
        let word = self.words.get(index).map(String::as_str);
        word.ok_or_else(|| Failure::new(format!("{name} is missing")))
    }

    /// All values of an option.
    pub fn options<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.options.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The last value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options(name).last()
    }

    /// The value of an option that must be there.
    pub fn needed(&self, name: &str) -> Result<&str> {
        self.option(name).ok_or_else(|| Failure::new(format!("--{name} is missing")))
    }

    /// An address that must be there.
    pub fn address(&self, name: &str) -> Result<Address> {
        address(self.needed(name)?)
    }
}

pub fn number<T: FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| Failure::new(format!("{text} is no number")))
}

pub fn address(text: &str) -> Result<Address> {
    let wrong = || Failure::new(format!("{text} is no MAC address"));
    let octets = text.split(':').map(|octet| u8::from_str_radix(octet, 16));
    let octets: Vec<u8> = octets.collect::<std::result::Result<_, _>>().map_err(|_| wrong())?;
    octets.try_into().map_err(|_| wrong())
}
