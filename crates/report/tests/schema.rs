//! The JSON of reports matches `docs/*.schema.json`, and these schemas are generated from the types.
//!
//! Existing validators depend on 60 crates, so this test itself checks the dozen keywords that the schemas use. An
//! unknown keyword fails the test, so that no part of a schema stays unchecked.

use crate::docs_page::assert_page;
use crate::support::{SHORT, Shape, finding, write_baseline, write_run, write_series};
use conclusions::durability::judge::Durability;
use conclusions::series::{Series, SeriesPurpose};
use report::campaign::Campaign;
use report::check::Checks;
use report::document::Document;
use report::waf::{Arranged, FORMAT_VERSION, Preparations, WafReport, Worn};
use results::bytes_written::WrittenBytes;
use results::finding::Severity;
use results::judge::Outcome;
use results::waf::{ArrangementResult, DriveWrites, TenantBytes};
use serde_json::Value;
use std::fs;

const SCHEMA: &str = include_str!("../../../docs/report.schema.json");
const WAF_SCHEMA: &str = include_str!("../../../docs/waf.schema.json");

/// Violations of `schema` in `value`, with their positions; empty if there are none.
fn mistakes(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    if schema.as_bool() == Some(true) {
        return found;
    }
    let keywords = schema.as_object().expect("a schema is an object");
    for (keyword, rule) in keywords {
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "format" | "default" => {}
            "$ref" => {
                let place = rule
                    .as_str()
                    .and_then(|place| place.strip_prefix('#'))
                    .expect("a place in this schema");
                found.extend(mistakes(
                    root,
                    root.pointer(place).expect("a definition"),
                    value,
                    at,
                ));
            }
            "type" => {
                let types: Vec<&Value> = rule
                    .as_array()
                    .map_or_else(|| vec![rule], |types| types.iter().collect());
                if !types
                    .iter()
                    .any(|name| is_of(value, name.as_str().unwrap()))
                {
                    found.push(format!("{at}: {value} is not {rule}"));
                }
            }
            "const" if rule == value => {}
            "const" => found.push(format!("{at}: {value} is not {rule}")),
            "enum" if rule.as_array().unwrap().contains(value) => {}
            "enum" => found.push(format!("{at}: {value} is none of {rule}")),
            // Bounds apply to numbers only; a value may also be of another type.
            "minimum" | "maximum" if !value.is_number() => {}
            "minimum" if value.as_f64() >= rule.as_f64() => {}
            "minimum" => found.push(format!("{at}: {value} is below {rule}")),
            "maximum" if value.as_f64() <= rule.as_f64() => {}
            "maximum" => found.push(format!("{at}: {value} is above {rule}")),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(mistakes(root, rule, item, &format!("{at}/{index}")));
                }
            }
            "prefixItems" => {
                for (index, (item, schema)) in value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .zip(rule.as_array().unwrap())
                    .enumerate()
                {
                    found.extend(mistakes(root, schema, item, &format!("{at}/{index}")));
                }
            }
            "minItems"
                if value.as_array().map(Vec::len) >= rule.as_u64().map(|least| least as usize) => {}
            "maxItems"
                if value.as_array().map(Vec::len) <= rule.as_u64().map(|most| most as usize) => {}
            "minItems" | "maxItems" => found.push(format!("{at}: {value} has not {rule} items")),
            "properties" => {
                for (name, schema) in rule.as_object().unwrap() {
                    let property = value.get(name);
                    found.extend(
                        property
                            .into_iter()
                            .flat_map(|it| mistakes(root, schema, it, &format!("{at}/{name}"))),
                    );
                }
            }
            "required" => {
                let missing = rule
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|name| value.get(name.as_str().unwrap()).is_none());
                found.extend(missing.map(|name| format!("{at}: {name} is missing")));
            }
            "additionalProperties" if rule.as_bool() == Some(true) => {}
            "oneOf" | "anyOf" => {
                let results: Vec<Vec<String>> = rule
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|schema| mistakes(root, schema, value, at))
                    .collect();
                let fits = results
                    .iter()
                    .filter(|mistakes| mistakes.is_empty())
                    .count();
                if fits == 0 || (keyword == "oneOf" && fits > 1) {
                    found.push(format!("{at}: {fits} of several: {results:?}"));
                }
            }
            other => panic!("the schema uses {other}, which this test does not check"),
        }
    }
    found
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("no type of JSON: {other}"),
    }
}

fn assert_valid(document: &Document) -> Value {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let value: Value = serde_json::from_str(&report::json(document).unwrap()).unwrap();
    assert_eq!(mistakes(&schema, &schema, &value, ""), Vec::<String>::new());
    value
}

#[test]
fn the_schemas_in_the_documentation_are_those_of_the_types() {
    for (name, schema) in [
        ("report.schema.json", report::schema_of::<Document>()),
        ("waf.schema.json", report::schema_of::<WafReport>()),
        ("waf-prep.schema.json", report::schema_of::<Preparations>()),
        ("check.schema.json", report::schema_of::<Checks>()),
        ("campaign.schema.json", report::schema_of::<Campaign>()),
        ("durability.schema.json", report::schema_of::<Durability>()),
    ] {
        let schema = schema.unwrap();
        assert_page(name, "flashproof-report --test report schema", |_| schema);
    }
}

#[test]
fn the_json_of_write_amplification_matches_its_schema() {
    let octile = WrittenBytes {
        host: 8,
        media: 12,
        erased: 4,
    };
    let drives = vec![DriveWrites {
        name: "all".into(),
        logical_bytes: 64,
        octiles: vec![octile; 48],
    }];
    let tenants = vec![TenantBytes {
        name: "a".into(),
        client: 200,
        defrag: 184,
    }];
    let counted = ArrangementResult {
        drives,
        tenants,
        steady_after: Some(6),
    };
    let erase_histogram = [(3, 1), (4, 5), (6, 1)]
        .map(|(erases, superblocks)| Worn {
            erases,
            superblocks,
        })
        .to_vec();
    let arrangements = vec![Arranged {
        erase_histogram,
        ..Arranged::new("shared", counted, None)
    }];
    let report = WafReport {
        predicted: true,
        format_version: FORMAT_VERSION,
        made_by: "flashproof".into(),
        tenants: "t.toml".into(),
        seed: 1,
        assumptions: Vec::new(),
        arrangements,
        sweeps: Vec::new(),
        remarks: Vec::new(),
    };
    let schema: Value = serde_json::from_str(WAF_SCHEMA).unwrap();
    let mut value: Value = serde_json::from_str(&report::json(&report).unwrap()).unwrap();
    assert_eq!(mistakes(&schema, &schema, &value, ""), Vec::<String>::new());
    assert_eq!(
        (
            &value["arrangements"][0]["waf"],
            &value["arrangements"][0]["erase_histogram"][1]["superblocks"]
        ),
        (&1.5.into(), &5.into())
    );
    assert!(report.text().contains("3-6, median 4"), "{}", report.text());
    let page = report.html();
    assert!(
        page.contains("width:100.00%") && page.contains("1.50</span>"),
        "{page}"
    );
    assert!(
        page.find("class=\"bars\"") < page.find("<table"),
        "bars come first"
    );
    value["arrangements"][0]["counted"]["drives"] = 1.into();
    assert_eq!(mistakes(&schema, &schema, &value, "").len(), 1);
}

#[test]
fn the_json_of_a_run_matches_the_schema() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    write_run(
        &run,
        Shape {
            slow_every: 3,
            devices: &["a", "b"],
            ..SHORT
        },
    );
    let mut value = assert_valid(&Document::read(&[&run]).unwrap());
    assert_eq!(value["reports"][0]["verdict"]["outcome"], "fail");
    // The check itself works: it finds a missing field, a field of another type, and an unknown word.
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    value["made_by"] = 1.into();
    assert_eq!(mistakes(&schema, &schema, &value, "").len(), 1);
    value.as_object_mut().unwrap().remove("made_by");
    assert_eq!(mistakes(&schema, &schema, &value, "").len(), 1);
    value["reports"][0]["verdict"]["outcome"] = "perhaps".into();
    assert_eq!(mistakes(&schema, &schema, &value, "").len(), 2);
}

#[test]
fn the_json_of_a_certification_and_of_a_rating_matches_the_schema() {
    let dir = tempfile::tempdir().unwrap();
    for (name, purpose) in [
        ("certify", SeriesPurpose::Certify),
        ("rate", SeriesPurpose::Rate),
    ] {
        let series = dir.path().join(name);
        let steps = [
            ("a", 1.0, Outcome::Pass, Some(SHORT)),
            ("lost", 2.0, Outcome::Fail, None),
        ];
        write_series(&series, purpose, &steps);
        let value = assert_valid(&Document::read(&[series]).unwrap());
        let report = &value["reports"][0];
        let outcome = if purpose == SeriesPurpose::Certify {
            "fail"
        } else {
            "invalid"
        };
        assert_eq!(report["series"]["conclusion"]["outcome"], outcome);
        let banner = report["banners"][0]["text"].as_str().unwrap();
        assert!(
            banner.starts_with("lost: there is no run to judge again: "),
            "{banner}"
        );
        let charts = |of: &Value| of["sections"].as_array().unwrap().len();
        let is_search = purpose == SeriesPurpose::Rate;
        assert_eq!(
            (
                charts(report) > 0,
                charts(&report["steps"][0]["report"]) > 0
            ),
            (is_search, !is_search)
        );
    }
}

#[test]
fn every_output_format_marks_a_baseline_with_jobs_in_doubt() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("baseline");
    let mut series = write_baseline(&dir, &[("/dev/nvme0n1", 1.0)]);
    let jobs = series.steps.len();
    let sound = Document::read(&[&dir]).unwrap();
    assert!(
        sound.html().contains("class=\"verdict measured\"")
            && sound.text().contains("\nMEASURED: "),
        "{}",
        sound.text()
    );
    assert_eq!(assert_valid(&sound)["reports"][0]["in_doubt"], Value::Null);
    series.steps[9].details["doubt"] = "this program was late".into();
    series.conclusion = Some(conclusions::baseline::conclude(&series));
    series.write(&dir).unwrap();
    let document = Document::read(&[&dir]).unwrap();
    let told = format!("1 of {jobs} jobs in doubt");
    let why = "job 10: this program was late";
    let report = &assert_valid(&document)["reports"][0];
    assert_eq!(
        (
            &report["in_doubt"]["jobs"],
            &report["in_doubt"]["doubts"][0]
        ),
        (&1.into(), &why.into())
    );
    assert_eq!(
        report["series"]["conclusion"]["details"]["in_doubt"]["jobs"],
        1
    );
    for text in [document.text(), document.markdown()] {
        let first = text.find("MEASURED, IN DOUBT").unwrap();
        let more = text.find(&format!("{told}; ")).unwrap();
        assert!(
            first < more && text.find("MEASURED") == Some(first) && text.contains(why),
            "{text}"
        );
    }
    let html = document.html();
    assert!(
        html.contains("<title>MEASURED, IN DOUBT: ") && html.contains("class=\"verdict invalid\""),
        "the page"
    );
    assert!(
        !html.contains("class=\"verdict measured\"")
            && html.contains("badge invalid")
            && html.contains(why)
    );
    assert!(
        document.banners()[0].starts_with(&told),
        "{:?}",
        document.banners()
    );
}

#[test]
fn the_json_of_a_baseline_matches_the_schema_and_every_format_has_its_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("baseline");
    let drives = [
        ("/dev/nvme0n1", 1.0),
        ("/dev/nvme1n1", 1.01),
        ("/dev/nvme2n1", 0.7),
        (crate::support::HOSTILE, 1.0),
    ];
    let mut series = write_baseline(&dir, &drives);
    let texts = [
        "over-provisioning",
        "all of its 68.7 GB are used",
        "less room",
        "flashproof prep",
    ];
    series.findings = vec![finding(Severity::Note, Some("/dev/nvme1n1"), texts)];
    // An attempt that was killed, and replaced by another.
    write_run(
        &dir.join("002-killed"),
        Shape {
            devices: &drives.map(|(name, _)| name),
            ..SHORT
        },
    );
    fs::remove_file(dir.join("002-killed/verdict.json")).unwrap();
    let mut killed = series.steps[0].clone();
    killed.dir = "002-killed".into();
    killed.interrupt("its program was killed, or the machine stopped");
    series.steps.push(killed);
    series.write(&dir).unwrap();
    let document = Document::read(&[&dir]).unwrap();
    assert!(
        !document.html().contains(">load<"),
        "the jobs of a baseline are no multiples of a load"
    );
    let value = assert_valid(&document);
    let report = &value["reports"][0];
    assert_eq!(
        (
            &report["banners"],
            &report["series"]["conclusion"]["outcome"]
        ),
        (&Value::Array(Vec::new()), &"measured".into())
    );
    assert_eq!(report["drives"].as_array().unwrap().len(), 4);
    assert_eq!(
        report["steps"][0]["report"]["sections"],
        Value::Array(Vec::new()),
        "charts are those of the drives"
    );
    let charts: Vec<&str> = report["drives"][1]["sections"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|section| section["charts"].as_array().unwrap())
        .map(|chart| chart["id"].as_str().unwrap())
        .collect();
    let throughput = "throughput-random-reads-4-kib";
    assert!(
        charts.contains(&"depth-iops") && charts.contains(&throughput),
        "{charts:?}"
    );
    let outliers = report["beside"]["outliers"].as_array().unwrap();
    let of_slow = |outlier: &Value| {
        outlier
            .as_str()
            .unwrap()
            .starts_with("/dev/nvme2n1 differs from the median of its model (M1): ")
    };
    assert!(outliers.len() == 1 && of_slow(&outliers[0]), "{outliers:?}");
    let parts = [
        "100,000/s at saturation; knee at queue depth 32: 100,000/s, p99 960 us",
        "2.4 ms ✘",
        "all of its 68.7 GB are used",
        "fell from 50,000/s to 25,000/s",
        "highest IOPS of random reads, 4 KiB 70,000/s (-30 %)",
    ];
    for part in parts {
        for (form, text) in [
            ("text", document.text()),
            ("html", document.html()),
            ("markdown", document.markdown()),
        ] {
            assert!(text.contains(part), "{form}: {part}");
        }
    }
}

#[test]
fn the_undamaged_part_of_a_damaged_run_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    type Damage = fn(&str) -> String;
    let damages: [(&str, Damage, &str); 5] = [
        (
            "telemetry.csv",
            |text| text[..text.len() - 30].to_owned(),
            "telemetry.csv is cut: ",
        ),
        (
            "intervals.csv",
            |text| text.replacen("\n20,", "\nXX,", 1),
            "intervals.csv is changed: ",
        ),
        (
            "verdict.json",
            |_| "{".to_owned(),
            "verdict.json is damaged",
        ),
        (
            "wait.hlog",
            |text| text.replacen("Tag=reads", "Tag=others", 2),
            "wait.hlog could only be read up to",
        ),
        ("service.hlog", |_| String::new(), ""),
    ];
    for (number, (file, damage, words)) in damages.into_iter().enumerate() {
        let run = dir.path().join(number.to_string());
        write_run(&run, SHORT);
        let text = fs::read_to_string(run.join(file)).unwrap();
        fs::write(run.join(file), damage(&text)).unwrap();
        let document = Document::read(&[&run]).unwrap();
        let value = assert_valid(&document);
        let banners = value["reports"][0]["banners"].to_string();
        assert!(banners.contains(words), "{file}: {banners}");
        if file == "intervals.csv" {
            // The reason comes first, not the number that this reason makes meaningless.
            let html = document.html();
            let first = html
                .split("class=\"decided\">")
                .nth(1)
                .unwrap()
                .split("</p>")
                .next()
                .unwrap();
            assert!(
                first.contains("does not follow from intervals.csv"),
                "{first}"
            );
        }
        assert!(
            document.html().contains(words) && document.markdown().contains(words),
            "{file}"
        );
    }
}

#[test]
fn an_empty_directory_gets_no_report() {
    let dir = tempfile::tempdir().unwrap();
    let error = Document::read(&[dir.path()]).unwrap_err().to_string();
    assert!(error.contains("the directory is empty"), "{error}");
}

#[test]
fn the_page_of_a_search_has_its_findings_host_and_method_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("rate");
    let slow = Shape {
        slow_every: 2,
        ..SHORT
    };
    let steps = [
        ("a", 20.0, Outcome::Pass, Some(SHORT)),
        ("b", 30.0, Outcome::Fail, Some(slow)),
    ];
    write_series(&dir, SeriesPurpose::Rate, &steps);
    let mut series = Series::read(&dir).unwrap().unwrap();
    let texts = [
        "scheduler",
        "the scheduler is bfq",
        "it reorders",
        "choose none",
    ];
    series.findings = vec![finding(Severity::Warning, None, texts)];
    series.write(&dir).unwrap();
    let page = Document::read(&[&dir]).unwrap().html();
    let place = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}"));
    assert!(
        place("RATED 20x") < place("-rating-share-0")
            && place("-rating-share-0") < place(">a screening")
    );
    assert!(
        place(">a screening") < place("id=\"steps\""),
        "the curve leads, the table of steps follows"
    );
    for part in [
        "the scheduler is bfq",
        "As recorded with the last run, b:",
        "What could not be measured",
        "Method and limits",
    ] {
        assert_eq!(page.matches(part).count(), 1, "{part}");
    }
    assert!(page.contains("Devices, host and engine"));
}

#[test]
fn a_page_of_one_slice_has_bars_against_the_limits_and_of_several_a_chart_over_slices() {
    let dir = tempfile::tempdir().unwrap();
    let page = |name: &str, shape| {
        let run = dir.path().join(name);
        write_run(&run, shape);
        Document::read(&[run]).unwrap().html()
    };
    let one = page(
        "one",
        Shape {
            slow_every: 1,
            ..SHORT
        },
    );
    let bars = one.find("class=\"bars\"").unwrap();
    let latency = one.find("id=\"latency\"").unwrap();
    assert!(
        bars < latency && one.contains("✘ 10.0 % of 0.1 %"),
        "bars come first"
    );
    assert!(!one.contains("-shares-0\""), "no chart of one point");
    let day = page(
        "day",
        Shape {
            intervals: 240,
            interval_sec: 60,
            slow_every: 50,
            ..SHORT
        },
    );
    assert!(!day.contains("class=\"bars\"") && day.contains("-shares-0\""));
}
