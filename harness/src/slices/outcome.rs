// SPDX-License-Identifier: GPL-2.0-or-later
//! Results of slices: values of each slice, and values of the whole load.

use anyhow::Result;
use hdrhistogram::Histogram;

use super::metric;
use crate::load::{curve, Burst};
use crate::runner::{Metric, Workload};

/// Results of one slice of a subject.
#[derive(Debug)]
pub struct Slice {
    pub burst: Burst,
    /// Packets that the kernel handed to the firewall; None without a firewall.
    pub packets: Option<u64>,
    /// CPU time of all threads of the firewall; None without a firewall.
    pub cpu_us: Option<f64>,
}

/// Measured values of a slice, with the slice's round, position and subject.
pub struct Placed {
    pub round: u32,
    /// Position of the slice within its round, from 1.
    pub position: u32,
    /// Index of the subject in the experiment.
    pub index: usize,
    pub metrics: Vec<Metric>,
}

/// Result of one subject over the whole load.
#[derive(Default)]
pub struct Whole {
    sent: u64,
    arrived: u64,
    packets: u64,
    latencies: Option<Histogram<u64>>,
    pub receiver_drops: u64,
    /// Packets that the queue dropped; None without a firewall.
    pub queue_drops: Option<u64>,
    pub memory_mib: Option<f64>,
}

pub struct SlicedOutcome {
    workload: Workload,
    /// Number of complete counted rounds.
    pub rounds: u32,
    pub slices: Vec<Placed>,
    /// Results over the whole load, by the subject's index.
    pub wholes: Vec<Whole>,
    pub incidents: Vec<String>,
    /// Raw output to store: (index of the subject, name, contents).
    pub raw: Vec<(usize, String, String)>,
}

impl Slice {
    pub fn of(burst: Burst) -> Slice {
        Slice {
            burst,
            packets: None,
            cpu_us: None,
        }
    }

    /// Returns the values of this slice, the workload's main metric first.
    pub fn metrics(&self, workload: Workload) -> Vec<Metric> {
        let burst = &self.burst;
        let rate = match burst.seconds > 0.0 {
            true => burst.arrived as f64 / burst.seconds,
            false => 0.0,
        };
        let mut metrics = match workload {
            Workload::TcpStream | Workload::HelloStream | Workload::TlsStream => {
                vec![metric("throughput", "Gbit/s", 8.0 * rate / 1e9)]
            }
            Workload::TcpConnect | Workload::TlsConnect => {
                vec![metric("connections", "1/s", rate)]
            }
            Workload::DnsQuery => vec![metric("queries", "1/s", rate)],
            Workload::UdpFlood => vec![metric("delivered_rate", "kpps", rate / 1e3)],
            _ => self.latencies(rate),
        };
        let (Some(packets), Some(cpu_us)) = (self.packets, self.cpu_us) else {
            return metrics;
        };
        if packets > 0 {
            metrics.push(metric("cpu_per_packet", "us", cpu_us / packets as f64));
        }
        if burst.seconds > 0.0 {
            let share = cpu_us / 1e6 / burst.seconds;
            metrics.push(metric("cpu_share", "%", 100.0 * share));
        }
        if metrics[0].name == "connections" && burst.arrived > 0 {
            let each = packets as f64 / burst.arrived as f64;
            metrics.push(metric("queued", "packets", each));
        }
        metrics
    }

    fn latencies(&self, rate: f64) -> Vec<Metric> {
        let Some(histogram) = &self.burst.latencies else {
            return Vec::new();
        };
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        vec![
            metric("p50", "us", at(0.5)),
            metric("p99", "us", at(0.99)),
            metric("rate", "1/s", rate),
        ]
    }
}

impl Whole {
    fn add(&mut self, slice: Slice) -> Result<()> {
        self.sent += slice.burst.sent;
        self.arrived += slice.burst.arrived;
        self.packets += slice.packets.unwrap_or(0);
        match (&mut self.latencies, slice.burst.latencies) {
            (Some(all), Some(latencies)) => all.add(latencies)?,
            (all, Some(latencies)) => *all = Some(latencies),
            (_, None) => {}
        }
        Ok(())
    }

    /// Returns the metrics of the subject over the whole load: its totals, and the 99.9th percentile of the latency of
    /// all requests.
    pub fn metrics(&self, workload: Workload) -> Vec<Metric> {
        let mut metrics = Vec::new();
        if workload == Workload::UdpFlood {
            let (sent, delivered) = (self.sent as f64, self.arrived as f64);
            let lost = sent - delivered;
            let percent = if sent > 0.0 { 100.0 * lost / sent } else { 0.0 };
            metrics.push(metric("sent", "packets", sent));
            metrics.push(metric("delivered", "packets", delivered));
            metrics.push(metric("lost", "packets", lost));
            metrics.push(metric("lost_percent", "%", percent));
        }
        if self.receiver_drops > 0 {
            // The losses then include losses at this receiver, which a reader of the result must know.
            let drops = self.receiver_drops as f64;
            metrics.push(metric("receiver_drops", "packets", drops));
        }
        if let Some(all) = &self.latencies {
            let tail = all.value_at_quantile(0.999) as f64 / 1e3;
            metrics.push(metric("p999", "us", tail));
        }
        if let Some(drops) = self.queue_drops {
            metrics.push(metric("packets", "packets", self.packets as f64));
            metrics.push(metric("queue_drops", "packets", drops as f64));
        }
        metrics.extend(self.memory_mib.map(|mib| metric("rss", "MiB", mib)));
        metrics
    }

    /// Returns the latencies of all requests: (percentile, microseconds).
    pub fn percentiles(&self) -> Vec<(f64, f64)> {
        self.latencies.as_ref().map_or(Vec::new(), curve)
    }
}

impl SlicedOutcome {
    pub fn new(workload: Workload, subjects: usize) -> SlicedOutcome {
        SlicedOutcome {
            workload,
            rounds: 0,
            slices: Vec::new(),
            wholes: (0..subjects).map(|_| Whole::default()).collect(),
            incidents: Vec::new(),
            raw: Vec::new(),
        }
    }

    pub fn add(&mut self, round: u32, position: u32, index: usize, slice: Slice) -> Result<()> {
        self.slices.push(Placed {
            round,
            position,
            index,
            metrics: slice.metrics(self.workload),
        });
        self.wholes[index].add(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(sent: u64, arrived: u64) -> Slice {
        Slice {
            packets: Some(sent),
            cpu_us: Some(2.5 * sent as f64),
            ..Slice::of(Burst {
                sent,
                arrived,
                seconds: 0.05,
                latencies: None,
            })
        }
    }

    fn values(metrics: &[Metric]) -> Vec<(&str, f64)> {
        metrics.iter().map(|m| (m.name, m.value)).collect()
    }

    #[test]
    fn a_slice_has_the_cost_of_its_own_packets() {
        let metrics = slice(20_000, 10_000).metrics(Workload::UdpFlood);
        assert_eq!(
            values(&metrics),
            [
                ("delivered_rate", 200.0),
                ("cpu_per_packet", 2.5),
                ("cpu_share", 100.0)
            ]
        );
        let metrics = slice(600, 100).metrics(Workload::TlsConnect);
        assert_eq!(values(&metrics)[3], ("queued", 6.0));
        let passed = Slice {
            packets: Some(0),
            ..slice(100, 100)
        };
        let metrics = passed.metrics(Workload::TcpConnect);
        assert_eq!(
            values(&metrics),
            [("connections", 2000.0), ("cpu_share", 0.5), ("queued", 0.0)]
        );
        let nothing = Slice::of(Burst {
            sent: 10,
            arrived: 0,
            seconds: 0.0,
            latencies: None,
        });
        assert_eq!(
            values(&nothing.metrics(Workload::TcpStream)),
            [("throughput", 0.0)]
        );
    }

    #[test]
    fn losses_are_those_of_all_slices() {
        let mut outcome = SlicedOutcome::new(Workload::UdpFlood, 2);
        outcome.add(1, 1, 0, slice(100, 100)).unwrap();
        outcome.add(1, 2, 1, slice(100, 100)).unwrap();
        outcome.add(2, 1, 0, slice(300, 260)).unwrap();
        outcome.wholes[0].queue_drops = Some(40);
        let metrics = outcome.wholes[0].metrics(Workload::UdpFlood);
        assert_eq!(
            values(&metrics),
            [
                ("sent", 400.0),
                ("delivered", 360.0),
                ("lost", 40.0),
                ("lost_percent", 10.0),
                ("packets", 400.0),
                ("queue_drops", 40.0)
            ]
        );
    }

    #[test]
    fn the_tail_is_that_of_all_requests() {
        let mut outcome = SlicedOutcome::new(Workload::TcpLatency, 1);
        for (round, value) in [(1, 1_000), (2, 9_000)] {
            let mut latencies = crate::load::histogram().unwrap();
            latencies.record_n(value, 1_000).unwrap();
            let mut slice = slice(1_000, 1_000);
            slice.burst.latencies = Some(latencies);
            assert_eq!(slice.metrics(Workload::TcpLatency)[0].name, "p50");
            outcome.add(round, 1, 0, slice).unwrap();
        }
        let curve = outcome.wholes[0].percentiles();
        let middle = curve.iter().find(|(percentile, _)| *percentile == 50.0);
        assert!((middle.unwrap().1 - 1.0).abs() < 0.01, "{curve:?}");
        assert!((curve.last().unwrap().1 - 9.0).abs() < 0.01, "{curve:?}");
        let metrics = outcome.wholes[0].metrics(Workload::TcpLatency);
        assert_eq!(metrics[0].name, "p999");
    }
}
