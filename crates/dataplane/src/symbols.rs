//! Names of functions by address.

use std::collections::{BTreeSet, HashMap};

use blazesym::{
    Pid,
    symbolize::{
        Input, Symbolized, Symbolizer,
        source::{Kernel, Process, Source},
    },
};

/// What a function is called whose name is not known.
pub(crate) const UNKNOWN: &str = "[unknown]";

/// Looks names up, and keeps what it has read for that.
pub(crate) struct Names(Symbolizer);

impl Names {
    pub(crate) fn new() -> Self {
        Self(Symbolizer::new())
    }

    /// Names of the kernel's functions, BPF programs among them, by address.
    pub(crate) fn of_kernel(
        &self,
        addresses: impl IntoIterator<Item = u64>,
    ) -> HashMap<u64, String> {
        self.names(&Source::Kernel(Kernel::default()), addresses)
    }

    /// Names of a process's functions by address; of one that has ended, none are known.
    pub(crate) fn of_process(
        &self,
        process: u32,
        addresses: impl IntoIterator<Item = u64>,
    ) -> HashMap<u64, String> {
        self.names(&Source::Process(Process::new(Pid::from(process))), addresses)
    }

    fn names(
        &self,
        source: &Source,
        addresses: impl IntoIterator<Item = u64>,
    ) -> HashMap<u64, String> {
        let addresses: Vec<u64> =
            addresses.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let Ok(found) = self.0.symbolize(source, Input::AbsAddr(&addresses)) else {
            return HashMap::new();
        };
        let name = |symbol: &Symbolized| match symbol {
            Symbolized::Sym(symbol) => Some(symbol.name.clone().into_owned()),
            Symbolized::Unknown(_) => None,
        };
        let named = addresses.iter().zip(&found);
        named.filter_map(|(&address, symbol)| Some((address, name(symbol)?))).collect()
    }
}

/// A chain of addresses, innermost first, as names, outermost first.
pub(crate) fn named(chain: &[u64], names: &HashMap<u64, String>) -> Vec<String> {
    let name = |address| names.get(address).map_or(UNKNOWN, String::as_str).to_owned();
    chain.iter().rev().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_process_by_address() {}

    #[test]
    fn a_function_of_this_process_has_its_name() {
        let address = of_process_by_address as *const () as u64;
        let found = Names::new().of_process(std::process::id(), [address, 8]);
        assert!(found[&address].contains("of_process_by_address"), "{found:?}");
        assert_eq!(named(&[8, address], &found)[1], UNKNOWN);
    }

    #[test]
    fn a_process_that_is_gone_has_no_names() {
        assert!(Names::new().of_process(u32::MAX / 2, [4096]).is_empty());
    }
}
