//! Preparations for random writes on a simulated drive: for each preparation, the bytes written, and the distance of
//! the drive from the steady state afterwards.

use super::answer::PREDICTED;
use crate::bars::Bars;
use crate::charts::{Axis, Chart, Line, Points, Section, Style};
use crate::head::Head;
use crate::table::Table;
use results::judge::{Headline, Outcome};
use results::waf::{OCTILES_PER_FILL, PreparedDrive};
use schemars::JsonSchema;
use serde::Serialize;

/// Relative difference from the steady state that counts as steady.
const STEADY: f64 = 0.02;

/// Eighths (octiles) of the first drive fill after a preparation that the table shows, numbered from 0.
const SHOWN: [usize; 5] = [0, 1, 2, 3, 7];

/// The steady state of random overwrites on a drive, and the state after each preparation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Preparations {
    /// [`super::FORMAT_VERSION`].
    pub format_version: u32,
    /// Program and version.
    pub made_by: String,
    /// The simulated drive.
    pub drive: String,
    /// Over-provisioning of the drive, (T - U) / U, in words.
    pub over_provisioning: String,
    /// Write amplification of the steady state.
    pub waf: f64,
    /// Share of valid units in each superblock in the steady state: ascending, sampled evenly over all superblocks.
    pub valid: Vec<f64>,
    /// The preparations.
    pub found: Vec<PreparedDrive>,
}

impl Preparations {
    pub fn text(&self) -> String {
        format!("{}\n{}{}\n", self.head().text(), self.table(), about("\n"))
    }

    pub fn markdown(&self) -> String {
        format!(
            "{}{}\n{}\n",
            self.head().markdown(),
            self.table().markdown(),
            about("\n")
        )
    }

    pub fn html(&self) -> String {
        let mut page = self.head().page();
        let mut written = Bars::new("Written by the preparation", "In capacities of the drive.");
        for of in &self.found {
            written.bar(&of.preparation, Some(of.fills), format!("{:.2}", of.fills));
        }
        page.add(&[written]);
        let intro = "After a good preparation, the drive is steady from the first write on.";
        page.charts(&Section::new(
            "after",
            "After the preparation",
            intro,
            vec![self.waf_after(), self.valid_units()],
        ));
        page.heading("In numbers");
        page.add(&[self.table()]);
        page.list(&[about(" ")]);
        page.html(&self.made_by)
    }

    fn head(&self) -> Head {
        let title = "Preparations for random writes".to_owned();
        let octiles = |one: &PreparedDrive| one.octiles_until(STEADY).unwrap_or(usize::MAX);
        let by_effort = |a: &&PreparedDrive, b: &&PreparedDrive| {
            let by_octiles = octiles(a).cmp(&octiles(b));
            by_octiles.then(a.fills.total_cmp(&b.fills))
        };
        let best = self.found.iter().min_by(by_effort);
        let best = best.map_or("none", |one| one.preparation.as_str());
        let sentence = format!("best preparation (steady soonest, then fewest writes): {best}");
        let headline = Headline::new(&sentence, None);
        let mut head = Head::labelled(title, PREDICTED, Some(Outcome::Measured), headline);
        head.fact("Steady WAF", format!("{:.2}", self.waf));
        head.fact("Drive", &self.drive);
        head.fact("Over-provisioning", &self.over_provisioning);
        head.fact("Made by", &self.made_by);
        head
    }

    /// A row for each preparation.
    pub fn table(&self) -> Table {
        let rows = self.found.iter().map(|of| {
            let waf = |octile: usize| format!("{:+.1} %", (of.after[octile] - 1.0) * 100.0);
            let until = of
                .octiles_until(STEADY)
                .map_or(format!("over {}", of.after.len()), |octiles| {
                    octiles.to_string()
                });
            let cells = [of.preparation.clone(), format!("{:.2}", of.fills)]
                .into_iter()
                .chain(SHOWN.map(waf));
            cells
                .chain([until, format!("{:.2} %", of.distance * 100.0)])
                .collect::<Vec<_>>()
        });
        Table::new("Preparations for random writes")
            .text(["preparation"])
            .numbers(
                ["written".to_owned()]
                    .into_iter()
                    .chain(SHOWN.map(|octile| format!("WAF {}", octile + 1))),
            )
            .numbers(["steady after", "valid off by"])
            .rows(rows)
    }

    fn waf_after(&self) -> Chart {
        let step = 1.0 / OCTILES_PER_FILL as f64;
        let x = Axis::linear("random overwrites since the preparation", "drive fills");
        let lines = self.found.iter().enumerate().map(|(number, of)| {
            let y = of.after.iter().map(|waf| Some(waf * self.waf)).collect();
            Line::new(
                &of.preparation,
                Points::Even { first: step, step },
                y,
                Style::line(number),
            )
        });
        let x_range = vec![
            step,
            step * self.found.first().map_or(0, |of| of.after.len()) as f64,
        ];
        let y = vec![Some(self.waf); 2];
        let style = Style::line(self.found.len());
        let steady = Line::new("steady state", Points::Each(x_range), y, style);
        let key = format!("The steady state has a WAF of {:.2}.", self.waf);
        let caption =
            "Bytes written to the media for each byte from the host. Each point is an eighth of a drive fill.".into();
        let chart = Chart::new(
            "waf",
            "WAF of random overwrites after the preparation",
            x,
            Axis::linear("WAF", ""),
        );
        Chart {
            key,
            caption,
            lines: lines.chain([steady]).collect(),
            wide: true,
            ..chart
        }
    }

    fn valid_units(&self) -> Chart {
        let found = self
            .found
            .iter()
            .map(|found| (found.preparation.as_str(), &found.valid));
        let mut lines = Vec::new();
        for (number, (name, valid)) in found.chain([("steady state", &self.valid)]).enumerate() {
            let step = 100.0 / valid.len() as f64;
            let points = Points::Even {
                first: step / 2.0,
                step,
            };
            let y = valid.iter().map(|share| Some(share * 100.0)).collect();
            lines.push(Line::new(name, points, y, Style::line(number)));
        }
        let x = Axis::linear("superblocks, the emptiest first", "%");
        let chart = Chart::new(
            "valid",
            "Valid units of the superblocks",
            x,
            Axis::linear("valid units", "%"),
        );
        let key =
            "Garbage collection takes the emptiest superblocks and moves their valid units.".into();
        let caption =
            "State at the end of the preparation. A line above the steady state means that more data is moved.".into();
        Chart {
            key,
            caption,
            lines,
            wide: true,
            ..chart
        }
    }
}

/// Meaning of the table's columns.
fn about(wrap: &str) -> String {
    format!(
        "WAF N: WAF in octile (eighth) N of the next drive fill of random overwrites, relative to the steady state; \
         steady{wrap}\
         after: octiles until the WAF stays within {:.0} %; valid off by: mean difference of the superblocks' shares \
         of valid{wrap}\
         units from the steady state",
        STEADY * 100.0
    )
}
