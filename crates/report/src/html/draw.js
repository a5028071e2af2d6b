// Draws every chart of the page with plotly.js from the JSON in the element "charts". One after the
// other, with breaks, so that the text can be read and scrolled meanwhile.
(() => {
  const charts = JSON.parse(document.getElementById('charts').textContent);
  const root = document.documentElement;
  const grid = {gridcolor: '#e3e3e3', zerolinecolor: '#bbbbbb', linecolor: '#555555', ticks: 'outside',
    tickcolor: '#555555', automargin: true, exponentformat: 'none', minor: {}};
  const font = {family: 'system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif', size: 12, color: '#1a1a1a'};
  const touch = window.matchMedia('(pointer: coarse)').matches;
  const config = {responsive: true, displaylogo: false, showTips: false,
    // Its buttons would cover names and data at the top; a double click goes back from a zoom.
    displayModeBar: false};

  const layoutOf = (chart, element) => {
    const own = chart.layout;
    return {
      ...own,
      xaxis: {...grid, ...own.xaxis},
      yaxis: {...grid, ...(own.yaxis.type === 'log' ? {dtick: 1} : {}), ...own.yaxis},
      font, paper_bgcolor: '#ffffff', plot_bgcolor: '#ffffff', hovermode: chart.data.some((t) => t.z) ? 'closest' : 'x unified',
      hoverlabel: {font: {size: 12}}, dragmode: touch ? false : 'zoom', autosize: true,
      margin: {l: 52, r: 12, t: 28, b: 40, pad: 2},
      legend: {orientation: 'h', yref: 'container', y: 0, yanchor: 'bottom', x: 0, font: {size: 11}},
    };
  };

  // Shares of a heat map for who points at a field; computed here, as they would double the page.
  const withTexts = (trace) => {
    if (!trace.z) return trace;
    const share = (log) => log === null ? '' : `${(10 ** log * 100).toPrecision(3)} %`;
    const narrow = window.innerWidth < 480;
    return {...trace, text: trace.z.map((row) => row.map(share)), hoverongaps: false,
      hovertemplate: '%{y:.3~g} ms: %{text} of the column<extra></extra>',
      colorbar: {...trace.colorbar, thickness: narrow ? 8 : 14, outlinewidth: 0,
        ...(narrow ? {title: {text: ''}} : {})}};
  };

  const drawn = [];
  const draw = (chart) => {
    const element = document.getElementById(chart.id);
    try {
      Plotly.newPlot(element, chart.data.map(withTexts), layoutOf(chart, element), config);
      drawn.push(element);
    } catch (error) {
      trouble(`${chart.id}: ${error.message}`);
    }
    document.body.dataset.chartsDrawn = String(drawn.length);
  };

  const queue = charts.slice();
  const finish = () => {
    document.body.dataset.drawnAfterMs = String(Math.round(performance.now()));
    document.body.dataset.overflowPx = String(Math.max(0, root.scrollWidth - window.innerWidth));
  };
  const next = () => {
    const until = performance.now() + 40;
    while (queue.length > 0 && performance.now() < until) draw(queue.shift());
    if (queue.length > 0) setTimeout(next, 0); else finish();
  };

  // On paper charts have the width of their place there, which the browser does not tell beforehand.
  const sized = (element, width) => Plotly.relayout(element, width ? {width, autosize: false} : {autosize: true});
  window.addEventListener('beforeprint', () => {
    while (queue.length > 0) draw(queue.shift());
    drawn.forEach((element) => sized(element, 680));
  });
  window.addEventListener('afterprint', () => drawn.forEach((element) => {
    delete element.layout.width;
    sized(element);
  }));
  next();
})();
