// Charts: a figure for each metric that is shown, all on one axis of time.

function element(name, attributes, text) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

class Figure {
  constructor(page, chart) {
    this.page = page;
    this.chart = chart;
    this.element = element('figure');
    const caption = element('figcaption');
    caption.append(element('b', {}, chart.name), (this.units = element('span', { class: 'units' })));
    const close = element('button', { 'aria-label': 'hide this chart', title: 'x' }, 'hide');
    close.addEventListener('click', () => page.toggle(chart));
    caption.append(close);
    this.canvas = element('canvas', { class: 'chart', role: 'img' });
    this.canvas.setAttribute('aria-label', chart.name);
    this.legend = element('div', { class: 'legend' });
    this.element.append(caption);
    if (chart.metric.help) this.element.append(element('div', { class: 'help' }, chart.metric.help));
    this.element.append(this.canvas, this.legend);
    page.listen(this);
  }

  get isRate() {
    return Boolean(this.chart.metric.rate_units) && !this.page.view.raw;
  }

  get kind() {
    return this.isRate ? 'rate' : this.chart.metric.semantics === 'discrete' ? 'discrete' : 'value';
  }

  // Marks and the ends of programs, in pixels.
  walls(width) {
    const { view, events } = this.page;
    const own = events.filter((event) => event.isWall && event.concerns(this.chart.name));
    return own.map((event) => ((event.at - view.from) / (view.to - view.from)) * width);
  }

  box() {
    return { left: LEFT, right: this.canvas.clientWidth - RIGHT, top: TOP, bottom: this.canvas.clientHeight - BOTTOM };
  }

  isVisible() {
    const place = this.element.getBoundingClientRect();
    return place.bottom > -200 && place.top < innerHeight + 200;
  }

  draw() {
    const { page, chart } = this, { data, view } = page;
    const { context } = surface(this.canvas);
    const box = this.box();
    const { metric } = chart;
    this.units.textContent = this.isRate ? metric.rate_units : metric.units;
    context.save();
    if (chart.heat) {
      const scale = heatScale(chart.heat);
      frame(context, box, data, view, scale, true);
      clip(context, box);
      drawHeat(context, box, data, view, chart.heat, scale);
    } else {
      this.drawLines(context, box);
      clip(context, box);
    }
    this.drawEvents(context, box);
    context.restore();
    this.drawCursor(context, box);
    this.fillLegend(box);
  }

  drawLines(context, box) {
    const { data, view } = this.page;
    const width = Math.max(1, Math.floor(box.right - box.left));
    this.reduceLines(width);
    const { kind } = this;
    let low = Infinity, high = -Infinity;
    for (const { reduced } of this.lines) {
      for (let x = 0; x < width; x++) {
        if (reduced.low[x] < low) low = reduced.low[x];
        if (reduced.high[x] > high) high = reduced.high[x];
      }
      // Where no value is in the picture, the line between two is.
      const { before, after } = reduced;
      if (before && before.x < 0 && ((after && after.joined) || kind === 'discrete')) {
        const ends = [before.mean, after && after.joined ? after.mean : before.mean];
        low = Math.min(low, ...ends);
        high = Math.max(high, ...ends);
      }
    }
    const scale = scaleOf(low, high);
    frame(context, box, data, view, scale, false);
    if (!scale) {
      context.textAlign = 'center';
      context.fillText('no values at these times', (box.left + box.right) / 2, (box.top + box.bottom) / 2);
      return;
    }
    context.save();
    clip(context, box);
    for (const line of [...this.lines].reverse()) drawLine(context, box, scale, line.reduced, line.place, kind, this.walls(width));
    context.restore();
  }

  // The columns as pixels: again only if the window, not the cursor alone, has moved.
  reduceLines(width) {
    const { data, view } = this.page;
    const key = [view.from, view.to, view.raw, view.top, width].join();
    if (this.key === key) return;
    this.key = key;
    const all = this.isRate || !this.chart.metric.rate_units ? this.chart.rates : this.chart.plain;
    const { top, rest } = ranked(data, all, view.from, view.to, view.top);
    const pixels = (series) => reduce(data, series, view.from, view.to, width);
    this.lines = top.map((series, place) => ({ place, name: series.instance ?? '', reduced: pixels(series) }));
    if (rest.length) {
      const name = rest.length + (rest.length === 1 ? ' other' : ' others, their sum');
      this.lines.push({ place: -1, name, reduced: sum(rest.map(pixels), width) });
    }
  }

  drawEvents(context, box) {
    const { data, view } = this.page;
    const x = (at) => box.left + ((at - view.from) / (view.to - view.from)) * (box.right - box.left);
    let free = box.left;
    context.textAlign = 'left';
    context.fillStyle = context.strokeStyle = css('--mark');
    context.lineWidth = 1;
    for (const event of this.page.events) {
      const at = x(event.at);
      if (at < box.left - 1 || at > box.right || !event.concerns(this.chart.name)) continue;
      context.setLineDash(event.isMark ? [2, 3] : [5, 3]);
      context.beginPath();
      context.moveTo(Math.round(at) + 0.5, box.top - 10);
      context.lineTo(Math.round(at) + 0.5, box.bottom);
      context.stroke();
      const width = context.measureText(event.short).width;
      if (at >= free && at + width + 4 < box.right) {
        context.fillText(event.short, at + 3, box.top - 3);
        free = at + width + 10;
      }
    }
    context.setLineDash([]);
  }

  drawCursor(context, box) {
    const { view } = this.page;
    if (view.cursor === null || view.cursor < view.from || view.cursor > view.to) return;
    const at = box.left + ((view.cursor - view.from) / (view.to - view.from)) * (box.right - box.left);
    context.strokeStyle = css('--text');
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(Math.round(at) + 0.5, box.top);
    context.lineTo(Math.round(at) + 0.5, box.bottom);
    context.stroke();
  }

  // The names of the lines and their values at the cursor.
  fillLegend(box) {
    const { view } = this.page;
    const entries = [];
    const width = box.right - box.left;
    const inside = view.cursor !== null && view.cursor >= view.from && view.cursor <= view.to;
    if (this.chart.heat) {
      const { heat } = this.chart;
      const column = inside ? Math.floor(view.cursor / heat.step) : -1;
      quantilesOf(heat).forEach(({ rank, values }, place) => {
        entries.push({ color: colorOf([6, 1, 3][place]), dash: [], text: 'p' + rank * 100 + (values.has(column) ? ': ' + numberText(values.get(column)) : '') });
      });
    } else {
      const pixel = ((view.cursor - view.from) / (view.to - view.from)) * width;
      // A rate is that of the pixel; a value that of the sample before, if nothing is in between.
      const walls = inside ? this.walls(width).filter((wall) => wall <= pixel) : [];
      const first = this.kind === 'rate' ? pixel - 1 : walls.length ? walls[walls.length - 1] - 1 : 0;
      for (const { place, name, reduced } of this.lines || []) {
        let text = name;
        if (inside) text += (name && ': ') + valueAt(reduced, Math.floor(pixel), first);
        if (text) entries.push({ color: colorOf(place), dash: dashOf(place), text });
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
      span.firstChild.style.borderTopColor = entry.color;
      span.firstChild.style.borderTopStyle = entry.dash.length ? 'dashed' : 'solid';
      if (span.lastChild.data !== entry.text) span.lastChild.data = span.title = entry.text;
    });
  }

  // The columns in which something was observed, nearest to a time in one direction.
  sample(from, step) {
    const { data } = this.page;
    if (this.chart.heat) return (Math.floor(from / this.chart.heat.step + 1e-9) + step + 0.5) * this.chart.heat.step;
    const all = this.isRate || !this.chart.metric.rate_units ? this.chart.rates : this.chart.plain;
    let best = null;
    for (const series of all) {
      let i = Math.floor(from / data.width + 1e-9) - series.first + step;
      i = step > 0 ? Math.max(i, 0) : Math.min(i, series.count - 1);
      for (; i >= 0 && i < series.count; i += step) {
        if (!(series.flags[i] & OBSERVED)) continue;
        const at = (series.first + i + 0.5) * data.width;
        if (best === null || step * (at - best) < 0) best = at;
        break;
      }
    }
    return best;
  }
}

function clip(context, box) {
  context.beginPath();
  context.rect(box.left, 0, box.right - box.left, box.bottom + 1);
  context.clip();
}

// The sum of what several series have at each pixel.
function sum(all, width) {
  const total = { low: new Float64Array(width).fill(NaN), high: new Float64Array(width).fill(NaN), mean: new Float64Array(width).fill(NaN), starts: new Uint8Array(width), before: null, after: null };
  for (const one of all) {
    for (let x = 0; x < width; x++) {
      if (Number.isNaN(one.mean[x])) continue;
      const isFirst = Number.isNaN(total.mean[x]);
      total.mean[x] = isFirst ? one.mean[x] : total.mean[x] + one.mean[x];
      total.starts[x] = isFirst ? one.starts[x] : total.starts[x] & one.starts[x];
    }
  }
  // The extremes of a sum are not known: those of its parts need not be at the same time.
  total.low.set(total.mean);
  total.high.set(total.mean);
  return total;
}

// The value at a pixel, or at the last one before it that has one, from `first` on.
function valueAt(reduced, x, first) {
  for (let near = Math.min(x, reduced.mean.length - 1); near >= Math.max(0, first); near--) {
    if (Number.isNaN(reduced.mean[near])) continue;
    const step = Math.abs(reduced.mean[near]) * 1e-4;
    const mean = numberText(reduced.mean[near], step);
    if (reduced.low[near] === reduced.high[near]) return mean;
    return mean + ' (' + numberText(reduced.low[near], step) + ' to ' + numberText(reduced.high[near], step) + ')';
  }
  return '-';
}
