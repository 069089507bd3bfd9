//! The credit scheduler of the old Xen netback (linux-2.6.18-xen, drivers/xen/netback/netback.c:
//! `net_tx_action`, `tx_add_credit`).
//!
//! Flows are served packet by packet. Each packet takes its length from the flow's credit; when the
//! credit does not suffice the flow leaves the order until a callback, one period after the last,
//! gives it the next credit. Unused credit is lost beyond one period's worth or, if that is longer, the
//! head packet's length. There is no minimum and no share: without `rate_max_bps` it is round robin,
//! or a lottery.

use super::{Choice, Decide};
use crate::{
    BYTE_NS, Prng,
    config::{FlowSettings, Order},
    heap::Heap,
    links::{Links, List},
    packet::Packet,
    queues::Queues,
};

#[derive(Debug, Clone)]
pub(crate) struct Credit {
    period_ns: u64,
    flows: Vec<Flow>,
    ready: Ready,
    /// Flows out of credit by the time of their callback, ns.
    callbacks: Heap,
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    /// Per period; `None`: no limit.
    credit_bytes: Option<u64>,
    remaining_bytes: u64,
    period_began_ns: u64,
}

impl Flow {
    fn add_credit(&mut self, head_bytes: u64) {
        let credit_bytes = self.credit_bytes.unwrap_or(u64::MAX);
        let max_bytes = credit_bytes.max(head_bytes);
        self.remaining_bytes = self.remaining_bytes.saturating_add(credit_bytes).min(max_bytes);
    }
}

/// Backlogged flows that are not waiting for a callback.
#[derive(Debug, Clone)]
enum Ready {
    InTurn(Links, List),
    /// The flows, the generator, and where in `flows` the one drawn is.
    Random {
        flows: Vec<u32>,
        generator: Prng,
        drawn: Option<usize>,
    },
}

impl Ready {
    fn insert(&mut self, flow: u32) {
        match self {
            Self::InTurn(links, list) => list.push(links, flow),
            Self::Random { flows, .. } => flows.push(flow),
        }
    }

    /// Who is next; the same until it is taken out.
    fn peek(&mut self) -> Option<u32> {
        match self {
            Self::InTurn(_, list) => list.first(),
            Self::Random { flows, .. } if flows.is_empty() => None,
            Self::Random { flows, generator, drawn } => {
                let len = u32::try_from(flows.len()).expect("each flow once");
                Some(flows[*drawn.get_or_insert_with(|| generator.below(len) as usize)])
            }
        }
    }

    /// Takes out the flow that `peek` gave.
    fn take(&mut self, flow: u32) {
        match self {
            Self::InTurn(links, list) => list.remove(links, flow),
            Self::Random { flows, drawn, .. } => {
                let at = drawn.take().expect("taken after it was drawn");
                flows.swap_remove(at);
            }
        }
    }
}

impl Credit {
    pub(crate) fn new(flows: u32, period_ns: u64, order: Order) -> Self {
        let unlimited = Flow { credit_bytes: None, remaining_bytes: 0, period_began_ns: 0 };
        let ready = match order {
            Order::InTurn => Ready::InTurn(Links::new(flows), List::EMPTY),
            Order::Random(generator) => {
                Ready::Random { flows: Vec::with_capacity(flows as usize), generator, drawn: None }
            }
        };
        Self {
            period_ns,
            flows: vec![unlimited; flows as usize],
            ready,
            callbacks: Heap::new(flows),
        }
    }

    /// Per period; at least a byte, so that no flow waits for ever.
    fn credit_bytes(&self, rate_bps: u64) -> u64 {
        let bytes = u128::from(rate_bps) * u128::from(self.period_ns) / u128::from(BYTE_NS);
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }

    #[inline]
    fn run_callbacks<P: Packet>(&mut self, queues: &Queues<P>, now_ns: u64) {
        while let Some((due_ns, flow)) = self.callbacks.pop_until(now_ns) {
            let state = &mut self.flows[flow as usize];
            state.period_began_ns = due_ns;
            state.add_credit(queues.head_bytes(flow).unwrap_or(0).into());
            self.ready.insert(flow);
        }
    }

    /// Whether the flow's head may go; if not, when its callback is due.
    fn admit(&mut self, flow: u32, head_bytes: u64, now_ns: u64) -> Result<(), u64> {
        let state = &mut self.flows[flow as usize];
        if state.credit_bytes.is_none() {
            return Ok(());
        }
        if head_bytes > state.remaining_bytes
            && now_ns >= state.period_began_ns.saturating_add(self.period_ns)
        {
            state.period_began_ns = now_ns;
            state.add_credit(head_bytes);
        }
        if head_bytes <= state.remaining_bytes {
            Ok(())
        } else {
            Err(state.period_began_ns.saturating_add(self.period_ns))
        }
    }
}

impl Decide for Credit {
    fn backlogged<P: Packet>(&mut self, _: &Queues<P>, flow: u32, _now_ns: u64) {
        self.ready.insert(flow);
    }

    fn choose<P: Packet>(&mut self, queues: &Queues<P>, now_ns: u64) -> Choice {
        if queues.are_empty() {
            return Choice::Empty; // and who has nothing waits for no callback
        }
        self.run_callbacks(queues, now_ns);
        while let Some(flow) = self.ready.peek() {
            let head_bytes = queues.head_bytes(flow).expect("a ready flow is backlogged");
            match self.admit(flow, head_bytes.into(), now_ns) {
                Ok(()) => return Choice::Serve(flow),
                Err(callback_ns) => {
                    self.ready.take(flow);
                    self.callbacks.push(callback_ns, flow);
                }
            }
        }
        self.callbacks.first().map_or(Choice::Empty, |(until_ns, _)| Choice::Wait { until_ns })
    }

    fn served<P: Packet>(&mut self, queues: &Queues<P>, flow: u32, bytes: u32, _now_ns: u64) {
        let state = &mut self.flows[flow as usize];
        if state.credit_bytes.is_some() {
            state.remaining_bytes -= u64::from(bytes);
        }
        self.ready.take(flow);
        if !queues.is_empty(flow) {
            self.ready.insert(flow);
        }
    }

    /// What has been given stays, up to the new credit; the rest comes with the next period. A flow
    /// that had no limit begins with a period's credit.
    fn set<P: Packet>(&mut self, _: &Queues<P>, flow: u32, settings: &FlowSettings, now_ns: u64) {
        let credit_bytes = settings.rate_max_bps.map(|rate_bps| self.credit_bytes(rate_bps));
        let state = &mut self.flows[flow as usize];
        if state.credit_bytes.is_none() {
            state.remaining_bytes = u64::MAX;
            state.period_began_ns = now_ns;
        }
        state.credit_bytes = credit_bytes;
        state.remaining_bytes = state.remaining_bytes.min(credit_bytes.unwrap_or(u64::MAX));
        if self.callbacks.remove(flow) {
            // It may have no limit now; if it has, it goes back to where it was.
            self.ready.insert(flow);
        }
    }
}
