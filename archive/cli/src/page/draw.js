// Axes, lines and heat maps on a canvas.

// Okabe and Ito's colors, which the color-blind can tell apart; more lines are dashed.
const LIGHT = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000', '#7a4fb0', '#8c5a3c', '#6b8e23', '#1395a5', '#b3304f'];
const DARK = ['#56b4e9', '#e69f00', '#2fc79a', '#e79fc7', '#f0e442', '#4f8fd0', '#ffffff', '#b39ddb', '#c9a17e', '#a5c956', '#4dd0e1', '#ff8a9b'];
const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [12, 4], [1, 3], [6, 2, 2, 2]];
const LEFT = 66, RIGHT = 8, TOP = 14, BOTTOM = 18;
// Values in a column from which differences of their shares are more than chance.
const ENOUGH = 100;
const dark = matchMedia('(prefers-color-scheme: dark)');

function colorOf(place) {
  const colors = dark.matches ? DARK : LIGHT;
  return place < 0 ? css('--dim') : colors[place % colors.length];
}
// The colors of instances by their names, whatever their values are: two of them have the same
// color only if there are more names than colors.
function huesOf(names) {
  const hues = new Map(), used = new Set();
  for (const name of [...names].sort()) {
    let hash = 0x811c9dc5;
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
    let hue = ((hash ^ (hash >>> 15)) >>> 0) % LIGHT.length;
    while (names.size <= LIGHT.length && used.has(hue)) hue = (hue + 1) % LIGHT.length;
    used.add(hue);
    hues.set(name, hue);
  }
  return hues;
}
const dashOf = (place) => DASHES[place % DASHES.length];
// The colors of the page's style, looked up once: asking for them makes the browser lay out.
const known = new Map();
const css = (name) => {
  if (!known.has(name)) known.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return known.get(name);
};
dark.addEventListener('change', () => known.clear());

// The size of a canvas in pixels of the page. Read before anything is written: each read after
// a write makes the browser lay out.
const sizeOf = (canvas) => ({ width: canvas.clientWidth, height: canvas.clientHeight });

// The canvas in the pixels of the screen; drawing is in those of the page.
function surface(canvas, { width, height }) {
  const ratio = window.devicePixelRatio || 1, wide = Math.round(width * ratio), high = Math.round(height * ratio);
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = '11px system-ui, sans-serif';
  return context;
}

// -- Numbers -------------------------------------------------------------------------------

const PREFIXES = [[1e18, 'E'], [1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

// A number with as many digits as tell it from others that differ by `step`.
function numberText(value, step) {
  if (!Number.isFinite(value)) return '-';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size < 1e-4) return value.toExponential(2);
  const digits = Math.min(16, Math.max(step ? Math.ceil(Math.log10(size / step)) + 1 : 4, 1));
  const prefix = size >= 1e4 && PREFIXES.find(([least]) => size >= least);
  const scaled = prefix ? value / prefix[0] : value;
  const text = scaled.toPrecision(Math.max(digits, 3));
  return (text.includes('e') ? String(Number(text)) : text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '')) + (prefix ? prefix[1] : '');
}

const TIMES = [[1e-9, 'ns'], [1e-6, 'us'], [1e-3, 'ms'], [1, 's'], [60, 'min'], [3600, 'h'], [86400, 'd']];
const SIZES = [[1, 'B'], [1e3, 'kB'], [1e6, 'MB'], [1e9, 'GB'], [1e12, 'TB'], [1e15, 'PB']];
const UNITS = new Map([
  ['nanosec', [1e-9, TIMES]], ['microsec', [1e-6, TIMES]], ['millisec', [1e-3, TIMES]], ['sec', [1, TIMES]], ['min', [60, TIMES]], ['hour', [3600, TIMES]],
  ['byte', [1, SIZES]], ['Kbyte', [2 ** 10, SIZES]], ['Mbyte', [2 ** 20, SIZES]], ['Gbyte', [2 ** 30, SIZES]], ['Tbyte', [2 ** 40, SIZES]],
]);

// The unit of values up to the largest of some in other units: how many of these it is, and
// its name.
function unitOf(units, largest) {
  if (units === 'count / sec' || units === '/ sec') return { size: 1, name: '/s' };
  const [name, per] = units.split(' / '), [base, sizes] = UNITS.get(name) ?? [];
  if (!sizes || (per !== undefined && per !== 'sec')) return { size: 1, name: units };
  const [size, text] = sizes.findLast((one) => one[0] <= largest * base * 1.0005) ?? sizes[0];
  return { size: size / base, name: text + (per ? '/s' : '') };
}

// A number with a unit of its size.
function unitText(value, units) {
  const { size, name } = unitOf(units, Math.abs(value));
  return numberText(value / size) + (name && ' ' + name);
}

// The bounds of an axis in a unit.
function scaleIn(low, high, unit) {
  const scale = scaleOf(low / unit.size, high / unit.size);
  return scale && { low: scale.low * unit.size, high: scale.high * unit.size, step: scale.step * unit.size, unit };
}

// The bounds of an axis and the step of its labels: round numbers that differ as doubles.
function scaleOf(low, high) {
  if (!(low <= high)) return null;
  if (low >= 0 && low < high * 0.6) low = 0;
  if (high <= 0 && high > low * 0.6) high = 0;
  const least = Math.max(Math.abs(low), Math.abs(high)) * 2 ** -46;
  if (high / 2 - low / 2 <= least) {
    const pad = Math.max(Math.abs(high) * 0.1, least * 8) || 1;
    low = low >= 0 ? Math.max(0, low - pad) : low - pad;
    high += pad;
  }
  const raw = high / 4 - low / 4, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw * 0.999) || raw;
  let bottom = Math.floor(low / step) * step, top = Math.ceil(high / step) * step;
  if (!Number.isFinite(bottom)) bottom = low;
  if (!Number.isFinite(top)) top = high;
  return { low: bottom, high: top > bottom ? top : high, step };
}

// -- Frames --------------------------------------------------------------------------------

const STEPS = [1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000, 31536000];

function timeTicks(data, from, to, width) {
  const wanted = (to - from) / Math.max(2, width / 90);
  const step = STEPS.find((one) => one >= wanted) || Math.ceil(wanted / 31536000) * 31536000;
  const digits = step >= 1 ? 0 : Math.min(6, Math.ceil(-Math.log10(step) - 1e-9));
  const ticks = [];
  const offset = zoneAt(data, data.start + from)[1];
  let at = Math.ceil((data.start + from + offset) / step) * step - offset;
  for (let n = 0; n < 100 && at <= data.start + to; n++, at += step) {
    let text = timeText(data, at, digits, step >= 86400 || n === 0 && to - from > 86400);
    if (step >= 86400) text = text.slice(0, 10);
    else if (step >= 60) text = text.replace(/:00$/, '');
    ticks.push({ at: at - data.start, text });
  }
  return ticks;
}

const xOf = (box, view, at) => box.left + ((at - view.from) / (view.to - view.from)) * (box.right - box.left);

function frame(context, box, data, view, scale, log) {
  context.strokeStyle = css('--line');
  context.fillStyle = css('--dim');
  context.lineWidth = 1;
  context.textBaseline = 'middle';
  context.textAlign = 'right';
  const y = (value) => yOf(box, scale, log, value);
  const ticks = [];
  if (scale && log) {
    const { low, high } = scale;
    for (const step of high < low * 100 ? [1, 2, 5] : [1]) {
      for (let power = Math.floor(Math.log10(low)); step * 10 ** power <= high; power++) {
        if (step * 10 ** power >= low) ticks.push([step * 10 ** power, step * 10 ** power]);
      }
    }
    // No round value is within one bucket.
    const middle = Math.sqrt(low) * Math.sqrt(high);
    if (!ticks.length) ticks.push([middle, middle]);
  } else if (scale) {
    for (let n = 0; n <= 12; n++) {
      const value = scale.low + n * scale.step;
      if (value > scale.high) break;
      ticks.push([Math.abs(value) < scale.step * 1e-9 ? 0 : value, scale.step, n]);
    }
  }
  context.beginPath();
  // Numbers that differ in the sixth digit or later are shown as what they are above the first.
  const isFar = scale && !log && Math.max(Math.abs(scale.low), Math.abs(scale.high)) > scale.step * 1e5;
  for (const [value, step, n] of ticks) {
    context.moveTo(box.left, Math.round(y(value)) + 0.5);
    context.lineTo(box.right, Math.round(y(value)) + 0.5);
    const { size } = scale.unit ?? { size: 1 };
    const above = n ? '+' + numberText((n * step) / size) : '\u2248 ' + numberText(value / size);
    const text = scale.units === undefined ? numberText(value / size, step / size) : unitText(value, scale.units);
    context.fillText(isFar ? above : text, box.left - 5, y(value), LEFT - 6);
  }
  context.textAlign = 'center';
  context.textBaseline = 'alphabetic';
  for (const tick of timeTicks(data, view.from, view.to, box.right - box.left)) {
    const place = Math.round(xOf(box, view, tick.at)) + 0.5;
    context.moveTo(place, box.bottom);
    context.lineTo(place, box.bottom + 4);
    const half = context.measureText(tick.text).width / 2;
    if (place + half < box.right + RIGHT && place - half > 0) context.fillText(tick.text, place, box.bottom + 15);
  }
  context.moveTo(box.left, box.bottom + 0.5);
  context.lineTo(box.right, box.bottom + 0.5);
  context.stroke();
}

function yOf(box, scale, log, value) {
  const height = box.bottom - box.top;
  const part = log
    ? (Math.log(Math.max(value, scale.low)) - Math.log(scale.low)) / (Math.log(scale.high) - Math.log(scale.low))
    : (value / 2 - scale.low / 2) / (scale.high / 2 - scale.low / 2);
  return box.bottom - part * height;
}

// The least and the greatest value of lines.
function extremesOf(lines) {
  let low = Infinity, high = -Infinity;
  for (const { reduced } of lines) {
    for (const one of reduced.low) if (one < low) low = one;
    for (const one of reduced.high) if (one > high) high = one;
  }
  return [low, high];
}

// -- Lines ---------------------------------------------------------------------------------

// The band from least to greatest of each pixel, and a line through the means. Values of a
// metric that is discrete hold until the next one, or the next of the `walls`: rising pixels
// over which nothing continues.
function drawLine(context, box, scale, line, kind) {
  const y = (value) => yOf(box, scale, false, value);
  const { reduced, walls } = line, { low, high, mean, starts } = reduced;
  const color = colorOf(line.color);
  context.strokeStyle = color;
  context.fillStyle = color;
  context.setLineDash([]);
  context.globalAlpha = 0.3;
  for (let x = 0; x < low.length; x++) {
    if (low[x] === high[x] || Number.isNaN(low[x])) continue;
    const top = y(high[x]);
    context.fillRect(box.left + x, top, 1, Math.max(1, y(low[x]) - top));
  }
  context.globalAlpha = 1;
  context.lineWidth = 1.5;
  context.setLineDash(line.dash);
  context.beginPath();
  let last = -2, lastY = 0, isStart = true, alone = [];
  if (reduced.before && reduced.before.x < 0) {
    last = reduced.before.x;
    isStart = !reduced.before.joined;
    lastY = y(reduced.before.mean);
    context.moveTo(box.left + last, lastY);
  }
  let length = 0;
  const hold = (from, to) => {
    const wall = wallAfter(walls, from, isStart, reduced.near);
    if (kind === 'discrete' && from !== -2) context.lineTo(box.left + Math.max(from, Math.min(to, wall)), lastY);
  };
  for (let x = 0; x < mean.length; x++) {
    if (Number.isNaN(mean[x])) continue;
    const joined = !starts[x] && (kind === 'rate' ? last === x - 1 : last !== -2);
    const at = y(mean[x]);
    if (!joined) {
      hold(last, x);
      if (length === 1) alone.push([last, lastY]);
      length = 0;
      context.moveTo(box.left + x + (kind === 'rate' ? 0 : 0.5), at);
    } else if (kind === 'discrete') {
      context.lineTo(box.left + x + 0.5, lastY);
    }
    context.lineTo(box.left + x + 0.5, at);
    length++;
    last = x;
    lastY = at;
    isStart = starts[x] === 1;
  }
  if (length === 1) alone.push([last, lastY]);
  const after = reduced.after;
  if (after && after.joined && after.x >= mean.length && last !== -2) {
    if (kind === 'discrete') context.lineTo(box.left + after.x, lastY);
    context.lineTo(box.left + after.x, y(after.mean));
  } else {
    hold(last, after ? after.x : box.right - box.left);
  }
  context.stroke();
  context.setLineDash([]);
  for (const [x, at] of alone) {
    context.beginPath();
    context.arc(box.left + x + 0.5, at, 2.5, 0, 7);
    context.fill();
  }
}

// -- Heat maps -----------------------------------------------------------------------------

// From few to many: lightness falls, or rises where it is dark, in one direction. Of differences from
// less to more: blue, what is nearly the background, orange, which the color-blind can tell apart.
function heatColor(part, isDifference) {
  const [ofLight, ofDark] = isDifference
    ? [[[5, 80, 160], [120, 175, 220], [240, 240, 240], [240, 165, 100], [180, 65, 0]], [[130, 205, 255], [50, 110, 165], [36, 42, 50], [165, 90, 25], [255, 180, 85]]]
    : [[[222, 235, 247], [158, 202, 225], [66, 146, 198], [33, 80, 150], [20, 20, 80]], [[32, 48, 72], [40, 100, 140], [60, 165, 150], [200, 215, 90], [255, 250, 200]]];
  const stops = dark.matches ? ofDark : ofLight;
  const at = Math.min(0.9999, Math.max(0, part)) * (stops.length - 1), n = Math.floor(at);
  const mix = stops[n].map((one, i) => Math.round(one + (stops[n + 1][i] - one) * (at - n)));
  return 'rgb(' + mix.join(',') + ')';
}

// The number of all values in some cells, and the largest number of a heat map.
const countOf = (cells) => cells.reduce((sum, cell) => sum + cell[2], 0);
const mostOf = (heat) => heat.cells.reduce((most, cell) => Math.max(most, Math.abs(cell[2])), 0);

// By how much the second of two heat maps has more of its values in each bucket than the first, as
// a part of all values in the column. Columns are as wide as most have enough values in both.
function differenceOf(base, heat) {
  const rates = [base, heat].map(({ cells, step }) => {
    const seconds = (cells.at(-1)[0] - cells[0][0] + 1) * step;
    return countOf(cells) / seconds;
  });
  const wanted = Math.max(heat.step, ENOUGH / Math.min(...rates));
  const step = base.step * Math.ceil(wanted / base.step - 1e-6);
  const totals = [new Map(), new Map()], found = new Map();
  [base, heat].forEach(({ cells, buckets, start, step: width }, place) => {
    for (const [column, bucket, count] of cells) {
      const at = Math.floor((start - base.start + (column + 0.5) * width) / step), key = [at, buckets[bucket]].join();
      if (!found.has(key)) found.set(key, { at, bucket: buckets[bucket], counts: [0, 0] });
      found.get(key).counts[place] += count;
      totals[place].set(at, (totals[place].get(at) ?? 0) + count);
    }
  });
  const cells = [], buckets = [];
  for (const { at, bucket, counts } of found.values()) {
    const [before, now] = counts.map((count, place) => count / totals[place].get(at));
    // Nothing is known of columns in which one of them has no values.
    if (Number.isNaN(now - before)) continue;
    cells.push([at, buckets.length, now - before]);
    buckets.push(bucket);
  }
  return cells.length ? { ...base, step, cells, buckets, quantiles: [], isDifference: true } : null;
}

// The quantiles of each column: the middle of the bucket that has it.
function quantilesOf(heat) {
  if (heat.quantiles) return heat.quantiles;
  const columns = groupedBy(heat.cells, (cell) => cell[0]);
  const all = [0.5, 0.9, 0.99].map((rank) => {
    const values = new Map();
    for (const [column, cells] of columns) {
      cells.sort((a, b) => a[1] - b[1]);
      const total = countOf(cells);
      let reached = 0;
      for (const [, bucket, count] of cells) {
        reached += count;
        if (reached >= rank * total * (1 - 1e-12)) {
          const [first, after] = heat.buckets[bucket];
          values.set(column, (first + Math.max(first, after - 1)) / 2);
          break;
        }
      }
    }
    return { rank, values };
  });
  return (heat.quantiles = all);
}

function heatScale(heat) {
  const low = Math.max(1, heat.buckets.reduce((least, one) => Math.min(least, one[0]), Infinity));
  const high = heat.buckets.reduce((most, one) => Math.max(most, one[1]), 0);
  return { low: low * 0.9, high: Math.max(high, low * 2), step: 1, units: heat.units };
}

// The time at which the first column of a heat map begins.
const originOf = (data, heat) => heat.start - data.start;

function drawHeat(context, box, data, view, heat, scale) {
  const x = (column) => xOf(box, view, originOf(data, heat) + column * heat.step);
  const { isDifference } = heat, most = mostOf(heat);
  for (const [column, bucket, count] of heat.cells) {
    const left = x(column), right = x(column + 1);
    if (right < box.left || left > box.right) continue;
    const [first, after] = heat.buckets[bucket];
    const top = yOf(box, scale, true, after), bottom = yOf(box, scale, true, Math.max(first, scale.low));
    context.fillStyle = heatColor(isDifference ? (1 + count / most) / 2 : Math.log(1 + count) / Math.log(1 + most), isDifference);
    context.fillRect(left, top, Math.max(1, right - left + 0.5), Math.max(1, bottom - top));
  }
  quantilesOf(heat).forEach(({ values }, place) => {
    context.strokeStyle = colorOf([6, 1, 3][place]);
    context.lineWidth = 2;
    context.setLineDash([]);
    context.beginPath();
    let last = -2;
    for (const [column, value] of values) {
      const y = yOf(box, scale, true, value);
      if (column === last + 1) context.lineTo(x(column), y);
      else context.moveTo(x(column), y);
      context.lineTo(x(column + 1), y);
      last = column;
    }
    context.stroke();
  });
}
