'use strict';
// The data of the page: metrics, their series and columns. The formats are described with the
// commands that write them. Text from the data is only ever written as text.

const BLOCK = 64, HAS = 1, JOINED = 2, OBSERVED = 4;

// The header of binary data, and where its numbers begin.
function headOf(buffer, magic) {
  const found = new TextDecoder().decode(new Uint8Array(buffer, 0, 8));
  if (found !== magic) throw new Error('the data of this page is damaged');
  const length = new DataView(buffer).getUint32(8, true);
  return [JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 12, length))), 12 + length];
}

// The data within the page.
async function readFile() {
  const text = document.getElementById('data').textContent;
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  const buffer = await new Response(stream).arrayBuffer();
  const [data, start] = headOf(buffer, 'MMVSNAP1');
  const blocksOf = ({ count }) => Math.ceil(count / BLOCK);
  const blocks = data.series.reduce((sum, series) => sum + blocksOf(series), 0);
  const cells = data.series.reduce((sum, series) => sum + series.count, 0);
  const scales = new Float64Array(buffer, start, 2 * blocks);
  const bounds = new Uint16Array(buffer, start + 16 * blocks, 2 * cells);
  const bytes = new Uint8Array(buffer, start + 16 * blocks + 4 * cells, 2 * cells);
  data.span = Math.max(data.end - data.start, 1e-9);
  data.step = data.span / data.columns;
  let block = 0, cell = 0;
  for (const series of data.series) {
    series.origin = 0;
    series.step = data.step;
    series.scales = scales.subarray(2 * block);
    series.minima = bounds.subarray(2 * cell);
    series.maxima = bounds.subarray(2 * cell + series.count);
    series.means = bytes.subarray(2 * cell);
    series.flags = bytes.subarray(2 * cell + series.count);
    block += blocksOf(series);
    cell += series.count;
  }
  data.least = 4 * data.step;
  data.names = [];
  data.instances = [];
  data.histograms = data.heats;
  return data;
}

// What a server sends for a window: its series, and marks.
function readTile(buffer) {
  const [head, start] = headOf(buffer, 'MMVCOLS1');
  let at = start;
  for (const series of head.series) {
    const take = (n) => new Float64Array(buffer, at + 8 * n * series.count, series.count);
    series.values = { low: take(0), high: take(1), mean: take(2) };
    at += 24 * series.count;
  }
  for (const series of head.series) {
    series.flags = new Uint8Array(buffer, at, series.count);
    at += series.count;
  }
  // The nearest values beyond the window. A metric that has none in it has those alone.
  const key = (one) => [one.side, one.pmid, one.instance].join('\n');
  const values = head.series.filter((one) => !one.rate), known = new Map(values.map((one) => [key(one), one]));
  const metrics = new Set(values.map((one) => one.side + ':' + one.pmid));
  for (const { side, pmid, instance, after, ...far } of head.beyond) {
    const own = { side, pmid, instance }, nothing = { low: [], high: [], mean: [] };
    if (!known.has(key(own))) {
      if (metrics.has(side + ':' + pmid)) continue;
      const added = { ...own, rate: false, first: 0, count: 0, origin: 0, step: 1e-9, values: nothing, flags: [] };
      known.set(key(own), added);
      head.series.push(added);
    }
    known.get(key(own))[after ? 'after' : 'before'] = { at: far.at, mean: far.value, joined: far.joined };
  }
  return head;
}

// The numbers of a series, made when it is first drawn. The mean of the largest doubles is
// no number unless they are weighted before they are added.
function decoded(series) {
  if (series.values) return series.values;
  const n = series.count;
  const low = new Float64Array(n), high = new Float64Array(n), mean = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const block = i >> 6, least = series.scales[2 * block], most = series.scales[2 * block + 1];
    const between = (part) => (least === most ? least : least * (1 - part) + most * part);
    low[i] = between(series.minima[i] / 65535);
    high[i] = between(series.maxima[i] / 65535);
    const part = series.means[i] / 255;
    mean[i] = low[i] === high[i] ? low[i] : low[i] * (1 - part) + high[i] * part;
  }
  return (series.values = { low, high, mean });
}

// What a figure shows: a metric of all archives, the difference of one metric between two
// archives, or what a histogram counted in one.
class Chart {
  constructor(name, metric, more) {
    Object.assign(this, { name, metric, base: null, source: null, only: null, parts: null, role: '', branch: '', movement: 0, other: 0, histogram: null, heat: null, side: 0 }, more);
    // What is known of a window, and of all the time: of rates, and of other values.
    this.tiles = { rate: null, plain: null };
    this.whole = { rate: null, plain: null };
  }

  // Takes over what a newer header says of the same chart. Values are of other metrics if an
  // archive has it under another PMID.
  become(newer) {
    const { tiles, whole } = newer.metric.of.join() === this.metric.of.join() ? this : newer;
    return Object.assign(this, newer, { tiles, whole, heat: this.heat });
  }

  // The chart that has the values.
  get root() {
    return this.base ?? this.source ?? this;
  }

  // The charts that have what it shows: two of the difference of two histograms.
  get roots() {
    return this.histogram && this.base ? [this.base, this] : [this.root];
  }

  // The metric in each archive, as a server calls it.
  get ids() {
    return this.metric.of.flatMap((pmid, side) => (pmid === null ? [] : [side + ':' + pmid]));
  }

  // What is drawn of a histogram.
  get map() {
    if (!this.base) return this.heat;
    const base = this.base.heat, { heat } = this;
    if (this.pair?.base !== base || this.pair.heat !== heat) {
      this.pair = { base, heat, map: base && heat && differenceOf(base, heat) };
    }
    return this.pair.map;
  }

  // The colors of its instances.
  get hues() {
    if (this.known?.size !== this.instances.size) this.known = huesOf(this.instances);
    return this.known;
  }

  // An instance in the legend: the values of its labels alone, if all are called after the same ones.
  short(instance) {
    if (this.compared !== this.instances.size) {
      this.compared = this.instances.size;
      const names = new Set([...this.instances].map(labelNames));
      this.isLabelled = names.size === 1 && !names.has('');
    }
    return this.isLabelled ? instance.split(',').map((pair) => pair.slice(pair.indexOf('=') + 1)).join() : instance;
  }

  isRate(raw) {
    return Boolean(this.metric.rate_units) && !raw;
  }

  // The tile that is drawn.
  tile(raw, isWhole) {
    if (this.parts) return this.quantiles();
    return this.root[isWhole ? 'whole' : 'tiles'][this.isRate(raw) ? 'rate' : 'plain'];
  }

  // The highest quantile of each of several histograms, as series.
  quantiles() {
    const heats = this.parts.map((part) => part.heat);
    if (this.made && heats.every((heat, n) => heat === this.made.heats[n])) return this.made.tile;
    const series = [];
    this.parts.forEach(({ side, histogram, start }, n) => {
      if (!heats[n]) return;
      const { values } = quantilesOf(heats[n]).at(-1), columns = [...values.keys()];
      const first = columns[0], count = columns.at(-1) - first + 1;
      const mean = new Float64Array(count).fill(NaN), flags = new Uint8Array(count);
      for (const [column, value] of values) {
        mean[column - first] = value;
        flags[column - first] = HAS | OBSERVED | (values.has(column - 1) ? JOINED : 0);
      }
      series.push({ side, instance: histogram.instance, rate: true, origin: heats[n].start - start, step: heats[n].step, first, count, flags, values: { low: mean, high: mean, mean } });
    });
    const tile = series.length ? { from: -Infinity, to: Infinity, series } : null;
    this.made = { heats, tile };
    return tile;
  }
}

// -- Groups --------------------------------------------------------------------------------

// What a person looks at first, by the names of metrics.
const COUNTED = /request|job|order|call|query|message|operation|transaction|event/i, FAILED = /error|fail/i, FAILED_CODE = /(^|,)code=5\d\d(,|$)/;
const WAITED = /latency|duration|time|wait/i, FULL = /queue|depth|pending|waiting|backlog|busy|in.?flight|saturation|utili[sz]ation/i;

// The things with each key, in their order.
function groupedBy(all, keyOf) {
  const groups = new Map();
  for (const one of all) {
    const key = keyOf(one);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(one);
  }
  return groups;
}

// The group of a metric: a program, or the first part of its name.
function branchOf(name) {
  const parts = name.split('.');
  return parts.slice(0, Math.min(parts.length - 1, parts[0] === 'mmv' ? 2 : 1)).join('.');
}

// The agent and pmcd.
const isMachinery = (branch) => branch === 'mmv.agent' || branch === 'pmcd';

// The charts by group: programs first, those that moved most before the others, the agent and pmcd
// last; in each what it counts, what fails, how long it takes and how full it is, then the histograms
// that moved, then what else did, then the rest.
function inGroups(charts, moved) {
  for (const chart of charts) chart.branch = branchOf(chart.metric.name ?? chart.histogram.name);
  const groups = groupedBy(charts, (chart) => chart.branch);
  const weight = (branch) => (isMachinery(branch) ? 2 : branch.startsWith('mmv.') ? 0 : 1);
  const all = [...groups].map(([branch, own]) => {
    const histograms = own.filter((chart) => chart.histogram);
    const signals = isMachinery(branch) ? [] : signalsOf(branch, own.filter((chart) => !chart.base));
    histograms.sort((a, b) => (a.name < b.name ? -1 : 1));
    const place = ({ movement, histogram }) => (movement ? (histogram ? 2 : 1) : 0);
    const rest = [...histograms, ...own.filter((chart) => !chart.histogram)];
    rest.sort((a, b) => place(b) - place(a) || b.movement - a.movement);
    const charts = [...new Set([...signals, ...rest])];
    return { charts, weight: weight(branch), movement: moved.get(branch) ?? 0 };
  });
  return all.sort((a, b) => a.weight - b.weight || b.movement - a.movement).flatMap((group) => group.charts);
}

function signalsOf(branch, charts) {
  const first = (charts, word) => charts.find((chart) => word.test(shortName(chart))) ?? null;
  const counters = charts.filter((chart) => chart.metric.rate_units === 'count / sec');
  const isFailure = (chart) => FAILED.test(shortName(chart));
  const counted = counters.filter((chart) => !isFailure(chart));
  const rate = first(counted, COUNTED) ?? counted[0] ?? null;
  const errors = counters.find(isFailure) ?? withCodes(counted);
  const waits = charts.filter((chart) => chart.histogram && /sec$/.test(chart.metric.units));
  const latency = first(waits, WAITED) ?? waits[0] ?? null;
  const gauges = charts.filter((chart) => chart.metric.semantics === 'instant' || chart.metric.rate_units === 'utilisation');
  const roles = { rate, errors, latency: latency && together99(latency, waits), saturation: first(gauges, FULL) };
  const known = Object.entries(roles).filter(([, chart]) => chart);
  return known.map(([role, chart]) => Object.assign(chart, { role, branch }));
}

// What a metric counts with codes of server errors.
function withCodes(counters) {
  const source = counters.find((chart) => [...chart.instances].some((name) => FAILED_CODE.test(name)));
  if (!source) return null;
  const { metric, about, instances, text, movement } = source;
  return new Chart(source.name + ' with code 5xx', metric, { source, movement, only: FAILED_CODE, about, instances, text });
}

// The highest quantiles of a histogram with several instances in one chart.
function together99(chart, histograms) {
  const { name, side } = chart.histogram;
  const parts = histograms.filter((one) => one.histogram.name === name && one.side === side);
  if (parts.length < 2) return chart;
  const { metric, about, text } = chart, instances = new Set(parts.map((one) => one.histogram.instance));
  const movement = Math.max(...parts.map((part) => part.movement));
  return new Chart(name + ' p99', metric, { parts, movement, histogram: { ...chart.histogram, instance: undefined }, side, about, text, instances });
}

const titleOf = (name, instance) => name + (instance === null ? '' : '[' + instance + ']');

const shortName = (chart) => (chart.branch ? chart.name.slice(chart.branch.length + 1) : chart.name);

function chartsOf(data) {
  const charts = [], byMetric = new Map();
  const names = new Map();
  const unique = (name) => {
    // Metrics of one name that differ in their units are not one.
    names.set(name, (names.get(name) ?? 0) + 1);
    return names.get(name) > 1 ? name + ' #' + names.get(name) : name;
  };
  const key = (side, name, instance) => [side, name, instance].join('\n');
  const { programs = {}, metrics = [] } = data.movements ?? {};
  const moved = new Map(metrics.map((one) => [key(one.side, one.name, one.instance), one.size]));
  for (const metric of data.metrics) {
    const movement = Math.max(...metric.of.map((pmid, side) => moved.get(key(side, metric.name)) ?? 0));
    const chart = new Chart(unique(metric.name), metric, { movement });
    charts.push(chart);
    metric.of.forEach((pmid, side) => {
      if (pmid !== null) byMetric.set(side + ':' + pmid, chart);
    });
    const sides = data.sides.map((_, side) => side).filter((side) => metric.of[side] !== null);
    for (const side of sides.slice(1)) {
      const name = chart.name + ' (' + data.sides[side].name + ' - ' + data.sides[sides[0]].name + ')';
      charts.push(new Chart(name, metric, { base: chart, movement, other: side, side: sides[0] }));
    }
  }
  const histograms = new Map();
  for (const histogram of data.histograms) {
    const { side, units } = histogram;
    const title = titleOf(histogram.name, histogram.instance);
    const own = data.sides.length > 1 ? ' (' + data.sides[side].name + ')' : '';
    const metric = { help: histogram.help, units, rate_units: null, semantics: 'histogram', of: [] };
    const heat = histogram.cells ? histogram : null;
    const movement = moved.get(key(side, histogram.name, histogram.instance)) ?? 0;
    const chart = new Chart(unique(title + own), metric, { histogram, heat, movement, side, start: data.start });
    charts.push(chart);
    const base = histograms.get(title);
    if (!base) histograms.set(title, chart);
    if (!base || base.side === side || base.metric.units !== units) continue;
    const name = title + ' (' + data.sides[side].name + ' - ' + data.sides[base.side].name + ')';
    charts.push(new Chart(name, metric, { base, histogram, heat, movement: Math.max(movement, base.movement), side: base.side, other: side }));
  }
  return inGroups(data.series ? withSeries(data, charts, byMetric) : withNames(data, charts, byMetric), new Map(Object.entries(programs)));
}

// The charts with the series of a file; without those that have none.
function withSeries(data, charts, byMetric) {
  const tile = () => ({ from: 0, to: data.span, series: [] });
  for (const chart of charts) {
    chart.tiles = chart.whole = { rate: tile(), plain: tile() };
    chart.instances = new Set();
  }
  for (const series of data.series) {
    const chart = byMetric.get(series.side + ':' + series.pmid);
    if (!chart) continue;
    // The rates of a file are the values, of metrics that have none.
    const isCounter = Boolean(chart.metric.rate_units);
    chart.tiles[isCounter && series.rate ? 'rate' : 'plain'].series.push(series);
    if (series.instance !== null) chart.instances.add(series.instance);
  }
  // Both archives of a difference have values.
  const has = ({ base, root, side, other }) => {
    const { rate, plain } = root.tiles, sides = new Set([...rate.series, ...plain.series].map((series) => series.side));
    return base ? sides.has(side) && sides.has(other) : sides.size;
  };
  return withTexts(charts.filter((chart) => chart.heat || has(chart)));
}

// The charts with the names of the instances that a server knows.
function withNames(data, charts, byMetric) {
  for (const chart of charts) chart.instances = new Set();
  data.instances.forEach((lists, side) => {
    for (const [pmid, list] of Object.entries(lists)) {
      const chart = byMetric.get(side + ':' + pmid);
      for (const name of data.names[list]) chart?.instances.add(name);
    }
  });
  return withTexts(charts);
}

// The texts that are searched.
function withTexts(charts) {
  for (const chart of charts) {
    chart.about = (chart.name + '\n' + chart.metric.help).toLowerCase();
    const instances = [...(chart.base ?? chart).instances].join('\n').toLowerCase();
    chart.text = chart.about + '\n' + instances;
  }
  return charts;
}

// The columns of a series reduced to `width` pixels from `from` to `to`, in seconds since the
// start: least, greatest and mean of each pixel; NaN where there is nothing. `starts` are
// pixels that are not joined to the one before. What `out` has had is gone.
function reduce(series, from, to, width, out = empty(width)) {
  const { low, high, mean } = decoded(series), { step, flags, count, rate } = series;
  const least = out.low.fill(NaN), greatest = out.high.fill(NaN), means = out.mean.fill(NaN);
  const starts = out.starts.fill(0), counts = out.counts.fill(0);
  const scale = width / (to - from);
  // The time at which its first column begins.
  const origin = series.origin + series.first * step;
  const first = Math.max(0, Math.floor((from - origin) / step) - 1);
  const last = Math.min(count - 1, Math.ceil((to - origin) / step) + 1);
  for (let i = first; i <= last; i++) {
    if (!(flags[i] & HAS)) continue;
    const begin = (origin + i * step - from) * scale, end = begin + step * scale;
    // A rate holds for the whole column, a value is one point of it.
    const a = Math.floor(rate ? begin + 1e-6 : (begin + end) / 2);
    const b = rate ? Math.max(a, Math.ceil(end - 1e-6) - 1) : a;
    const one = low[i], other = high[i], middle = mean[i];
    for (let x = Math.max(0, a); x <= b && x < width; x++) {
      if (!counts[x]) {
        least[x] = one; greatest[x] = other; means[x] = middle;
        if (x === a && !(flags[i] & JOINED)) starts[x] = 1;
      } else {
        if (one < least[x]) least[x] = one;
        if (other > greatest[x]) greatest[x] = other;
        means[x] += (middle - means[x]) / (counts[x] + 1);
      }
      counts[x]++;
    }
  }
  // How far from its sample a value may be drawn.
  out.near = (step * scale) / 2;
  out.before = rate ? null : neighbour(series, Math.ceil((from - origin) / step - 0.5) - 1, -1, from, scale);
  out.after = rate ? null : neighbour(series, Math.ceil((to - origin) / step - 0.5), 1, from, scale);
  return out;
}

function empty(width) {
  const nothing = () => new Float64Array(width).fill(NaN);
  return { low: nothing(), high: nothing(), mean: nothing(), starts: new Uint8Array(width), counts: new Uint32Array(width), near: 0.5, before: null, after: null };
}

// The next column with a value beyond the picture, to which a line leads.
function neighbour(series, start, step, from, scale) {
  const { mean } = decoded(series);
  for (let i = step < 0 ? Math.min(start, series.count - 1) : Math.max(start, 0); i >= 0 && i < series.count; i += step) {
    if (!(series.flags[i] & HAS)) continue;
    const x = (series.origin + (series.first + i + 0.5) * series.step - from) * scale;
    return { x, mean: mean[i], joined: (series.flags[i] & JOINED) !== 0 };
  }
  const far = step < 0 ? series.before : series.after;
  return far ? { ...far, x: (far.at - from) * scale } : null;
}

// What a series has at a time, as a report prints it: the column that contains the time, or the
// last one before if a line goes on from there. `walls` are the times over which nothing does.
function valueAt(series, at, kind, walls) {
  const { low, high, mean } = decoded(series), { step, flags, count } = series;
  const place = (at - series.origin) / step - series.first;
  const has = (i) => i >= 0 && i < count && (flags[i] & HAS) !== 0;
  const of = (i) => ({ low: low[i], high: high[i], mean: mean[i] });
  if (kind === 'rate') {
    const i = Math.ceil(place - 1e-6) - 1;
    if (!has(i)) return null;
    // Where a rate ends another one begins. The column before has only the one that ends.
    const isEnd = (flags[i] & OBSERVED) && (flags[i] & JOINED) && has(i - 1) && !(flags[i - 1] & OBSERVED);
    return of(isEnd ? i - 1 : i);
  }
  const own = Math.floor(place + 1e-6);
  let i = Math.min(own, count - 1), next = Math.max(own + 1, 0);
  while (i >= 0 && !has(i)) i--;
  if (i >= 0 && i === own) return of(i);
  const { before, after } = series;
  if (i < 0 && !(before && before.at <= at)) return null;
  const last = i < 0 ? exactly(before.mean) : of(i);
  if (kind === 'discrete') {
    const begin = i < 0 ? before.at : series.origin + (series.first + i) * step;
    const isBefore = i >= 0 && !(flags[i] & JOINED);
    const wall = walls.find((one) => one > (isBefore ? begin + step : begin)) ?? Infinity;
    return at < wall ? last : null;
  }
  while (next < count && !has(next)) next++;
  const isJoined = next < count ? flags[next] & JOINED : after && after.at > at && after.joined;
  return isJoined ? last : null;
}

// What one value is above another, and what several are together.
const above = (one, other) => one && other && exactly(one.mean - other.mean);
function together(all) {
  const known = all.filter(Boolean);
  return known.length ? exactly(known.reduce((total, one) => total + one.mean, 0)) : null;
}
const exactly = (value) => ({ low: value, high: value, mean: value });

// The next of the walls, in pixels, after what a pixel has. A wall near it was before, unless
// the pixel is joined to what came earlier.
function wallAfter(walls, x, isStart, near) {
  return walls.find((wall) => wall > (isStart ? x + 1 + near : x - near)) ?? Infinity;
}

// The names of the labels after which an instance is called; empty if it is not.
function labelNames(instance) {
  const pairs = instance.split(',');
  return pairs.every((pair) => /^\w+=./.test(pair)) ? pairs.map((pair) => pair.split('=', 1)[0]).join() : '';
}

// The instances, those with the largest means in a window first, of all archives together.
// Those whose names are `wanted` come before all others.
function ranked(all, from, to, isWanted) {
  const groups = [...groupedBy(all, (series) => series.instance ?? '')].map(([name, series]) => ({ name, series, sum: 0, isWanted: isWanted(name) }));
  for (const group of groups) {
    for (const series of group.series) {
      const { mean } = decoded(series), { step, flags } = series;
      const origin = series.origin + series.first * step;
      const first = Math.max(0, Math.floor((from - origin) / step));
      const last = Math.min(series.count, Math.ceil((to - origin) / step));
      for (let i = first; i < last; i++) if (flags[i] & HAS) group.sum += Math.abs(mean[i]);
    }
  }
  return groups.sort((a, b) => b.isWanted - a.isWanted || b.sum - a.sum);
}

// The sum of what several series have at each pixel.
function sum(all, width) {
  const total = empty(width);
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

// The mean at each pixel that a line passes: between two values as the line is drawn.
function passed(reduced, kind, walls) {
  const { mean, starts } = reduced, width = mean.length;
  const out = Float64Array.from(mean);
  if (kind === 'rate') return out;
  let last = reduced.before && reduced.before.x < 0 ? reduced.before : null;
  const fill = (to, end, isJoined) => {
    if (!last) return;
    const wall = wallAfter(walls, last.x, !last.joined, reduced.near);
    for (let x = Math.max(0, Math.floor(last.x) + 1); x < Math.min(to, width); x++) {
      if (kind === 'discrete') {
        if (x < wall) out[x] = last.mean;
      } else if (isJoined) {
        out[x] = last.mean + ((end - last.mean) * (x - last.x)) / (to - last.x);
      }
    }
  };
  for (let x = 0; x < width; x++) {
    if (Number.isNaN(mean[x])) continue;
    fill(x, mean[x], !starts[x]);
    last = { x, mean: mean[x], joined: !starts[x] };
  }
  const { after } = reduced;
  if (after) fill(after.x, after.mean, after.joined);
  else if (kind === 'discrete') fill(width, 0, false);
  return out;
}

// What one line is above the other at each pixel that both pass; nothing where either is missing.
function difference(one, other, kind, walls) {
  const width = one.mean.length, out = empty(width);
  const [a, b] = [[one, walls[0]], [other, walls[1]]].map(([line, own]) => passed(line, kind, own));
  for (let x = 0; x < width; x++) {
    out.mean[x] = a[x] - b[x];
    const isNew = x === 0 || Number.isNaN(out.mean[x - 1]);
    out.starts[x] = isNew || (kind === 'rate' && (one.starts[x] || other.starts[x])) ? 1 : 0;
  }
  out.low.set(out.mean);
  out.high.set(out.mean);
  return out;
}

// -- Times ---------------------------------------------------------------------------------

function zoneAt(data, seconds) {
  let zone = data.zone[0] || [0, 0, 'UTC'];
  for (const change of data.zone) if (change[0] <= seconds) zone = change;
  return zone;
}

// Date and time in the zone of the snapshot, with `digits` of a second.
function timeText(data, seconds, digits, withDate) {
  const zone = zoneAt(data, seconds);
  const unit = 10 ** digits;
  const rounded = Math.round((seconds + zone[1]) * unit) / unit;
  const whole = Math.floor(rounded + 1e-9);
  const date = new Date(whole * 1000);
  if (isNaN(date)) return String(seconds);
  const iso = date.toISOString();
  const fraction = digits ? (rounded - whole).toFixed(digits).slice(1) : '';
  const time = iso.slice(11, 19) + fraction;
  return withDate ? iso.slice(0, 10) + ' ' + time : time;
}

// A time as people write it, or null: "14:30", "2026-11-20 14:30:05", "@1714557600",
// "-10min" before the end, "+10min" after the start.
function parseTime(data, text, center) {
  text = text.trim();
  let found = /^@(\d+(?:\.\d+)?)$/.exec(text);
  if (found) return Number(found[1]);
  found = /^([+-]?)\s*(\d+(?:\.\d+)?)\s*(ms|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)$/i.exec(text);
  if (found) {
    const unit = found[3].toLowerCase();
    const seconds = Number(found[2]) * (unit === 'ms' ? 0.001 : { s: 1, m: 60, h: 3600, d: 86400 }[unit[0]]);
    return found[1] === '-' ? data.end - seconds : data.start + seconds;
  }
  found = /^(?:(\d{4}-\d\d-\d\d)[ T]?)?(?:(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?)?$/.exec(text);
  if (!found || (!found[1] && !found[2])) return null;
  const [hours, minutes, seconds] = found.slice(2, 5).map((part) => Number(part || 0));
  const clock = hours * 3600 + minutes * 60 + seconds;
  if (clock > 86400 || minutes >= 60 || seconds >= 60) return null;
  const local = (seconds) => seconds + zoneAt(data, seconds)[1];
  const day = found[1] ? Date.parse(found[1] + 'T00:00:00Z') / 1000 : Math.floor(local(center) / 86400) * 86400;
  // Browsers take the 31st of February for the 3rd of March.
  if (isNaN(day) || (found[1] && !new Date(day * 1000).toISOString().startsWith(found[1]))) return null;
  const at = (start) => start + clock - zoneAt(data, start + clock - zoneAt(data, start)[1])[1];
  if (found[1]) return at(day);
  // The nearest such time of day that is in the data, if one is.
  const near = [day, day - 86400, day + 86400].map(at);
  return near.find((time) => time >= data.start && time <= data.end) ?? near[0];
}
