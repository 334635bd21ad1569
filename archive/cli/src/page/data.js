'use strict';
// The data of the page: metrics, their series and columns. The format is described with the
// command that writes it. Text from the data is only ever written as text.

const BLOCK = 64, HAS = 1, JOINED = 2, OBSERVED = 4;

async function readData() {
  const text = document.getElementById('data').textContent;
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  const buffer = await new Response(stream).arrayBuffer();
  const magic = new TextDecoder().decode(new Uint8Array(buffer, 0, 8));
  if (magic !== 'MMVSNAP1') throw new Error('the data of this page is damaged');
  const length = new DataView(buffer).getUint32(8, true);
  const data = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 12, length)));
  let blocks = 0, cells = 0;
  for (const series of data.series) {
    series.block = blocks;
    series.cell = cells;
    blocks += Math.ceil(series.count / BLOCK);
    cells += series.count;
  }
  let at = 12 + length;
  const scales = new Float64Array(buffer, at, 2 * blocks);
  at += 16 * blocks;
  const bounds = new Uint16Array(buffer, at, 2 * cells);
  at += 4 * cells;
  const bytes = new Uint8Array(buffer, at, 2 * cells);
  for (const series of data.series) {
    series.scales = scales.subarray(2 * series.block, 2 * (series.block + Math.ceil(series.count / BLOCK)));
    series.minima = bounds.subarray(2 * series.cell, 2 * series.cell + series.count);
    series.maxima = bounds.subarray(2 * series.cell + series.count, 2 * series.cell + 2 * series.count);
    series.means = bytes.subarray(2 * series.cell, 2 * series.cell + series.count);
    series.flags = bytes.subarray(2 * series.cell + series.count, 2 * series.cell + 2 * series.count);
  }
  data.span = Math.max(data.end - data.start, 1e-9);
  data.width = data.span / data.columns;
  return data;
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

// What charts show: a metric with its series, or a histogram.
function chartsOf(data) {
  const charts = data.metrics.map((metric) => ({ name: metric.name, metric, rates: [], plain: [], heat: null }));
  for (const series of data.series) {
    const chart = charts[series.metric];
    if (!chart) continue;
    if (series.rate || !chart.metric.rate_units) chart.rates.push(series);
    if (!series.rate) chart.plain.push(series);
  }
  for (const heat of data.heats) {
    const instance = heat.instance === null ? '' : '[' + heat.instance + ']';
    charts.push({ name: heat.name + instance, metric: { help: '', units: heat.units, rate_units: null, semantics: 'histogram' }, rates: [], plain: [], heat });
  }
  const shown = charts.filter((chart) => chart.rates.length || chart.plain.length || chart.heat);
  for (const chart of shown) {
    const instances = chart.plain.concat(chart.rates).map((series) => series.instance || '');
    chart.text = [chart.name, chart.metric.help, ...new Set(instances)].join('\n').toLowerCase();
  }
  return shown;
}

// The columns of a series reduced to `width` pixels from `from` to `to`, in seconds since the
// start: least, greatest and mean of each pixel; NaN where there is nothing. `starts` are
// pixels that are not joined to the one before.
function reduce(data, series, from, to, width) {
  const { low, high, mean } = decoded(series);
  const out = { low: new Float64Array(width).fill(NaN), high: new Float64Array(width).fill(NaN), mean: new Float64Array(width).fill(NaN), starts: new Uint8Array(width), centers: new Float64Array(width) };
  const scale = width / (to - from), counts = new Uint32Array(width);
  const first = Math.max(0, Math.floor(from / data.width) - series.first - 1);
  const last = Math.min(series.count - 1, Math.ceil(to / data.width) - series.first + 1);
  for (let i = first; i <= last; i++) {
    const flags = series.flags[i];
    if (!(flags & HAS)) continue;
    const begin = ((series.first + i) * data.width - from) * scale;
    const end = begin + data.width * scale;
    // A rate holds for the whole column, a value is one point of it.
    const a = series.rate ? Math.floor(begin) : Math.floor((begin + end) / 2);
    const b = series.rate ? Math.max(a, Math.ceil(end) - 1) : a;
    for (let x = Math.max(0, a); x <= Math.min(width - 1, b); x++) {
      if (!counts[x]) {
        out.low[x] = low[i]; out.high[x] = high[i]; out.mean[x] = mean[i];
        if (x === a && !(flags & JOINED)) out.starts[x] = 1;
      } else {
        out.low[x] = Math.min(out.low[x], low[i]);
        out.high[x] = Math.max(out.high[x], high[i]);
        out.mean[x] += (mean[i] - out.mean[x]) / (counts[x] + 1);
      }
      counts[x]++;
    }
  }
  out.before = series.rate ? null : neighbour(data, series, Math.ceil(from / data.width - 0.5) - 1 - series.first, -1, from, scale);
  out.after = series.rate ? null : neighbour(data, series, Math.ceil(to / data.width - 0.5) - series.first, 1, from, scale);
  return out;
}

// The next column with a value beyond the picture, to which a line leads.
function neighbour(data, series, start, step, from, scale) {
  const { mean } = decoded(series);
  for (let i = step < 0 ? Math.min(start, series.count - 1) : Math.max(start, 0); i >= 0 && i < series.count; i += step) {
    if (!(series.flags[i] & HAS)) continue;
    const x = ((series.first + i + 0.5) * data.width - from) * scale;
    return { x, mean: mean[i], joined: (series.flags[i] & JOINED) !== 0 };
  }
  return null;
}

// The series with the largest means in a window, and the others.
function ranked(data, all, from, to, top) {
  const first = Math.floor(from / data.width), last = Math.ceil(to / data.width);
  const scored = all.map((series) => {
    const { mean } = decoded(series);
    let sum = 0;
    for (let i = Math.max(0, first - series.first); i < Math.min(series.count, last - series.first); i++) {
      if (series.flags[i] & HAS) sum += Math.abs(mean[i]);
    }
    return { series, sum };
  });
  scored.sort((a, b) => b.sum - a.sum);
  return { top: scored.slice(0, top).map((one) => one.series), rest: scored.slice(top).map((one) => one.series) };
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
  const clock = Number(found[2] || 0) * 3600 + Number(found[3] || 0) * 60 + Number(found[4] || 0);
  const local = (seconds) => seconds + zoneAt(data, seconds)[1];
  const day = found[1] ? Date.parse(found[1] + 'T00:00:00Z') / 1000 : Math.floor(local(center) / 86400) * 86400;
  if (isNaN(day) || Number(found[2] || 0) > 24) return null;
  const at = (start) => start + clock - zoneAt(data, start + clock - zoneAt(data, start)[1])[1];
  if (found[1]) return at(day);
  // The nearest such time of day that is in the data, if one is.
  const near = [day, day - 86400, day + 86400].map(at);
  return near.find((time) => time >= data.start && time <= data.end) ?? near[0];
}
