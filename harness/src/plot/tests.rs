// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests the figures of an artificial result: all figures exist, have the right content, and no text covers another
//! text.

mod made;

use std::fs;

use serde_json::{json, Value};

use super::*;
use crate::metadata::Metadata;
use crate::store::Sample;
use crate::summary::summarize;
use made::{Folder, Made};

const TWINS: [&str; 6] = [
    "none",
    "accept",
    "rust-raw-fast",
    "c-raw-fast",
    "rust-raw-fast#2",
    "c-classic-paper",
];
fn twins() -> Made<'static> {
    Made {
        subjects: &TWINS,
        payload_bytes: &[64],
        figures: json!([]),
        references: json!([]),
    }
}

fn figure(name: &str, kind: &str, workload: &str) -> Value {
    let title = format!("A figure called {name}");
    json!({"name": name, "kind": kind, "title": title, "workload": workload, "path": "loopback"})
}

fn names(files: &[PathBuf]) -> Vec<String> {
    let name = |file: &PathBuf| file.file_name().unwrap().to_string_lossy().into_owned();
    files.iter().map(name).collect()
}

/// Returns all figures of a folder, by name.
fn scenes(folder: &Folder) -> Vec<(String, Scene)> {
    let data = Data::read(&folder.0).unwrap();
    let plans = plans(&data);
    let drawn = plans
        .iter()
        .filter_map(|plan| Some((plan.name.clone(), draw(&data, plan)?)));
    drawn.collect()
}

fn scene(folder: &Folder, name: &str) -> Scene {
    let found = scenes(folder).into_iter().find(|(other, _)| other == name);
    found.unwrap_or_else(|| panic!("no figure {name}")).1
}

fn says(scene: &Scene, wanted: &str) -> bool {
    scene.texts().any(|text| text.text == wanted)
}

/// Checks that no text leaves the picture or touches another text.
fn check_texts(name: &str, scene: &Scene) {
    let texts: Vec<_> = scene
        .texts()
        .map(|text| (&text.text, text.bounds()))
        .collect();
    for (index, (text, (left, top, right, bottom))) in texts.iter().enumerate() {
        let in_width = *left >= 0.0 && *right <= scene.width;
        let in_height = *top >= 0.0 && *bottom <= scene.height;
        assert!(in_width && in_height, "{name}: {text:?} leaves the picture");
        for (other, (l, t, r, b)) in &texts[..index] {
            let apart = right < l || r < left || bottom < t || b < top;
            assert!(apart, "{name}: {text:?} covers {other:?}");
        }
    }
}

#[test]
fn without_wishes_all_that_the_data_give_is_drawn() {
    let folder = twins().write("all");
    let files = draw_all(&folder.0).unwrap();
    let wanted = [
        "tcp-stream-loopback-dots.svg",
        "tcp-stream-loopback-series.svg",
        "tcp-latency-loopback-dots.svg",
        "tcp-latency-loopback-percentile.svg",
        "udp-flood-loopback-dots.svg",
    ];
    assert_eq!(names(&files), wanted);
    for (name, scene) in scenes(&folder) {
        check_texts(&name, &scene);
    }
}

#[test]
fn files_hold_what_the_figure_says() {
    let mut made = twins();
    made.figures = json!([figure("over-time", "series", "tcp-stream")]);
    let folder = made.write("files");
    let files = draw_all(&folder.0).unwrap();
    assert_eq!(names(&files), ["over-time.svg"]);
    let svg = fs::read_to_string(&files[0]).unwrap();
    for wanted in [
        "A figure called over-time",
        "throughput (Gbit/s)",
        "time since the start of the load (s)",
        "writes of 64 bytes, runner ethr, 3 rounds of 1 s",
        "A CPU (2 CPUs), Linux 6.1.0; commit 0123456789 with changes; 2026-01-31",
    ] {
        assert!(svg.contains(wanted), "{wanted}");
    }
    assert!(TWINS.iter().all(|subject| svg.contains(subject)));
}

#[test]
fn values_that_no_axis_shows_stand_in_numbers() {
    let folder = twins().write("numbers");
    let dots = scene(&folder, "tcp-stream-loopback-dots");
    assert!(says(&dots, "0.023 [0.023–0.023]"));
    assert!(says(
        &scene(&folder, "tcp-stream-loopback-series"),
        "0.023 Gbit/s"
    ));
    let flood = scene(&folder, "udp-flood-loopback-dots");
    assert!(says(&flood, "52.4") && says(&flood, "lost, %"));
    // Without a firewall there is no CPU time of a firewall.
    assert_eq!(flood.texts().filter(|text| text.text == "–").count(), 2);
}

/// In the virtual machine a guest's nanosecond is an instruction, and no load has a duration in seconds.
#[test]
fn loads_in_a_virtual_machine_name_no_seconds() {
    let folder = twins().write("vm");
    let store = Store::open(&folder.0);
    let mut samples: Vec<Sample> = store.read().unwrap();
    samples.retain(|sample| sample.metric == "delivered_rate");
    for sample in &mut samples {
        sample.path = "vm".into();
    }
    store.rewrite(&samples).unwrap();
    store.rewrite(&summarize(&samples, "none")).unwrap();
    let drawn = scenes(&folder);
    let [(_, scene)] = &drawn[..] else {
        panic!("{} figures", drawn.len());
    };
    assert!(says(
        scene,
        "udp-flood in a virtual machine, payload of 64 bytes"
    ));
}

#[test]
fn latency_has_an_axis_of_nines() {
    let folder = twins().write("nines");
    let scene = scene(&folder, "tcp-latency-loopback-percentile");
    let nines = ["0", "50", "90", "99", "99.9", "99.99"];
    assert!(nines.iter().all(|nine| says(&scene, nine)));
    assert!(says(&scene, "latency (µs)"));
}

#[test]
fn references_are_named_with_their_values() {
    let mut made = twins();
    made.references = json!([
        {"label": "published", "workload": "tcp-stream", "metric": "throughput", "value": 31.2},
        {"label": "elsewhere", "workload": "tcp-stream", "metric": "throughput", "value": 30.72},
    ]);
    let folder = made.write("references");
    assert!(says(
        &scene(&folder, "tcp-stream-loopback-dots"),
        "published (31.2 Gbit/s)"
    ));
    let series = scene(&folder, "tcp-stream-loopback-series");
    assert!(says(&series, "elsewhere") && says(&series, "30.7 Gbit/s"));
    assert!(!says(
        &scene(&folder, "udp-flood-loopback-dots"),
        "published (31.2 Gbit/s)"
    ));
    for (name, scene) in scenes(&folder) {
        check_texts(&name, &scene);
    }
}

#[test]
fn sizes_and_queues_make_a_figure_of_their_own() {
    let made = Made {
        subjects: &[
            "none",
            "rust-raw-fast",
            "rust-raw-fast@2",
            "rust-raw-fast@4",
            "c-raw-fast",
            "c-raw-fast@2",
            "rust-raw-fast#2",
            "rust-raw-fast@2#2",
        ],
        payload_bytes: &[64, 512, 1472, 8192, 65507],
        figures: json!([
            figure("delivered", "dots", "udp-flood"),
            figure("latency", "percentile", "tcp-latency"),
        ]),
        references: json!([]),
    };
    let folder = made.write("scale");
    let scene = scene(&folder, "delivered");
    for wanted in [
        "queues",
        "payload of a datagram or write (bytes)",
        "1472 bytes",
        "c-raw-fast@2",
    ] {
        assert!(says(&scene, wanted), "{wanted}");
    }
    assert!(!says(&scene, "rust-raw-fast#2"));
    let drawn = scenes(&folder);
    for (name, scene) in &drawn {
        check_texts(name, scene);
    }
    // Other kinds have one figure per size, and the first has the plain name.
    let names: Vec<&str> = drawn.iter().map(|(name, _)| name.as_str()).collect();
    let sizes = [
        "latency",
        "latency-512",
        "latency-1472",
        "latency-8192",
        "latency-65507",
    ];
    assert_eq!(names[1..], sizes);
}

/// Returns an artificial result with floods that were filtered by policies of three sizes. The delivered rate of
/// `accept` falls with the size.
fn grown(name: &str, figures: Value) -> Folder {
    let mut made = twins();
    made.figures = figures;
    let folder = made.write(name);
    let store = Store::open(&folder.0);
    let samples: Vec<Sample> = store.read().unwrap();
    let flood = samples
        .iter()
        .filter(|sample| sample.workload == "udp-flood");
    let sized = flood.flat_map(|sample| {
        [10, 100, 10_000].map(|size| {
            let falls = sample.subject == "accept" && sample.metric == "delivered_rate";
            Sample {
                policy: Some(format!("addresses-{size}").parse().unwrap()),
                value: sample.value / if falls { f64::from(size) } else { 1.0 },
                ..sample.clone()
            }
        })
    });
    let samples: Vec<Sample> = sized.collect();
    store.rewrite(&samples).unwrap();
    store.rewrite(&summarize(&samples, "none")).unwrap();
    folder
}

#[test]
fn growth_is_drawn_over_the_sizes() {
    let figures = json!([
        {"name": "rate", "kind": "growth", "title": "R", "workload": "udp-flood", "policy": "addresses"},
        {"name": "cpu", "kind": "growth", "title": "C", "workload": "udp-flood", "policy": "addresses",
         "metric": "cpu_per_packet"},
        figure("dots", "dots", "udp-flood"),
    ]);
    let folder = grown("growth", figures);
    let drawn = scenes(&folder);
    let names: Vec<&str> = drawn.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["rate", "cpu"]);
    for (name, scene) in &drawn {
        check_texts(name, scene);
        for wanted in ["10", "100", "10000", "rules “ip saddr X drop”"] {
            assert!(says(scene, wanted), "{name}: {wanted}");
        }
    }
    // The values of the first figure fall by a factor of a thousand, so its axis is logarithmic; the axis of the second
    // figure starts at zero.
    assert!(says(&drawn[0].1, "25.2 to 0.025 kpps"));
    assert!(!says(&drawn[0].1, "0") && says(&drawn[1].1, "0.0"));
    // Without a firewall there is no CPU time of a firewall.
    assert!(says(&drawn[0].1, "none") && !says(&drawn[1].1, "none"));
}

/// Tests a figure of losses. Its data have a delay of zero, and the predicted loss of one program.
#[test]
fn losses_are_drawn_over_the_factors() {
    let mut made = twins();
    made.figures = json!([figure("loss", "loss", "frames-delayed")]);
    let folder = made.write("loss");
    let store = Store::open(&folder.0);
    let mut samples: Vec<Sample> = store.read().unwrap();
    samples.retain(|sample| sample.workload == "udp-flood" && sample.metric == "delivered_rate");
    let sized = samples.iter().flat_map(|sample| {
        [
            (0, "lost_percent", 0.0),
            (40, "lost_percent", 5.0),
            (200, "lost_percent", 40.0),
            (400, "lost_percent", 30.0),
            (200, "foretold", 41.0),
        ]
        .into_iter()
        .filter(|(_, metric, _)| *metric == "lost_percent" || sample.subject == "none")
        .map(|(size, metric, value)| Sample {
            workload: "frames-delayed".into(),
            payload_bytes: size,
            metric: metric.into(),
            unit: "%".into(),
            value,
            ..sample.clone()
        })
    });
    let samples: Vec<Sample> = sized.collect();
    store.rewrite(&samples).unwrap();
    store.rewrite(&summarize(&samples, "none")).unwrap();
    let drawn = scenes(&folder);
    let [(name, scene)] = &drawn[..] else {
        panic!("{} figures", drawn.len());
    };
    check_texts(name, scene);
    for wanted in [
        "lost (%)",
        "factor of the delays",
        "up to 40.0 %",
        "200",
        "0",
    ] {
        assert!(says(scene, wanted), "{wanted}");
    }
}

#[test]
fn growth_is_drawn_without_wishes_too() {
    let folder = grown("growth-all", json!([]));
    let names: Vec<String> = scenes(&folder).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["udp-flood-loopback-addresses"]);
}

#[test]
fn loads_with_different_policies_of_one_size_have_separate_figures() {
    let folder = twins().write("policies");
    let store = Store::open(&folder.0);
    let samples: Vec<Sample> = store.read().unwrap();
    let flood = samples
        .iter()
        .filter(|sample| sample.workload == "udp-flood");
    let filtered = flood.flat_map(|sample| {
        ["addresses-10", "ports-10"].map(|policy| Sample {
            policy: Some(policy.parse().unwrap()),
            ..sample.clone()
        })
    });
    let samples: Vec<Sample> = filtered.collect();
    store.rewrite(&samples).unwrap();
    store.rewrite(&summarize(&samples, "none")).unwrap();
    let drawn = scenes(&folder);
    let names: Vec<&str> = drawn.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "udp-flood-loopback-addresses-10-dots",
            "udp-flood-loopback-ports-10-dots"
        ]
    );
    for (name, scene) in &drawn {
        check_texts(name, scene);
    }
    assert!(says(
        &drawn[1].1,
        "A test: udp-flood, 10 rules “udp dport N drop”"
    ));
}

#[test]
fn a_figure_without_data_is_left_out() {
    let mut made = twins();
    made.figures = json!([
        figure("connections", "dots", "tcp-connect"),
        figure("curve", "percentile", "udp-flood"),
        figure("delivered", "dots", "udp-flood"),
    ]);
    let folder = made.write("without");
    let files = draw_all(&folder.0).unwrap();
    assert_eq!(names(&files), ["delivered.svg"]);
}

#[test]
fn long_names_and_many_subjects_find_room() {
    let long: Vec<String> = (0..14)
        .map(|n| format!("a-firewall-with-a-long-name-{n}"))
        .collect();
    let subjects: Vec<&str> = ["none"]
        .into_iter()
        .chain(long.iter().map(|name| name.as_str()))
        .collect();
    let made = Made {
        subjects: &subjects,
        payload_bytes: &[64],
        figures: json!([]),
        references: json!([]),
    };
    let folder = made.write("long");
    for (name, scene) in scenes(&folder) {
        check_texts(&name, &scene);
    }
}

#[test]
fn each_subject_has_an_area_of_its_own_where_values_span_much() {
    let mut made = twins();
    made.figures = json!([figure("areas", "panels", "tcp-stream")]);
    made.references = json!([
        {"label": "published", "workload": "tcp-stream", "metric": "throughput", "value": 31.2},
    ]);
    let folder = made.write("panels");
    let scene = scene(&folder, "areas");
    check_texts("areas", &scene);
    assert!(TWINS.iter().all(|subject| says(&scene, subject)));
    // Values such as 0.023 and 12 need a logarithmic axis, and the value as a number.
    assert!(says(&scene, "0.1") && says(&scene, "0.023 Gbit/s"));
    let note = "Lines: median of 3 rounds; bands: from the smallest to the largest. Dashed: median of none. \
                Grey: published (31.2 Gbit/s).";
    assert!(says(&scene, note));
}

#[test]
fn what_is_not_drawn_is_in_no_legend() {
    let made = Made {
        subjects: &["none", "accept", "rust-raw-fast", "rust-raw-fast@2"],
        payload_bytes: &[0],
        figures: json!([figure("queues", "dots", "udp-flood")]),
        references: json!([]),
    };
    let folder = made.write("legend");
    let scene = scene(&folder, "queues");
    check_texts("queues", &scene);
    // The legend has one entry for both numbers of queues, entries for subjects without queues, and no missing size.
    assert!(says(&scene, "rust-raw-fast") && says(&scene, "accept"));
    assert!(!says(&scene, "rust-raw-fast@2") && !says(&scene, "0 bytes"));
}

#[test]
fn a_ratio_above_1_is_explained() {
    let made = Made {
        subjects: &["none", "rust-raw-fast"],
        payload_bytes: &[64],
        figures: json!([]),
        references: json!([]),
    };
    let folder = made.write("above");
    let explained = |name: &str| {
        let scene = scene(&folder, name);
        let found = scene
            .texts()
            .any(|text| text.text.contains("no merit of filtering"));
        check_texts(name, &scene);
        found
    };
    assert!(explained("tcp-stream-loopback-dots"));
    // A latency above that of `none` is worse and needs no explanation.
    assert!(!explained("tcp-latency-loopback-dots"));
}

#[test]
fn scans_are_drawn_over_their_targets() {
    let mut made = twins();
    made.payload_bytes = &[256, 4096, 65536];
    let folder = made.write("scans");
    let store = Store::open(&folder.0);
    let mut metadata = Metadata::read(&folder.0).unwrap();
    metadata.kind = ExperimentKind::Scan;
    metadata.write(&store).unwrap();
    let samples: Vec<Sample> = store.read().unwrap();
    let streams = samples.into_iter().filter(|s| s.metric == "throughput");
    let scans = streams.map(|sample| Sample {
        workload: "closed".into(),
        metric: "wall".into(),
        unit: "s".into(),
        ..sample
    });
    let scans: Vec<Sample> = scans.collect();
    store.rewrite(&scans).unwrap();
    store.rewrite(&summarize(&scans, "")).unwrap();
    let scene = scene(&folder, "wall");
    check_texts("wall", &scene);
    for wanted in [
        "targets",
        "time from start to end (s)",
        "closed over loopback, 3 rounds",
    ] {
        assert!(says(&scene, wanted), "{wanted}");
    }
}
