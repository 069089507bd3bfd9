//! Flows in the order in which they came, in one array of links: no allocation.

/// "No flow."
pub(crate) const NIL: u32 = u32::MAX;

/// Each flow's neighbours in the list that it is in; a flow is in one list at most.
#[derive(Debug, Clone)]
pub(crate) struct Links {
    links: Vec<Link>,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
}

/// One list; its links are in the [`Links`] given to each call, always the same.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl Links {
    pub(crate) fn new(flows: u32) -> Self {
        Self { links: vec![Link { previous: NIL, next: NIL }; flows as usize] }
    }
}

impl List {
    pub(crate) const EMPTY: Self = Self { first: NIL, last: NIL };

    pub(crate) fn first(self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    /// The flow must be in no list.
    pub(crate) fn push(&mut self, links: &mut Links, flow: u32) {
        links.links[flow as usize] = Link { previous: self.last, next: NIL };
        if self.last == NIL {
            self.first = flow;
        } else {
            links.links[self.last as usize].next = flow;
        }
        self.last = flow;
    }

    /// The flow must be in this list.
    pub(crate) fn remove(&mut self, links: &mut Links, flow: u32) {
        let Link { previous, next } = links.links[flow as usize];
        if previous == NIL {
            self.first = next;
        } else {
            links.links[previous as usize].next = next;
        }
        if next == NIL {
            self.last = previous;
        } else {
            links.links[next as usize].previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_list(steps in prop::collection::vec(0..8u32, 0..100)) {
            let mut links = Links::new(8);
            let mut list = List::EMPTY;
            let mut model = VecDeque::new();
            for flow in steps {
                if let Some(at) = model.iter().position(|&other| other == flow) {
                    list.remove(&mut links, flow);
                    model.remove(at);
                } else {
                    list.push(&mut links, flow);
                    model.push_back(flow);
                }
                prop_assert_eq!(list.first(), model.front().copied());
                prop_assert_eq!(list.last, model.back().copied().unwrap_or(NIL));
            }
        }
    }
}
