//! The report of a campaign as text, Markdown and HTML.

use super::answer::{DriveFinding, factor_text};
use super::{Campaign, CampaignDrive, Label, Quantity};
use crate::charts::{Axis, Chart, Line, Points, Section, Style};
use crate::table::{Cell, Table};
use crate::words::capital;
use results::format::natural_key;
use results::judge::brief;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of drives in the table of the text form.
const TEXT_ROWS: usize = 60;

/// Slowness that has the darkest colour of the grid.
const DARKEST_FACTOR: f64 = 2.0;

/// Ratio of the largest to the smallest value from which an axis is logarithmic.
const WIDE: f64 = 10.0;

const GROUP: Label = ("model and firmware", |drive| {
    format!("{} {}", drive.model, drive.firmware)
});
const LINK: Label = ("link", |drive| drive.link.clone());

/// Groups of drives in natural order. Key: sort key and name of the group; value: value and index of each drive.
type Strip = BTreeMap<(Vec<(String, u64)>, String), Vec<(f64, usize)>>;

impl Campaign {
    pub fn text(&self) -> String {
        let more = match self.drives.len().saturating_sub(TEXT_ROWS) {
            0 => String::new(),
            more => format!("and {more} more drives (--html and --json list all)\n"),
        };
        format!(
            "{}\nall drives, worst first:\n{}{more}{}{}",
            self.answer(),
            self.drive_table(None, TEXT_ROWS),
            listed("statistics:", "  ", &self.statistics()),
            listed("remarks:", "  ", &self.remarks),
        )
    }

    /// The head and the bad drives, as text.
    pub fn answer(&self) -> String {
        let bad = self.bad_drives(None, brief);
        let bad = if bad.is_empty() {
            String::new()
        } else {
            format!("\nbad drives, worst first:\n{bad}")
        };
        let head = self.head();
        format!("{}{}{bad}", head.text(), head.facts_text())
    }

    pub fn markdown(&self) -> String {
        let bad = self.bad_drives(None, str::to_owned);
        let bad = if bad.is_empty() {
            String::new()
        } else {
            format!("## Bad drives, worst first\n\n{}\n", bad.markdown())
        };
        let list =
            |title: &str, sentences: &[String]| listed(&format!("## {title}\n"), "* ", sentences);
        format!(
            "{}\n{bad}## All drives, worst first\n\n{}{}{}",
            self.head().markdown(),
            self.drive_table(None, usize::MAX).markdown(),
            list("Statistics", &self.statistics()),
            list("Remarks", &self.remarks),
        )
    }

    /// A self-contained HTML page: no network, no other file. `base`: path of the campaign's directory, relative to the
    /// page, with a slash at the end; for links to the reports of single drives. `None`: no links.
    pub fn html(&self, base: Option<&str>) -> String {
        let mut page = self.head().page();
        let bad = self.bad_drives(base, str::to_owned);
        if !bad.is_empty() {
            page.heading("Bad drives, worst first");
            page.add(&[bad]);
        }
        let intro = "Each point is a drive. Groups that lie apart have a common cause; a single point far off is an \
                     outlier.";
        let links: BTreeSet<&str> = self.drives.iter().map(|drive| &*drive.link).collect();
        let labels = [GROUP, LINK].into_iter().take(links.len());
        let charts =
            labels.flat_map(|label| self.quantities.iter().map(move |of| self.strip(of, label)));
        let title = "By model and firmware";
        page.charts(&Section::new("models", title, intro, charts.collect()));
        let grid = self.grid();
        if !grid.is_empty() {
            page.heading("By host and slot");
            page.add(&[grid]);
        }
        page.heading("All drives, worst first");
        page.add(&[self.drive_table(base, usize::MAX)]);
        page.folded_list("Statistics, in words", &self.statistics());
        page.folded_list("Remarks", &self.remarks);
        let commands = self.steps.iter().zip(&self.commands);
        let commands = commands.map(|(step, command)| format!("{step}: flashproof {command}"));
        page.folded_list("Commands of the steps", &commands.collect::<Vec<_>>());
        page.html(&self.made_by)
    }

    /// Slowness of each drive: a row for each host, a column for each slot. Drives without a known slot are left out.
    fn grid(&self) -> Table {
        let compared =
            (0..self.drives.len()).filter_map(|index| Some((index, self.factor(index)?)));
        let mut cells: BTreeMap<_, BTreeMap<_, Vec<(usize, f64)>>> = BTreeMap::new();
        let mut slots = BTreeMap::new();
        for (index, factor) in compared {
            let CampaignDrive { host, slot, .. } = &self.drives[index];
            if slot.is_empty() {
                continue;
            }
            let row = cells.entry((natural_key(host), host)).or_default();
            let cell = row.entry(natural_key(slot)).or_default();
            cell.push((index, factor));
            slots.insert(natural_key(slot), slot.as_str());
        }
        let rows = cells.iter().map(|((_, host), row)| {
            let mut cells = vec![Cell::from(*host)];
            cells.extend(slots.keys().map(|slot| self.grid_cell(row.get(slot))));
            cells
        });
        let title =
            "Mean latency relative to the peers, by host (row) and slot (column). ✘: a bad drive.";
        Table::new(title)
            .text(["host"])
            .text(slots.values().copied())
            .rows(rows)
    }

    /// The cell of a slot, with all drives that have the label of the slot.
    fn grid_cell(&self, drives: Option<&Vec<(usize, f64)>>) -> Cell {
        let Some(drives) = drives else {
            return "".into();
        };
        let text = |(index, factor): &(usize, f64)| {
            let sign = if self.is_bad(*index) { "✘ " } else { "" };
            format!("{sign}{}", factor_text(*factor))
        };
        let texts: Vec<_> = drives.iter().map(text).collect();
        let factor = drives.iter().map(|(_, factor)| *factor).fold(1.0, f64::max);
        Cell::shaded(texts.join("  "), factor.ln() / DARKEST_FACTOR.ln())
    }

    /// True if a drive failed, or is slow by itself.
    fn is_bad(&self, index: usize) -> bool {
        self.finding(index) <= DriveFinding::Slow && !self.reason(index).is_empty()
    }

    /// Index of the line of a drive in a strip.
    fn line_of(&self, index: usize) -> usize {
        match self.finding(index) {
            _ if self.is_bad(index) => 2,
            DriveFinding::PassedButSlow | DriveFinding::Slow => 1,
            _ => 0,
        }
    }

    /// The values of all drives as points, a column for each group; bad drives have their names.
    fn strip(&self, quantity: &Quantity, (name, label): Label) -> Chart {
        let mut groups: Strip = BTreeMap::new();
        for (index, drive) in self.drives.iter().enumerate() {
            let group = label(drive);
            if let Some(value) = quantity.values[index].filter(|_| !group.trim().is_empty()) {
                let key = (natural_key(&group), group);
                groups.entry(key).or_default().push((value, index));
            }
        }
        let mut lines = vec![
            points("good drives", Style::dots(0, false)),
            points("drives of a slow group", Style::dots(4, false)),
            points("bad drives", Style::dots(1, true)),
        ];
        for (at, drives) in (1..).zip(groups.values_mut()) {
            drives.sort_by(|a, b| a.0.total_cmp(&b.0));
            for (rank, (value, index)) in drives.iter().enumerate() {
                let name = &self.drives[*index].drive;
                lines[self.line_of(*index)].add(spread(at, rank, drives.len()), *value, name);
            }
        }
        let ticks = (1..).zip(groups.into_keys());
        let ticks = ticks.map(|(at, (_, group))| (f64::from(at), group));
        let x = Axis {
            ticks: ticks.collect(),
            ..Axis::linear(name, "")
        };
        let y = Axis {
            log: quantity.is_wide(),
            ..Axis::linear(&quantity.name, &quantity.unit)
        };
        let title = format!("{} by {name}", capital(&quantity.name));
        let id = format!("strip-{}-{name}", quantity.name);
        lines.retain(|line| !line.y.is_empty());
        Chart {
            key: quantity.range_text(),
            lines,
            ..Chart::new(id, title, x, y)
        }
    }
}

impl Quantity {
    /// Known values, ascending.
    fn sorted(&self) -> Vec<f64> {
        let mut values: Vec<f64> = self.values.iter().flatten().copied().collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// True if the values differ so much that a linear axis would hide the smaller ones.
    fn is_wide(&self) -> bool {
        let values = self.sorted();
        values.last() > values.first().map(|least| least * WIDE).as_ref()
    }

    /// `Median 103 us, from 98 us to 210 us.`
    fn range_text(&self) -> String {
        let values = self.sorted();
        let [first, .., last] = values[..] else {
            return String::new();
        };
        let median = self.text(values[(values.len() - 1) / 2]);
        let first = self.text(first);
        format!("Median {median}, from {first} to {}.", self.text(last))
    }
}

fn points(name: &str, style: Style) -> Line {
    Line::new(name, Points::Each(Vec::new()), Vec::new(), style)
}

/// Position of a drive in the column of its group: side by side, so that equal values stay visible.
fn spread(column: u32, rank: usize, drives: usize) -> f64 {
    let share = rank as f64 / (drives.max(2) - 1) as f64;
    f64::from(column) + 0.6 * (share - 0.5)
}

/// Sentences under a heading; empty without sentences.
fn listed(head: &str, bullet: &str, sentences: &[String]) -> String {
    let items: String = sentences
        .iter()
        .map(|sentence| format!("{bullet}{sentence}\n"))
        .collect();
    if items.is_empty() {
        items
    } else {
        format!("\n{head}\n{items}")
    }
}
