//! Generalized processor sharing (Parekh and Gallager 1993): the fluid that fair schedulers come
//! near to. All backlogged flows are served at once, each at link rate x weight / sum of the
//! backlogged flows' weights. Floats are right here: nothing accumulates over more than some
//! thousand events, and the bounds tested are hundreds of bytes wide.

use super::Arrival;

/// The fluid system on a link of one byte per ns, moved forward in time.
pub struct Fluid<'a> {
    weights: Vec<f64>,
    backlog: Vec<f64>,
    served: Vec<f64>,
    now_ns: f64,
    arrivals: &'a [Arrival],
}

impl<'a> Fluid<'a> {
    pub fn new(weights: &[u32], arrivals: &'a [Arrival]) -> Self {
        Self {
            weights: weights.iter().map(|&weight| weight.into()).collect(),
            backlog: vec![0.0; weights.len()],
            served: vec![0.0; weights.len()],
            now_ns: 0.0,
            arrivals,
        }
    }

    /// Bytes of each flow served until then.
    pub fn served_at(&mut self, at_ns: u64) -> &[f64] {
        let at_ns = at_ns as f64;
        while let [arrival, later @ ..] = self.arrivals {
            if arrival.at_ns as f64 > at_ns {
                break;
            }
            self.flow_until(arrival.at_ns as f64);
            self.backlog[arrival.frame.flow as usize] += f64::from(arrival.frame.bytes);
            self.arrivals = later;
        }
        self.flow_until(at_ns);
        &self.served
    }

    /// Whether every flow has something left.
    pub fn all_backlogged(&self) -> bool {
        self.backlog.iter().all(|&bytes| bytes > 0.0)
    }

    /// Without arrivals: in stretches that end when a flow has nothing left.
    fn flow_until(&mut self, at_ns: f64) {
        while self.now_ns < at_ns {
            let active: Vec<_> =
                (0..self.backlog.len()).filter(|&i| self.backlog[i] > 0.0).collect();
            let sum: f64 = active.iter().map(|&i| self.weights[i]).sum();
            let rate = |i: usize| self.weights[i] / sum;
            let stretch_ns = active
                .iter()
                .map(|&i| self.backlog[i] / rate(i))
                .fold(at_ns - self.now_ns, f64::min);
            for &i in &active {
                let bytes = stretch_ns * rate(i);
                self.served[i] += bytes;
                self.backlog[i] -= bytes;
                if self.backlog[i] < 1e-6 {
                    self.backlog[i] = 0.0;
                }
            }
            self.now_ns = if active.is_empty() { at_ns } else { self.now_ns + stretch_ns };
        }
    }
}
