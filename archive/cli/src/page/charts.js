// Charts: a figure for each metric that is shown, all on one axis of time.

function element(name, attributes, text) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Makes these the children of an element. Those that are in their place are not touched: they
// keep the focus, the pointer and where they were scrolled to.
function setChildren(parent, children) {
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const child of children) {
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
}

class Figure {
  constructor(page, chart) {
    this.page = page;
    this.chart = chart;
    this.isVisible = false;
    this.size = { width: 0, height: 0 };
    this.element = element('figure');
    const caption = element('figcaption');
    const name = element('b', { title: chart.name }, shortName(chart));
    caption.append(element('span', { class: 'role' }, chart.role), name, (this.units = element('span', { class: 'units' })));
    const close = element('button', { 'aria-label': 'hide this chart', title: 'x' }, 'hide');
    close.addEventListener('click', () => page.toggle(chart));
    caption.append(close);
    this.canvas = element('canvas', { class: 'chart', role: 'img', 'aria-label': chart.name });
    this.legend = element('div', { class: 'legend' });
    this.help = element('div', { class: 'help' }, chart.metric.help);
    this.note = element('div', { class: 'note' });
    this.element.append(caption, this.note, this.help, this.canvas, this.legend);
    page.listen(this);
  }

  get isRate() {
    return this.chart.isRate(this.page.view.raw);
  }

  get kind() {
    return this.isRate || this.chart.parts ? 'rate' : this.chart.metric.semantics === 'discrete' ? 'discrete' : 'value';
  }

  // The metric in an archive.
  identity(side) {
    const { histogram, metric } = this.chart;
    return histogram ?? { name: metric.name, pmid: metric.of[side] };
  }

  // Marks and the ends of programs of an archive, in pixels.
  walls(side, from, to, width) {
    const { name, pmid } = this.identity(side);
    const own = this.page.events.filter((event) => event.isWall && event.side === side && event.isOf(name, pmid));
    return own.map((event) => ((event.at - from) / (to - from)) * width);
  }

  box() {
    const { width, height } = this.size;
    return { left: LEFT, right: width - RIGHT, top: TOP, bottom: height - BOTTOM };
  }

  // Reads what the browser has laid out.
  measure() {
    const place = this.element.getBoundingClientRect();
    this.isVisible = place.bottom > -200 && place.top < innerHeight + 200;
    this.size = sizeOf(this.canvas);
  }

  draw() {
    const { page, chart } = this, { data, view } = page;
    const context = surface(this.canvas, this.size);
    const box = this.box();
    const { metric } = chart;
    this.unit = { size: 1, name: this.isRate ? metric.rate_units : metric.units };
    if (this.help.textContent !== metric.help) this.help.textContent = metric.help;
    const note = (view.changes?.notes?.get(chart) ?? []).join('\n');
    if (this.note.textContent !== note) this.note.textContent = note;
    context.save();
    const { map } = chart;
    if (chart.histogram && !map && !chart.parts) {
      this.drawNothing(context, box, this.absence);
    } else if (map) {
      const scale = heatScale(map);
      this.unit = unitOf(metric.units, scale.high);
      frame(context, box, data, view, scale, true);
      clip(context, box);
      drawHeat(context, box, data, view, map, scale);
    } else {
      this.drawLines(context, box);
      clip(context, box);
    }
    this.drawEvents(context, box);
    context.restore();
    this.drawCursor(context, box);
    const { name } = this.unit;
    if (this.units.textContent !== name) this.units.textContent = name;
    this.fillLegend();
  }

  // Why what the chart shows is not known.
  get absence() {
    const { roots } = this.chart;
    if (roots.some((one) => one.isFailed)) return 'these values cannot be read';
    return roots.every((one) => one.isAsked) ? 'nothing was counted at these times' : 'reading\u2026';
  }

  drawNothing(context, box, text) {
    frame(context, box, this.page.data, this.page.view, null, false);
    context.textAlign = 'center';
    context.fillText(text, (box.left + box.right) / 2, (box.top + box.bottom) / 2);
  }

  drawLines(context, box) {
    const { data, view } = this.page;
    const width = Math.max(1, Math.floor(box.right - box.left));
    const tile = this.chart.tile(view.raw, false);
    // Again only if the window or the data, not the cursor alone, has changed.
    const key = [view.from, view.to, view.raw, view.top, width, view.query].join('\n');
    if (this.key !== key || this.drawn !== tile) {
      Object.assign(this, { key, drawn: tile });
      this.lines = tile ? this.linesOf(tile, view.from, view.to, width, view.top) : [];
    }
    if (!tile) return this.drawNothing(context, box, this.absence);
    const { kind } = this;
    let [low, high] = extremesOf(this.lines);
    for (const { reduced } of this.lines) {
      // Where no value is in the picture, the line between two is.
      const { before, after } = reduced;
      if (before && before.x < 0 && ((after && after.joined) || kind === 'discrete')) {
        const ends = [before.mean, after && after.joined ? after.mean : before.mean];
        low = Math.min(low, ...ends);
        high = Math.max(high, ...ends);
      }
    }
    this.unit = unitOf(this.unit.name, Math.max(Math.abs(low), Math.abs(high)));
    const scale = scaleIn(low, high, this.unit);
    // What is known may be of other times.
    const isKnown = Math.min(tile.to, view.to) - Math.max(tile.from, view.from) >= (view.to - view.from) / 2;
    if (!scale) return this.drawNothing(context, box, isKnown ? 'no values at these times' : this.absence);
    frame(context, box, data, view, scale, false);
    context.save();
    clip(context, box);
    for (const line of [...this.lines].reverse()) drawLine(context, box, scale, line, kind);
    context.restore();
  }

  // The lines of a tile: the largest instances, and the sum of the others, in each archive.
  linesOf(tile, from, to, width, top) {
    const { chart, kind } = this, { data, view } = this.page;
    const words = view.query.toLowerCase().split(/\s+/).filter((word) => word && !chart.about.includes(word));
    const isWanted = (name) => words.length > 0 && words.every((word) => name.toLowerCase().includes(word));
    const sides = chart.base ? [chart.side, chart.other] : data.sides.map((_, side) => side);
    const all = tile.series.filter((series) => sides.includes(series.side) && (!chart.only || chart.only.test(series.instance ?? '')));
    let groups = ranked(all, from, to, isWanted);
    const walls = sides.map((side) => this.walls(side, from, to, width));
    const pixels = (series) => reduce(series, from, to, width);
    const of = (group, side) => group.series.find((series) => series.side === side);
    const lines = [];
    const add = (name, color, dash, side, reduced, valueAt, title = name) => {
      const prefix = data.sides.length > 1 && !chart.base ? data.sides[side].name : '';
      const withSide = (text) => [prefix, text].filter(Boolean).join(' ');
      lines.push({ name: withSide(name), title: withSide(title), color, dash, side, walls: walls[sides.indexOf(side)], reduced, valueAt });
    };
    if (chart.base) groups = groups.filter((group) => of(group, chart.side) && of(group, chart.other));
    const made = (group, side) => (chart.base
      ? difference(pixels(of(group, chart.other)), pixels(of(group, chart.side)), kind, [walls[1], walls[0]])
      : pixels(of(group, side)));
    // The same at one time, for the legend: 0 to 1 are all times as they are.
    const times = sides.map((side) => this.walls(side, 0, 1, 1));
    const one = (group, side, at) => valueAt(of(group, side), at, kind, times[sides.indexOf(side)]);
    const value = (group, side, at) => (chart.base ? above(one(group, chart.other, at), one(group, chart.side, at)) : one(group, side, at));
    const shown = chart.base ? [chart.other] : sides;
    const isAlone = groups.length === 1;
    const used = new Map();
    groups.slice(0, top).forEach((group) => {
      for (const side of shown.filter((side) => chart.base || of(group, side))) {
        // Colors tell instances from each other, dashes archives; of one instance both do.
        const color = isAlone && !group.name ? side : chart.hues.get(group.name) ?? 0;
        // Of two names with one color the second is dashed.
        const dash = shown.length > 1 ? side : used.get(color) ?? 0;
        used.set(color, dash + 1);
        add(chart.short(group.name), color, dashOf(dash), side, made(group, side), (at) => value(group, side, at), group.name);
      }
    });
    const rest = groups.slice(top), scratch = empty(width);
    // One after the other, so that their memory is used again.
    const parts = function* (own, side) {
      for (const group of own) yield chart.base ? made(group, side) : reduce(of(group, side), from, to, width, scratch);
    };
    for (const side of rest.length ? shown : []) {
      const own = rest.filter((group) => chart.base || of(group, side));
      const name = own.length + (own.length === 1 ? ' other' : ' others, their sum');
      const total = (at) => together(own.map((group) => value(group, side, at)));
      if (own.length) add(name, -1, dashOf(side + 3), side, sum(parts(own, side), width), total);
    }
    return lines;
  }

  // Whether an event is one of what the chart shows.
  concerns(event) {
    const { chart } = this, { side } = event;
    const isOfSide = chart.base ? side === chart.side || side === chart.other : chart.histogram ? side === chart.side : chart.metric.of[side] !== null;
    const { name, pmid } = this.identity(side);
    return isOfSide && event.concerns(name, pmid);
  }

  drawEvents(context, box) {
    const { view } = this.page;
    let free = box.left;
    // Thousands of events need no more lines than there are pixels.
    const drawn = new Set();
    context.textAlign = 'left';
    context.fillStyle = context.strokeStyle = css('--mark');
    context.lineWidth = 1;
    for (const event of this.page.events) {
      if (event.isMinor) continue;
      const at = xOf(box, view, event.at), line = Math.round(at) + (event.isMark ? 0.25 : 0.5);
      if (at < box.left - 1 || at > box.right || (at < free && drawn.has(line)) || !this.concerns(event)) continue;
      if (!drawn.has(line)) {
        drawn.add(line);
        context.setLineDash(event.isMark ? [2, 3] : [5, 3]);
        verticalLine(context, at, box.top - 10, box.bottom);
      }
      if (at < free) continue;
      const width = context.measureText(event.short).width;
      if (at + width + 4 < box.right) {
        context.fillText(event.short, at + 3, box.top - 3);
        free = at + width + 10;
      }
    }
    context.setLineDash([]);
  }

  drawCursor(context, box) {
    const { view, cursor } = this.page;
    if (cursor === null) return;
    context.strokeStyle = css('--text');
    context.lineWidth = 1;
    verticalLine(context, xOf(box, view, cursor), box.top, box.bottom);
  }

  // The names of the lines and their values at the cursor.
  fillLegend() {
    const { data, cursor } = this.page;
    const entries = [];
    if (this.chart.histogram && !this.chart.parts) {
      const heat = this.chart.map;
      if (heat) {
        const column = cursor === null ? -1 : Math.floor((cursor - originOf(data, heat)) / heat.step);
        quantilesOf(heat).forEach(({ rank, values }, place) => {
          entries.push({ color: colorOf([6, 1, 3][place]), dash: [], text: 'p' + rank * 100 + (values.has(column) ? ': ' + this.textIn(values.get(column)) : '') });
        });
        const { isDifference } = heat, most = mostOf(heat), percent = numberText(100 * most) + ' %';
        const text = isDifference ? '\u2212' + percent + ' to +' + percent + ' of the values' : '1 to ' + numberText(most);
        const colors = [0, 0.25, 0.5, 0.75, 1].map((part) => heatColor(part, isDifference));
        entries.push({ scale: 'linear-gradient(to right,' + colors + ')', color: '', dash: [], text: text + ' in ' + unitText(heat.step, 'sec') });
      }
    } else {
      for (const { color, dash, name, title, valueAt } of this.lines || []) {
        const text = cursor === null ? '' : (name && ': ') + this.valueText(valueAt(cursor));
        if (name + text) entries.push({ color: colorOf(color), dash, text: name + text, title: title + text });
      }
    }
    while (this.legend.children.length > entries.length) this.legend.lastChild.remove();
    entries.forEach((entry, n) => {
      let span = this.legend.children[n];
      if (!span) {
        span = element('span');
        span.append(element('i'), document.createTextNode(''));
        this.legend.append(span);
      }
      span.className = entry.scale ? 'scale' : '';
      span.firstChild.style.background = entry.scale ?? '';
      span.firstChild.style.borderTopColor = entry.color;
      span.firstChild.style.borderTopStyle = entry.dash.length ? 'dashed' : 'solid';
      if (span.lastChild.data !== entry.text) span.lastChild.data = entry.text;
      span.title = entry.title ?? entry.text;
    });
  }

  // A number in the unit of the axis.
  textIn(value, step) {
    const { size, name } = this.unit;
    return numberText(value / size, step && step / size) + (name && ' ' + name);
  }

  // The mean of a column, and its bounds if they are not the same.
  valueText(value) {
    if (!value) return '-';
    const step = Math.abs(value.mean) * 1e-4, mean = this.textIn(value.mean, step);
    if (value.low === value.high) return mean;
    return mean + ' (' + this.textIn(value.low, step) + ' to ' + this.textIn(value.high, step) + ')';
  }

  // The columns in which something was observed, nearest to a time in one direction.
  sample(from, step) {
    const { chart } = this, heat = chart.heat ?? chart.parts?.[0].heat;
    if (chart.histogram) {
      const origin = heat ? originOf(this.page.data, heat) : 0;
      return heat && origin + (Math.floor((from - origin) / heat.step + 1e-9) + step + 0.5) * heat.step;
    }
    let best = null;
    for (const series of chart.tile(this.page.view.raw, false)?.series ?? []) {
      let i = Math.floor((from - series.origin) / series.step + 1e-9) - series.first + step;
      i = step > 0 ? Math.max(i, 0) : Math.min(i, series.count - 1);
      for (; i >= 0 && i < series.count; i += step) {
        if (!(series.flags[i] & OBSERVED)) continue;
        const at = series.origin + (series.first + i + 0.5) * series.step;
        if (best === null || step * (at - best) < 0) best = at;
        break;
      }
    }
    return best;
  }
}

function verticalLine(context, at, top, bottom) {
  context.beginPath();
  context.moveTo(Math.round(at) + 0.5, top);
  context.lineTo(Math.round(at) + 0.5, bottom);
  context.stroke();
}

function clip(context, box) {
  context.beginPath();
  context.rect(box.left, 0, box.right - box.left, box.bottom + 1);
  context.clip();
}
