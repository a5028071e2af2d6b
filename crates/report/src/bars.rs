//! Bars: one number for each of a few objects. Each bar is drawn against its own limit, or all against the longest bar.
//! HTML needs no script for them.

use crate::charts::identifier;
use maud::{Markup, Render, html};
use results::format::percent;

pub struct Bars {
    title: String,
    caption: String,
    rows: Vec<Bar>,
}

struct Bar {
    name: String,
    /// The value in words.
    text: String,
    /// `None`: no bar, and `text` gives the reason.
    value: Option<f64>,
    limit: Option<f64>,
    is_over: bool,
}

/// Position of the limit, as a fraction of the full width. A bar of full width is twice its limit.
const LIMIT_AT: f64 = 0.5;

impl Bars {
    pub fn new(title: impl Into<String>, caption: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            caption: caption.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a bar that is drawn against the longest bar.
    pub fn bar(&mut self, name: impl Into<String>, value: Option<f64>, text: impl Into<String>) {
        self.rows.push(Bar {
            name: name.into(),
            text: text.into(),
            value,
            limit: None,
            is_over: false,
        });
    }

    /// Adds a bar that is drawn against its own limit. `is_over`: the caller's exact comparison with the limit.
    pub fn against(
        &mut self,
        name: impl Into<String>,
        value: f64,
        limit: f64,
        text: impl Into<String>,
        is_over: bool,
    ) {
        let name = name.into();
        let text = text.into();
        self.rows.push(Bar {
            name,
            text,
            value: Some(value),
            limit: Some(limit),
            is_over,
        });
    }

    /// True if no bar has a value.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|bar| bar.value.is_none())
    }

    fn length_pct(&self, bar: &Bar) -> f64 {
        let longest = self
            .rows
            .iter()
            .filter_map(|bar| bar.value)
            .fold(0.0, f64::max);
        let part = bar.limit.map_or(1.0 / longest, |limit| LIMIT_AT / limit)
            * bar.value.unwrap_or_default();
        if part.is_nan() {
            0.0
        } else {
            100.0 * part.clamp(0.0, 1.0)
        }
    }
}

impl Render for Bars {
    fn render(&self) -> Markup {
        if self.rows.is_empty() {
            return html! {};
        }
        html! {
            figure.chart {
                figcaption.title { (self.title) }
                div.bars {
                    @for bar in &self.rows {
                        span { (bar.name) }
                        span.track.limit[bar.limit.is_some()] aria-hidden="true" {
                            span.fill.over[bar.is_over] style={ "width:" (format!("{:.2}", self.length_pct(bar))) "%" } {}
                        }
                        span.number.over[bar.is_over] { @if bar.is_over { "✘ " } (bar.text) }
                    }
                }
                p.caption { (self.caption) }
            }
        }
    }
}

pub(crate) struct StackPart<'a> {
    pub(crate) name: &'a str,
    /// Fraction of the bar; `None`: only in the legend.
    pub(crate) share: Option<f64>,
    pub(crate) text: &'a str,
}

/// One bar that is divided into parts, with a legend. The style sheet has a colour for each name.
pub(crate) fn stack(title: &str, parts: &[StackPart<'_>]) -> Markup {
    let width = |share: f64| format!("width:{:.2}%", 100.0 * share.clamp(0.0, 1.0));
    let drawn = parts
        .iter()
        .filter_map(|part| Some((identifier(part.name), part.share?)));
    html! {
        figure.chart {
            figcaption.title { (title) }
            div.stack aria-hidden="true" { @for (class, share) in drawn { span.cause.(class) style=(width(share)) {} } }
            ul.causes {
                @for part in parts {
                    li {
                        @if let Some(share) = part.share {
                            span.cause.(identifier(part.name)) {}
                            b { (percent(share)) " " }
                        }
                        b { (part.name) } ": " (part.text)
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_at_half_of_the_bar_and_bars_without_limits_share_a_scale() {
        let mut bars = Bars::new("T", "");
        assert!(bars.is_empty());
        bars.against("<a>", 0.05, 0.1, "0.05 %", false);
        bars.against("b", 0.3, 0.1, "0.3 %", true);
        let html = bars.render().into_string();
        assert!(
            html.contains("&lt;a&gt;") && html.contains("width:25.00%"),
            "{html}"
        );
        assert!(
            html.contains("fill over\" style=\"width:100.00%") && html.contains("✘ 0.3 %"),
            "{html}"
        );
        let mut bars = Bars::new("T", "");
        bars.bar("a", Some(3.0), "3x");
        bars.bar("b", Some(1.5), "1.5x");
        bars.bar("c", None, "-");
        let html = bars.render().into_string();
        assert!(
            ["width:100.00%", "width:50.00%", "width:0.00%"]
                .iter()
                .all(|width| html.contains(width)),
            "{html}"
        );
    }

    #[test]
    fn a_cause_without_a_share_is_in_the_legend_only() {
        let part = |name, share, text| StackPart { name, share, text };
        let late = part("this program", Some(0.25), "issued late");
        let busy = part("host", None, "all CPUs were busy");
        let html = stack("Slice 1", &[late, busy]).into_string();
        assert!(
            html.contains("cause this-program\" style=\"width:25.00%\"")
                && html.contains("<b>25.0 % </b><b>this program</b>: issued late"),
            "{html}"
        );
        assert!(
            html.contains("<li><b>host</b>: all CPUs were busy</li>")
                && html.matches("width:").count() == 1,
            "{html}"
        );
    }
}
