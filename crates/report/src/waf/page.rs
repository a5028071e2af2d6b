//! WAF over bytes written, and over what was varied.

use super::{Arranged, Sweep, SweepPoint, WafReport, factor};
use crate::bars::Bars;
use crate::charts::{Axis, Chart, Line, Mark, Points, Section, Style};
use crate::html::Page;
use crate::table::Table;
use results::waf::{OCTILES, steady_rule};

impl WafReport {
    /// Write amplification of each arrangement.
    pub(crate) fn bars(&self) -> [Bars; 2] {
        let bars = |title: &str, caption: &str, of: fn(&Arranged) -> Option<f64>| {
            let mut bars = Bars::new(title, caption);
            for one in &self.arrangements {
                let text = of(one).map_or_else(|| "never steady".to_owned(), |waf| factor(Some(waf)));
                bars.bar(one.arrangement.clone(), of(one), text);
            }
            bars
        };
        [
            bars("Device WAF once steady", "Bytes written to the media for each byte that hosts wrote.", |one| one.waf),
            bars("Total write amplification", "Engine WA x steady device WAF.", |one| one.total_wa),
        ]
    }

    /// WAF over what hosts wrote, and what varied assumptions make of it.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let x = Axis::linear("written by hosts since the drives were filled once", "drive fills");
        let mut chart = Chart::new("waf", "Device WAF over bytes written", x, Axis::linear("device WAF", ""));
        chart.wide = true;
        chart.key = self
            .arrangements
            .iter()
            .map(|one| {
                format!("{} {}", one.arrangement, one.waf.map_or("never steady".to_owned(), |waf| factor(Some(waf))))
            })
            .collect::<Vec<_>>()
            .join(", ");
        chart.caption =
            format!("A point is an eighth of a drive fill. A line ends where it was steady: {}.", steady_rule());
        let step = 1.0 / OCTILES as f64;
        chart.lines = self
            .arrangements
            .iter()
            .enumerate()
            .map(|(number, one)| Line {
                name: one.arrangement.clone(),
                x: Points::Even { first: step, step },
                y: (0..one.counted.octiles()).map(|octile| one.counted.octile(octile).waf()).collect(),
                style: Style::line(number),
            })
            .collect();
        let mut sections =
            vec![Section::new("waf", "Over bytes written", "When is an experiment long enough?", vec![chart])];
        let charts: Vec<Chart> = self.sweeps.iter().map(sweep_chart).collect();
        if !charts.is_empty() {
            let intro = "One assumption varies, all else stays as it is said below.";
            sections.push(Section::new("sweeps", "What assumptions make of it", intro, charts));
        }
        sections
    }
}

/// Sizes that differ by more than this factor are told apart on a logarithmic axis.
const LOG_FROM: f64 = 16.0;

fn sweep_chart(sweep: &Sweep) -> Chart {
    let (title, id) = (sweep.parameter.as_str(), format!("sweep-{}", sweep.parameter));
    // Words stand at 1, 2, 3, each with a mark of its name.
    let words = sweep.values.iter().zip(1..).map(|(value, at)| Mark { x: f64::from(at), name: value.clone() });
    let (places, marks) = match &sweep.numbers {
        Some(numbers) => (numbers.clone(), Vec::new()),
        None => ((1..=sweep.values.len()).map(|at| at as f64).collect(), words.collect()),
    };
    let least = places.iter().copied().fold(f64::INFINITY, f64::min);
    let is_wide = least > 0.0 && places.iter().any(|place| *place > LOG_FROM * least);
    let x = if is_wide { Axis::log(title, &sweep.unit) } else { Axis::linear(title, &sweep.unit) };
    let lines = sweep.waf.iter().enumerate().map(|(number, (name, points))| Line {
        name: name.clone(),
        x: Points::Each(places.clone()),
        y: points.iter().map(|point| if let SweepPoint::Waf(waf) = point { Some(*waf) } else { None }).collect(),
        style: Style::points(number),
    });
    let key = format!("Device WAF at {} values", sweep.values.len());
    let chart = Chart::new(id, title, x, Axis::linear("device WAF", ""));
    Chart { key, marks, lines: lines.collect(), ..chart }
}

impl WafReport {
    /// A self-contained HTML page: no network, no other file.
    pub fn html(&self) -> String {
        let mut page = Page::new(format!("Write amplification of {}", self.tenants));
        page.add(&self.bars());
        self.sections().iter().for_each(|of| page.charts(of));
        for sweep in &self.sweeps {
            page.add(&[Self::sweep(sweep)]);
            page.list(&Self::missing(sweep));
        }
        page.heading("In numbers");
        let tables = [self.table(), self.latencies(), self.tenants_table()];
        tables.into_iter().filter(|table| !table.is_empty()).for_each(|table| page.add(&[table]));
        page.folded("Device WAF by octile of each drive fill", &self.octiles());
        page.heading("Assumptions");
        let assumptions = self.assumptions.iter().map(|pair| (pair.name.clone(), pair.value.clone()));
        page.add(&[Table::named_values("What was assumed", assumptions)]);
        if !self.remarks.is_empty() {
            page.heading("Remarks");
            page.list(&self.remarks);
        }
        page.html(&self.made_by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(values: &[&str], numbers: Option<&[f64]>) -> Chart {
        sweep_chart(&Sweep {
            parameter: "superblock".to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            numbers: numbers.map(<[f64]>::to_vec),
            unit: "MiB".to_owned(),
            waf: vec![("shared".to_owned(), values.iter().map(|_| SweepPoint::Waf(1.5)).collect())],
        })
    }

    #[test]
    fn sizes_lie_where_they_are_and_words_beside_each_other_with_their_names() {
        let sizes = sweep(&["512KiB", "1MiB", "4MiB"], Some(&[0.5, 1.0, 4.0]));
        assert_eq!(sizes.lines[0].x, Points::Each(vec![0.5, 1.0, 4.0]));
        assert!(!sizes.x.log && sizes.marks.is_empty());
        assert!(sweep(&["1MiB", "32MiB"], Some(&[1.0, 32.0])).x.log);
        let words = sweep(&["fifo", "random"], None);
        assert_eq!(words.lines[0].x, Points::Each(vec![1.0, 2.0]));
        let names: Vec<_> = words.marks.iter().map(|mark| (mark.x, mark.name.as_str())).collect();
        assert_eq!(names, [(1.0, "fifo"), (2.0, "random")]);
    }
}
