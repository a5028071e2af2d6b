// Draws every chart of the page as SVG, from the JSON in the element "charts": lines, symbols and heat
// maps over linear and logarithmic axes. Drag to zoom, double click to reset the zoom, point at a place to
// read its values, click a name in the legend to hide its line. Charts over time are zoomed together, and the
// fragment of the address holds their zoom, so that a link can lead to a moment.
(() => {
  const SVG = 'http://www.w3.org/2000/svg';
  // Okabe and Ito's colours, which people with colour blindness can distinguish (Color Universal Design,
  // 2008); without yellow, which is hard to see on white. Dashes and symbols distinguish lines, too.
  const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', 'currentColor'];
  const DASHES = ['', '7 4', '2 3', '7 3 2 3', '12 4', '12 3 2 3'];
  // Paths around a point; a path that ends in z is filled.
  const SYMBOLS = [
    (r) => `m${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0z`,
    (r) => `m${-r},${-r}l${2 * r},${2 * r}m0,${-2 * r}l${-2 * r},${2 * r}`,
    (r) => `m${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
    (r) => `m0,${-1.3 * r}l${1.3 * r},${1.3 * r}l${-1.3 * r},${1.3 * r}l${-1.3 * r},${-1.3 * r}z`,
    (r) => `m0,${-1.1 * r}l${1.2 * r},${2 * r}h${-2.4 * r}z`,
    (r) => `m${-1.1 * r},0h${2.2 * r}m${-1.1 * r},${-1.1 * r}v${2.2 * r}`,
  ];
  // From few (light) to many (dark), in one hue; on black, the style sheet inverts the picture.
  const SHADES = [[0, [188, 217, 238]], [0.4, [90, 159, 208]], [0.75, [28, 95, 158]], [1, [8, 37, 74]]];
  const LEVELS = 48;
  const FONT_PX = 11.5;
  // A drag shorter than DRAG_PX is a click. A drag shorter than FLAT_PX along one axis zooms only the other.
  const DRAG_PX = 6, FLAT_PX = 24;

  const charts = JSON.parse(document.getElementById('charts').textContent);
  const root = document.documentElement;
  const drawn = [];
  const pick = (from, at) => from[at % from.length];
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

  const add = (parent, name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return parent.appendChild(made);
  };
  const addHtml = (parent, name, className, text) => {
    const made = document.createElement(name);
    made.className = className;
    if (text !== undefined) made.textContent = text;
    return parent.appendChild(made);
  };

  const ruler = document.createElement('canvas').getContext('2d');
  ruler.font = `${FONT_PX}px system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif`;
  const widest = (texts) => Math.max(0, ...texts.map((text) => ruler.measureText(text).width));

  // `text` in lines of at most `length`, broken between words.
  const lines = (text, length) => text.split(' ').reduce((made, word) => {
    const longer = `${made.at(-1)} ${word}`;
    return widest([longer]) <= length ? [...made.slice(0, -1), longer] : [...made, word];
  }, ['']).map((line) => line.trim()).filter(Boolean);

  // A number with at most `digits` digits and thousands grouped: 1,234 or 0.00125.
  const number = (value, digits) => value === 0 ? '0'
    : Math.abs(value) < 1e-6 ? value.toExponential(1)
      : value.toLocaleString('en-US', {maximumSignificantDigits: digits});
  const percentOf = (log) => `${number(Number((10 ** log * 100).toPrecision(3)), 3)} %`;

  // An axis converts values to pixels and back.
  const axisOf = (log, from, to, px0, px1) => {
    const forth = log ? Math.log10 : (value) => value, back = log ? (value) => 10 ** value : (value) => value;
    const a = forth(from), scale = (px1 - px0) / (forth(to) - a || 1);
    return {log, from, to, px: (value) => px0 + (forth(value) - a) * scale, at: (px) => back(a + (px - px0) / scale)};
  };

  const niceStep = (span, most) => {
    const rough = span / Math.max(1, most), power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 5, 10].find((nice) => nice * power >= rough * 0.999);
  };
  const ticksOf = (axis, most, whole) => {
    const ticks = [];
    if (axis.log && axis.to / axis.from > 15) {
      const [low, high] = [Math.ceil(Math.log10(axis.from) - 1e-9), Math.floor(Math.log10(axis.to) + 1e-9)];
      const each = Math.ceil((high - low + 1) / Math.max(2, most));
      for (let power = low; power <= high; power += each) ticks.push(10 ** power);
    } else {
      const step = Math.max(niceStep(axis.to - axis.from, most), whole ? 1 : 0);
      const first = Math.ceil(axis.from / step - 1e-9);
      for (let n = first; n * step <= axis.to + step * 1e-9; n += 1) ticks.push(Number((n * step).toPrecision(12)));
    }
    return ticks;
  };

  // Ticks of a logarithmic horizontal axis: at most `most` positions of points.
  const ticksAtPoints = (chart, axis, most) => {
    const places = [...new Set(chart.lines.flatMap((line) => line.x ?? []))].sort((a, b) => a - b)
      .filter((place) => axis.from <= place && place <= axis.to);
    const each = Math.ceil(places.length / most);
    return places.filter((_, at) => at % each === 0);
  };

  // Many separate points, such as maxima, are drawn behind the lines, which they would hide.
  const isBehind = (line) => !line.joined && line.y.length > 60;
  // Ticks with names, such as categories, in lines. Names that do not fit side by side are slanted; `room` is their
  // height in pixels, less that of one line.
  const namedTicks = (ticks, width) => {
    const names = ticks.map(([, name]) => name), slot = width / names.length - 8;
    const texts = names.map((name) => lines(name, slot));
    if (widest(texts.flat()) <= slot) return {texts, room: 14 * (Math.max(...texts.map((text) => text.length)) - 1), each: 1};
    return {room: Math.min(0.6 * widest(names), 100), each: Math.ceil(names.length * 16 / width)};
  };

  const xOf = (line, at) => line.x ? line.x[at] : line.first + line.step * at;

  // The ranges of the axes that show all values of a chart.
  const rangesOf = (chart, hidden) => {
    const {x, y, heat} = chart;
    if (heat) return {x: [heat.x[0], heat.x.at(-1)], y: [heat.y[0], heat.y.at(-1)]};
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    chart.lines.forEach((line, number) => line.y.forEach((value, at) => {
      const place = xOf(line, at);
      [x0, x1] = [Math.min(x0, place), Math.max(x1, place)];
      if (value !== null && !hidden.has(number)) [y0, y1] = [Math.min(y0, value), Math.max(y1, value)];
    }));
    chart.marks.forEach((mark) => [x0, x1] = [Math.min(x0, mark), Math.max(x1, mark)]);
    chart.limits.forEach((limit) => [y0, y1] = [Math.min(y0, limit.y), Math.max(y1, limit.y)]);
    if (y0 > y1) [y0, y1] = y.log ? [1, 10] : [0, 1];
    if (y.log) {
      const room = Math.max(Math.log10(y1 / y0) * 0.06, y1 / y0 < 2 ? 0.4 : 0.02);
      [y0, y1] = [y0 / 10 ** room, y1 * 10 ** room];
    } else {
      // Room above a limit or point for its name.
      const head = chart.limits.length > 0 || chart.lines.some((line) => line.named) ? 1.15 : 1.06;
      y1 = y.max ?? (y1 <= 0 ? 1 : y1 * head);
      y0 = y0 < 0 ? y0 * 1.06 : 0;
    }
    if (x.ticks) return {x: [x.ticks[0][0] - 0.5, x.ticks.at(-1)[0] + 0.5], y: [y0, y1]};
    if (x.log) return {x: [x0 / 1.2, x1 * 1.2], y: [y0, y1]};
    const room = x.end === undefined ? (x1 - x0) * 0.05 || 0.5 : 0;
    return {x: x.end === undefined ? [x0 - room, x1 + room] : [0, x.end || 1], y: [y0, y1]};
  };

  // The zoom of all charts over time, in seconds from and to: #t=3600-3660. Null: no zoom.
  const momentOf = () => {
    const [from, to] = (/^#t=([\d.]+)-([\d.]+)$/.exec(location.hash) ?? []).slice(1).map(Number);
    return from < to ? [from, to] : null;
  };
  let moment = momentOf();
  const isTime = ({x}) => x.second !== undefined;
  const zoomTime = (range) => {
    moment = range;
    location.replace(range ? `#t=${range.map((sec) => Number(sec.toPrecision(6))).join('-')}` : '#t=all');
    redrawTime();
  };
  const redrawTime = () => drawn.forEach((drawing) => isTime(drawing.chart) && drawing.draw());
  window.addEventListener('hashchange', () => {
    moment = momentOf();
    redrawTime();
  });

  const shade = (part) => {
    const at = Math.max(1, SHADES.findIndex(([upTo]) => part <= upTo));
    const [[low, dark], [high, light]] = [SHADES[at - 1], SHADES[at]];
    const mix = dark.map((from, n) => Math.round(from + (light[n] - from) * (part - low) / (high - low)));
    return `rgb(${mix.join()})`;
  };

  class Drawing {
    constructor(chart) {
      Object.assign(this, {chart, hidden: new Set(), zoom: null});
      this.element = document.getElementById(chart.id);
      this.svg = add(this.element, 'svg', {'aria-hidden': 'true'});
      this.tip = addHtml(this.element, 'div', 'tip');
      this.tip.hidden = true;
      if (chart.lines.length > 1) this.legend();
      this.listen();
      this.draw();
    }

    legend() {
      const legend = addHtml(this.element, 'div', 'legend');
      this.chart.lines.forEach((line, number) => {
        const entry = addHtml(legend, 'button', '');
        entry.type = 'button';
        this.sample(entry, line);
        entry.append(line.name);
        entry.setAttribute('aria-pressed', 'true');
        entry.addEventListener('click', () => {
          if (!this.hidden.delete(number)) this.hidden.add(number);
          entry.setAttribute('aria-pressed', String(!this.hidden.has(number)));
          this.draw();
        });
      });
    }

    // A sample of a line, for the legend.
    sample(parent, line) {
      const svg = add(parent, 'svg', {width: 28, height: 10, 'aria-hidden': 'true'});
      if (line.joined) add(svg, 'path', {d: 'M0,5H28', ...this.stroke(line)});
      if (line.symbols) this.symbols(svg, line, [[14, 5]], 3.5);
    }

    stroke(line) {
      return {class: 'line', stroke: pick(COLOURS, line.colour), 'stroke-dasharray': pick(DASHES, line.dash)};
    }

    symbols(parent, line, points, radius) {
      const shape = pick(SYMBOLS, line.dash)(radius), colour = pick(COLOURS, line.colour);
      const d = points.map(([x, y]) => `M${x.toFixed(1)},${y.toFixed(1)}${shape}`).join('');
      add(parent, 'path', {d, fill: shape.endsWith('z') ? colour : 'none', stroke: colour, opacity: isBehind(line) ? 0.5 : 1});
    }

    // The visible part of the horizontal axis. Null: the whole axis, also if the zoom begins after the end.
    zoomedX() {
      const {chart, zoom} = this;
      if (!isTime(chart)) return zoom?.x;
      return moment && moment[0] < chart.x.end * chart.x.second ? moment.map((sec) => sec / chart.x.second) : null;
    }

    // Draws the chart again. `width` overrides the width of the element.
    draw(width = this.svg.clientWidth) {
      const {chart, svg, zoom} = this, height = this.svg.clientHeight;
      svg.replaceChildren();
      svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
      const whole = rangesOf(chart, this.hidden), range = {x: this.zoomedX() ?? whole.x, y: zoom?.y ?? whole.y};
      const narrow = width < 480, bar = chart.heat ? (narrow ? 58 : 86) : 0;
      const named = chart.x.ticks && namedTicks(chart.x.ticks, width - 76);
      // Above the topmost point is room for its name.
      const [top, bottom] = [chart.lines.some((line) => line.named) ? 24 : 8, height - 38 - (named?.room ?? 0)];
      const y = axisOf(chart.y.log, ...range.y, bottom, top);
      const yTicks = ticksOf(y, Math.max(2, (bottom - top) / 38), false);
      const yTexts = yTicks.map((tick) => number(tick, 12));
      const yTitle = lines(chart.y.title, bottom - top);
      const limits = chart.limits.filter(({y: value}) => range.y[0] <= value && value <= range.y[1]);
      // Names of limits stand beside the chart, not over its data.
      const beside = limits.length && Math.ceil(widest(limits.map((limit) => limit.name)));
      const left = Math.ceil(widest(yTexts)) + 16 + 14 * yTitle.length, right = width - 12 - bar - beside;
      const x = axisOf(chart.x.log, ...range.x, left, right);
      const xTicks = named ? [] : chart.x.log ? ticksAtPoints(chart, x, Math.max(2, (right - left) / 32))
        : ticksOf(x, Math.max(2, (right - left) / 75), chart.x.whole);
      Object.assign(this, {x, y, box: {left, right, top, bottom}, width, height});

      const middle = (from, to) => (from + to) / 2;
      yTicks.forEach((tick, at) => {
        const px = y.px(tick);
        add(svg, 'path', {class: 'grid', d: `M${left},${px}H${right}`});
        add(svg, 'text', {x: left - 7, y: px + 4, 'text-anchor': 'end'}, yTexts[at]);
      });
      xTicks.forEach((tick) => {
        const px = x.px(tick);
        add(svg, 'path', {class: 'grid', d: `M${px},${top}V${bottom}`});
        add(svg, 'text', {x: px, y: bottom + 16, 'text-anchor': 'middle'}, number(tick, 12));
      });
      if (named) chart.x.ticks.forEach(([place, name], at) => {
        if (place < x.from || place > x.to || at % named.each !== 0) return;
        const px = x.px(place);
        if (!named.texts) {
          add(svg, 'text', {transform: `translate(${px + 4},${bottom + 14}) rotate(-38)`, 'text-anchor': 'end'}, name);
        }
        named.texts?.[at].forEach((text, row) => {
          add(svg, 'text', {x: px, y: bottom + 16 + 14 * row, 'text-anchor': 'middle'}, text);
        });
      });
      add(svg, 'text', {x: middle(left, right), y: height - 6, 'text-anchor': 'middle'}, chart.x.title);
      yTitle.forEach((text, at) => add(svg, 'text', {
        transform: `translate(${12 + 14 * at},${middle(top, bottom)}) rotate(-90)`, 'text-anchor': 'middle'}, text));

      const clip = `clip-${chart.id}`;
      // Space for a symbol at the end of the axis.
      const spare = zoom || this.zoomedX() ? 0 : 5;
      add(add(svg, 'clipPath', {id: clip}), 'rect', {x: left, y: top, width: right - left + spare, height: bottom - top});
      const inside = add(svg, 'g', {'clip-path': `url(#${clip})`});
      if (chart.heat) {
        this.heat(inside);
        this.bar(width - bar, narrow);
      }
      chart.marks.forEach((mark) => add(inside, 'path', {class: 'mark', d: `M${x.px(mark)},${top}V${bottom}`}));
      const shown = chart.lines.filter((_, number) => !this.hidden.has(number));
      [...shown.filter(isBehind), ...shown.filter((line) => !isBehind(line))].forEach((line) => this.line(inside, line));
      limits.forEach((limit) => {
        const px = y.px(limit.y);
        add(svg, 'path', {class: 'limit', d: `M${left},${px}H${right}`});
        add(svg, 'text', {class: 'limit', x: right + 5, y: px + 4}, limit.name);
      });
      this.names();
      add(svg, 'path', {class: 'axis', d: `M${left},${top}V${bottom}H${right}`});
      this.pointer = add(svg, 'g', {});
    }

    line(parent, line) {
      const {x, y} = this;
      let d = '', isOpen = false;
      const points = [];
      line.y.forEach((value, at) => {
        if (value === null) {
          isOpen = false;
          return;
        }
        const [px, py] = [x.px(xOf(line, at)), y.px(value)];
        // A step: the value of the period that ends at the point.
        const from = line.stepped ? x.px(xOf(line, at - 1)).toFixed(1) : null;
        if (line.stepped) d += isOpen ? `V${py.toFixed(1)}H${px.toFixed(1)}` : `M${from},${py.toFixed(1)}H${px.toFixed(1)}`;
        else if (line.joined) d += `${isOpen ? 'L' : 'M'}${px.toFixed(1)},${py.toFixed(1)}`;
        // A point between two gaps is a line of no length, drawn by its round ends.
        if (line.joined && !isOpen && (line.y[at + 1] ?? null) === null) d += 'h0';
        isOpen = true;
        points.push([px, py]);
      });
      if (d) add(parent, 'path', {d, ...this.stroke(line)});
      if (line.symbols) this.symbols(parent, line, points, line.y.length > 60 ? 2 : 3.5);
    }

    // Names of points, above them; a name that would cover another one moves up, if there is room.
    names() {
      const {svg, box} = this, drawn = [];
      this.points().filter(({line}) => line.named).sort((a, b) => b.py - a.py).forEach(({px, py, name}) => {
        const half = widest([name]) / 2, x = clamp(px, box.left + half, box.right - half);
        let at = py - 7;
        for (const other of drawn) {
          if (Math.abs(x - other.x) < half + other.half && at > other.at - 12) at = other.at - 12;
        }
        if (py < box.top || at < 10) return;
        drawn.push({x, half, at});
        add(svg, 'text', {class: 'name', x, y: at, 'text-anchor': 'middle'}, name);
      });
    }

    // The visible points that have names, in pixels.
    points() {
      const {x, y} = this;
      return this.chart.lines.flatMap((line, number) => this.hidden.has(number) || !line.labels ? []
        : line.labels.map((name, at) => ({line, name, value: line.y[at], px: x.px(line.x[at]), py: y.px(line.y[at])})));
    }

    // Fields of one shade are one path; neighbours of equal shade in a row are one rectangle.
    heat(parent) {
      const {chart: {heat}, x, y} = this;
      const paths = Array(LEVELS).fill('');
      const level = (log) => log === null ? -1 : Math.round(clamp(1 - log / heat.least, 0, 1) * (LEVELS - 1));
      const [xs, ys] = [heat.x.map((edge) => x.px(edge).toFixed(1)), heat.y.map((edge) => y.px(edge).toFixed(1))];
      heat.shares.forEach((row, at) => {
        for (let from = 0; from < row.length;) {
          const of = level(row[from]);
          let to = from + 1;
          while (to < row.length && level(row[to]) === of) to += 1;
          if (of >= 0) paths[of] += `M${xs[from]},${ys[at]}V${ys[at + 1]}H${xs[to]}V${ys[at]}z`;
          from = to;
        }
      });
      const group = add(parent, 'g', {class: 'heat', 'shape-rendering': 'crispEdges'});
      paths.forEach((d, at) => d && add(group, 'path', {d, fill: shade(at / (LEVELS - 1))}));
    }

    // The scale of shades.
    bar(left, narrow) {
      const {svg, chart: {heat}, box: {top, bottom}} = this, group = add(svg, 'g', {class: 'heat'});
      const wide = narrow ? 8 : 14, each = (bottom - top) / LEVELS;
      for (let at = 0; at < LEVELS; at += 1) {
        add(group, 'rect', {x: left, y: bottom - (at + 1) * each, width: wide, height: each + 0.5,
          fill: shade(at / (LEVELS - 1))});
      }
      for (let power = heat.least; power <= 0; power += 1) {
        add(svg, 'text', {x: left + wide + 3, y: clamp(bottom - (1 - power / heat.least) * (bottom - top) + 4, top + 9,
          bottom)}, percentOf(power));
      }
      if (!narrow) {
        add(svg, 'text', {transform: `translate(${left + 72},${(top + bottom) / 2}) rotate(90)`,
          'text-anchor': 'middle'}, 'share of the column');
      }
    }

    listen() {
      const {svg} = this;
      const place = (event) => {
        const {left, top} = svg.getBoundingClientRect();
        const {box} = this;
        return [clamp(event.clientX - left, box.left, box.right), clamp(event.clientY - top, box.top, box.bottom)];
      };
      let start = null;
      svg.addEventListener('pointerdown', (event) => {
        if (event.pointerType !== 'mouse') return this.read(...place(event));
        if (event.button !== 0) return;
        start = place(event);
        svg.setPointerCapture(event.pointerId);
        event.preventDefault();
      });
      svg.addEventListener('pointermove', (event) => {
        if (start) this.frame(this.dragged(start, place(event))); else this.read(...place(event));
      });
      svg.addEventListener('pointerup', (event) => {
        const dragged = start && this.dragged(start, place(event));
        start = null;
        if (!dragged) return this.read(...place(event));
        const {x, y, box} = this, [[x0, x1], [y0, y1]] = dragged;
        const all = (from, to, least, most) => from === least && to === most;
        const zoomedX = all(x0, x1, box.left, box.right) ? null : [x.at(x0), x.at(x1)];
        this.zoom = {
          x: zoomedX ?? this.zoom?.x,
          y: all(y0, y1, box.top, box.bottom) ? this.zoom?.y : [y.at(y1), y.at(y0)],
        };
        if (zoomedX && isTime(this.chart)) zoomTime(zoomedX.map((place) => place * this.chart.x.second));
        else this.draw();
      });
      svg.addEventListener('pointerleave', () => this.leave());
      svg.addEventListener('pointercancel', () => { start = null; this.leave(); });
      svg.addEventListener('dblclick', () => {
        this.zoom = null;
        this.leave();
        if (isTime(this.chart)) zoomTime(null);
        else this.draw();
      });
    }

    // The part of the chart between two places, in pixels; null for a click.
    dragged([x0, y0], [x1, y1]) {
      const {box} = this, [wide, high] = [Math.abs(x1 - x0), Math.abs(y1 - y0)];
      if (Math.max(wide, high) < DRAG_PX) return null;
      const sorted = (a, b) => [Math.min(a, b), Math.max(a, b)];
      const alongX = high < FLAT_PX && wide >= high, alongY = wide < FLAT_PX && high > wide;
      return [alongY ? [box.left, box.right] : sorted(x0, x1), alongX ? [box.top, box.bottom] : sorted(y0, y1)];
    }

    frame(dragged) {
      this.leave();
      if (!dragged) return;
      const [[x0, x1], [y0, y1]] = dragged;
      add(this.pointer, 'rect', {class: 'frame', x: x0, y: y0, width: x1 - x0, height: y1 - y0});
    }

    leave() {
      this.pointer.replaceChildren();
      this.tip.hidden = true;
    }

    // Shows the values at a place.
    read(px, py) {
      this.leave();
      const {chart, x, y, tip, box} = this;
      const unit = chart.x.unit ? ` ${chart.x.unit}` : '';
      const rows = [];
      let at;
      if (chart.heat) {
        const {heat} = chart;
        const find = (edges, value) => edges.findLastIndex((edge) => edge <= value);
        const [column, row] = [find(heat.x, x.at(px)), find(heat.y, y.at(py))];
        const log = heat.shares[row]?.[column] ?? null;
        if (log === null) return;
        at = px;
        const [low, high] = [heat.y[row], heat.y[row + 1]].map((edge) => number(edge, 3));
        rows.push([null, `${low} to ${high} ${chart.y.unit}: ${percentOf(log)} of the column`]);
      } else if (chart.lines.some((line) => line.labels)) {
        const distance = (point) => Math.hypot(point.px - px, point.py - py);
        const [nearest] = this.points().sort((a, b) => distance(a) - distance(b));
        if (!nearest) return;
        at = nearest.px;
        rows.push([nearest.line, `${nearest.name}: ${number(nearest.value, 4)} ${chart.y.unit}`]);
      } else {
        const places = chart.lines.flatMap((line, number) => this.hidden.has(number) ? [] : [nearest(line, x.at(px))]);
        const place = places.filter((found) => x.from <= found && found <= x.to)
          .reduce((best, found) => best === null || Math.abs(found - x.at(px)) < Math.abs(best - x.at(px)) ? found : best,
            null);
        if (place === null) return;
        at = x.px(place);
        chart.lines.forEach((line, number_) => {
          const value = this.hidden.has(number_) ? null : valueAt(line, place);
          if (value !== null) rows.push([line, `${number(value, 4)} ${chart.y.unit}`]);
        });
        if (rows.length === 0) return;
      }
      add(this.pointer, 'path', {class: 'pointer', d: `M${at},${box.top}V${box.bottom}`});
      tip.replaceChildren();
      const tick = chart.x.ticks?.find(([place]) => Math.abs(place - x.at(at)) < 0.5);
      addHtml(tip, 'b', '', tick ? tick[1] : `${number(x.at(at), 4)}${unit}`);
      rows.forEach(([line, text]) => {
        const row = addHtml(tip, 'div', '');
        if (line) {
          this.sample(row, line);
          row.append(`${line.name}: `);
        }
        row.append(text);
      });
      tip.hidden = false;
      const room = this.element.clientWidth - tip.offsetWidth;
      tip.style.left = `${clamp(at + 14 > room ? at - tip.offsetWidth - 14 : at + 14, 0, Math.max(0, room))}px`;
      tip.style.top = `${clamp(py - tip.offsetHeight / 2, 0, Math.max(0, this.height - tip.offsetHeight))}px`;
    }
  }

  // Index of the point of a line nearest to `x`.
  const indexNear = (line, x) => {
    const last = line.y.length - 1;
    if (!line.x) return line.step ? clamp(Math.round((x - line.first) / line.step), 0, last) : 0;
    let best = 0;
    line.x.forEach((place, at) => { if (Math.abs(place - x) < Math.abs(line.x[best] - x)) best = at; });
    return best;
  };
  const nearest = (line, x) => xOf(line, indexNear(line, x));
  // The value of a line at `x`: that of a point there, or of two equal neighbours; nothing is interpolated.
  const valueAt = (line, x) => {
    const at = indexNear(line, x), place = xOf(line, at);
    if (Math.abs(place - x) <= Math.abs(x) * 1e-9) return line.y[at];
    const other = line.y[place < x ? at + 1 : at - 1];
    return line.joined && other === line.y[at] ? other : null;
  };

  const draw = (chart) => {
    try {
      drawn.push(new Drawing(chart));
    } catch (error) {
      trouble(`${chart.id}: ${error.message}`);
    }
    document.body.dataset.chartsDrawn = String(drawn.length);
  };

  // Charts are drawn one by one, with breaks, so that the page stays responsive.
  const queue = charts.slice();
  const next = () => {
    const until = performance.now() + 40;
    while (queue.length > 0 && performance.now() < until) draw(queue.shift());
    if (queue.length > 0) return setTimeout(next, 0);
    document.body.dataset.drawnAfterMs = String(Math.round(performance.now()));
    document.body.dataset.overflowPx = String(Math.max(0, root.scrollWidth - window.innerWidth));
  };

  let resized = 0;
  window.addEventListener('resize', () => {
    clearTimeout(resized);
    resized = setTimeout(() => drawn.forEach((drawing) => drawing.width !== drawing.svg.clientWidth && drawing.draw()), 100);
  });
  // The browser does not tell the width of a chart on paper beforehand, so this width is fixed.
  window.addEventListener('beforeprint', () => {
    while (queue.length > 0) draw(queue.shift());
    drawn.forEach((drawing) => drawing.draw(680));
  });
  window.addEventListener('afterprint', () => drawn.forEach((drawing) => drawing.draw()));
  next();
})();
