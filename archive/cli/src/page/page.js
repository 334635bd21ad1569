// The page: what is shown, the address that has it, keys and the pointer.

const KEYS = [
  ['+ -', 'zoom in and out'],
  ['0', 'all of the time'],
  ['← →', 'earlier and later'],
  ['t T', 'next and former sample of the chart'],
  ['j', 'go to a time: 14:30, 2026-11-20 14:30, -10min'],
  ['/', 'search names, help and instances; Enter shows what was found'],
  ['n p', 'next and previous chart'],
  ['x', 'hide the chart'],
  ['c', 'what changed in this window, or differs between archives; again: all charts'],
  ['d', 'the difference from the first archive, of several'],
  ['r', 'rates of counters, or their values'],
  ['?', 'this help'],
];
const AT_FIRST = 6, MOST_AT_FIRST = 24, MOST_LISTED = 500, MOST_FOUND = 30, MOST_NOTED = 20000, ADDRESS_AFTER = 100;
const OPENING = 86400;
// The events after which no value of a program continues.
const BOUNDARIES = ['appeared', 'restarted', 'recovered', 'ended', 'vanished', 'removed', 'quarantined', 'waiting'];
const byId = (id) => document.getElementById(id);

class Page {
  // `feed` asks for what is missing; null where all is there.
  constructor(data, feed) {
    this.data = data;
    this.feed = feed;
    this.charts = chartsOf(data);
    this.figures = [];
    this.headings = new Map();
    this.items = new Map();
    this.isDragging = false;
    this.overview = { lines: [] };
    this.noted = { marks: new Map(), events: new Map() };
    this.note(data.marks ?? [], data.events ?? []);
    this.view = { from: 0, to: data.span, cursor: null, raw: false, top: 6, query: '', shown: [], current: 0, changes: null };
    const title = data.sides.map((side) => (side.name && side.name + ': ') + side.host).join(', ');
    document.title = title + ' ' + timeText(data, data.start, 0, true);
    byId('title').textContent = title;
    for (const [keys, text] of KEYS) {
      const row = element('tr');
      row.append(element('td', {}, keys), element('td', {}, text));
      byId('keys').append(row);
    }
    byId('changes').hidden = !feed;
    byId('difference').hidden = data.sides.length < 2;
    this.view.shown = this.firstOfAll();
    this.readAddress();
    this.listenToAll();
    this.rebuild();
    this.showCurrent();
  }

  // Adds marks and events to those that are known.
  note(marks, events) {
    const { noted } = this;
    for (const [kind, all] of Object.entries({ marks, events })) {
      for (const one of all) if (noted[kind].size < MOST_NOTED) noted[kind].set(JSON.stringify(one), one);
    }
    this.events = eventsOf(this.data, [...noted.marks.values()], [...noted.events.values()]);
    this.figures?.forEach((figure) => { figure.drawn = null; });
  }

  // The archives end later, or earlier, by now. What shows their end goes on doing so.
  extend(end) {
    const { data, view } = this, before = data.span;
    const isAtEnd = view.to >= before * (1 - 1e-9), isAll = isAtEnd && view.from <= 0;
    data.end = end;
    data.span = Math.max(end - data.start, 1e-9);
    if (isAtEnd && !isAll) view.from += data.span - before;
    if (isAtEnd) view.to += data.span - before;
    this.clamp();
    this.changed();
  }

  // Other metrics or instances. Charts that are known stay the same objects: questions about
  // them may be on their way, and one may be dragged.
  renew(data) {
    const { view } = this, { end, span, movements } = this.data;
    const known = new Map(this.charts.map((chart) => [chart.name, chart])), now = new Map();
    this.data = Object.assign(data, { end, span, movements });
    this.charts = chartsOf(data).map((chart) => {
      const own = known.get(chart.name)?.become(chart) ?? chart;
      now.set(chart, own);
      return own;
    });
    for (const chart of this.charts) {
      chart.base = now.get(chart.base) ?? null;
      chart.source = now.get(chart.source) ?? null;
      chart.parts = chart.parts?.map((part) => now.get(part)) ?? null;
    }
    const there = new Set(this.charts), current = view.shown[view.current];
    const shown = view.shown.filter((chart) => there.has(chart));
    // The first ones if none of these is left, but not if all were hidden.
    const isReset = !known.size || (view.shown.length && !shown.length);
    view.shown = isReset ? this.firstOfAll() : shown;
    const place = view.shown.indexOf(current);
    if (place >= 0) view.current = place;
    this.rebuild();
  }

  // -- Groups ----------------------------------------------------------------------------------

  // The charts of each group.
  groups() {
    return groupedBy(this.charts, (chart) => chart.branch);
  }

  // The charts of a group that are shown when it is opened.
  firstOf(charts) {
    const own = charts.filter((chart) => !chart.base), signals = own.filter((chart) => chart.role);
    return [...signals, ...own.filter((chart) => !chart.role).slice(0, AT_FIRST)];
  }

  firstOfAll() {
    const groups = [...this.groups()].filter(([branch]) => !isMachinery(branch));
    const shown = groups.flatMap(([, charts]) => this.firstOf(charts)).slice(0, MOST_AT_FIRST);
    return shown.length ? shown : this.charts.slice(0, AT_FIRST);
  }

  // Shows the charts of a group, or hides them all.
  fold(branch) {
    const { view } = this, others = view.shown.filter((chart) => chart.branch !== branch);
    const isOpen = others.length < view.shown.length;
    view.shown = isOpen ? others : [...others, ...this.firstOf(this.groups().get(branch) ?? [])];
    this.rebuild();
  }

  // -- What changed ----------------------------------------------------------------------------

  // Shows these charts, the first one as the current one.
  show(charts) {
    Object.assign(this.view, { shown: charts, current: 0 });
    this.rebuild();
  }

  // Asks what changed in the window, or shows the charts again that were shown before.
  toggleChanges() {
    const { view } = this;
    if (!this.feed) return;
    if (view.changes) {
      const { before } = view.changes;
      view.changes = null;
      return this.show(before ?? this.firstOfAll());
    }
    view.changes = { from: view.from, to: view.to, before: view.shown, notes: null, text: 'reading\u2026' };
    this.rebuild();
  }

  // Shows the charts of what changed, most of all first.
  rank({ changes, series }) {
    const { view, data } = this, notes = new Map();
    const differing = series?.filter(({ verdict }) => verdict === 'higher' || verdict === 'lower');
    for (const row of changes ?? differing) {
      // Of histograms that differ, the difference.
      const isOf = ({ base, source, parts, histogram, metric }) => !source && !parts && !base === !(histogram && series)
        && (histogram ? row.metric === histogram.name && row.instance === histogram.instance : metric.name === row.metric);
      for (const chart of this.charts.filter(isOf)) {
        const note = (chart.histogram ? '' : titleOf(row.metric, row.instance) + ' ') + (changes ? changeText(data, row) : differenceText(row, chart.metric.units));
        notes.set(chart, [...(notes.get(chart) ?? []), note]);
      }
    }
    const count = notes.size + (notes.size === 1 ? ' chart' : ' charts');
    view.changes.text = notes.size ? 'What changed most comes first: ' + count : 'Nothing changed by much';
    view.changes.notes = notes;
    this.show([...notes.keys()].slice(0, MOST_AT_FIRST));
    byId('charts').scrollTop = 0;
  }

  // The headings of groups, each with its charts: those of its signals are in one row.
  grouped() {
    const { changes } = this.view;
    if (changes) {
      this.ranking ??= element('p');
      this.ranking.textContent = changes.text;
      return [this.ranking, ...this.figures.map((figure) => figure.element)];
    }
    const children = [];
    for (const [branch, charts] of this.groups()) {
      let heading = this.headings.get(branch);
      if (!heading) {
        heading = { element: element('h2'), button: element('button'), count: element('span'), row: element('div', { class: 'signals' }) };
        heading.button.addEventListener('click', () => this.fold(branch));
        heading.element.append(heading.button, heading.count);
        this.headings.set(branch, heading);
      }
      const own = this.figures.filter((figure) => figure.chart.branch === branch);
      const elements = (isSignal) => own.filter(({ chart }) => Boolean(chart.role) === isSignal).map((figure) => figure.element);
      heading.button.textContent = (own.length ? '\u25be ' : '\u25b8 ') + (branch || 'others');
      heading.button.setAttribute('aria-expanded', own.length > 0);
      heading.count.textContent = own.length + ' of ' + charts.length;
      setChildren(heading.row, elements(true));
      children.push(heading.element, heading.row, ...elements(false));
    }
    return children;
  }

  // -- The address: all of the view, times in seconds since 1970 ----------------------------

  readAddress() {
    const { data, view } = this;
    const address = new URLSearchParams(location.hash.slice(1));
    const number = (name) => numberIn(address, name);
    const at = number('at');
    Object.assign(view, windowOf(address, data, this.feed));
    view.cursor = at === null ? null : at - data.start;
    view.raw = address.get('raw') === '1';
    view.top = Math.min(50, Math.max(1, Math.round(number('top') ?? 6)));
    view.query = address.get('find') ?? '';
    const changes = (address.get('changes') ?? '').split('-').map(Number);
    const isRanked = this.feed && changes.length === 2 && changes.every(Number.isFinite);
    const [first, last] = changes.map((at) => at - data.start);
    if (!isRanked) view.changes = null;
    else if (view.changes?.from !== first || view.changes.to !== last) view.changes = { from: first, to: last, before: null, notes: null, text: '' };
    if (address.has('chart')) {
      const names = address.getAll('chart');
      const known = new Map(this.charts.map((chart) => [chart.name, chart]));
      view.shown = names.filter((name) => known.has(name)).map((name) => known.get(name));
    }
    view.current = Math.max(0, Math.min(view.shown.length - 1, number('current') ?? 0));
    this.clamp();
  }

  writeAddress() {
    const { data, view } = this;
    this.writing = null;
    const address = new URLSearchParams();
    const time = (at) => (data.start + at).toFixed(6).replace(/\.?0+$/, '');
    address.set('from', time(view.from));
    address.set('to', time(view.to));
    if (view.cursor !== null) address.set('at', time(view.cursor));
    if (view.raw) address.set('raw', '1');
    address.set('top', view.top);
    if (view.query) address.set('find', view.query);
    if (view.changes) address.set('changes', time(view.changes.from) + '-' + time(view.changes.to));
    for (const chart of view.shown) address.append('chart', chart.name);
    if (!view.shown.length) address.set('chart', '');
    address.set('current', view.current);
    this.address = '#' + address;
    if (location.hash !== this.address) history.replaceState(null, '', this.address);
  }

  // -- The view ------------------------------------------------------------------------------

  clamp() {
    const { data, view } = this;
    const least = Math.min(data.span, data.least);
    if (!(view.to - view.from >= least)) {
      const center = (view.from + view.to) / 2 || 0;
      view.from = center - least / 2;
      view.to = view.from + least;
    }
    const length = Math.min(view.to - view.from, data.span);
    view.from = Math.min(Math.max(0, view.from), data.span - length);
    view.to = view.from + length;
  }

  // The cursor if it is in the window.
  get cursor() {
    const { cursor, from, to } = this.view;
    return cursor !== null && cursor >= from && cursor <= to ? cursor : null;
  }

  setWindow(from, to) {
    Object.assign(this.view, { from, to });
    this.clamp();
    this.changed();
  }

  zoom(factor, center) {
    const { view } = this, at = center ?? this.cursor ?? (view.from + view.to) / 2;
    this.setWindow(at - (at - view.from) * factor, at + (view.to - at) * factor);
  }

  pan(part) {
    const { view } = this, by = (view.to - view.from) * part;
    this.setWindow(view.from + by, view.to + by);
  }

  // The cursor at a time, and the window around it if it is not within.
  goTo(at) {
    const { view } = this, length = view.to - view.from;
    view.cursor = Math.min(Math.max(0, at), this.data.span);
    const from = this.cursor === null ? view.cursor - length / 2 : view.from;
    this.setWindow(from, from + length);
  }

  stepSample(step) {
    const { view, data } = this, figure = this.figures[view.current];
    if (!figure) return;
    if (this.feed && !figure.chart.histogram) return this.feed.step(figure.chart, step);
    const from = view.cursor ?? (step > 0 ? view.from - data.step : view.to + data.step);
    const at = figure.sample(from, step);
    if (at !== null && at >= 0 && at <= data.span) this.goTo(at);
  }

  // Shows what the current metric differs by between the archives, or hides it.
  toggleDifference() {
    const { view } = this, current = view.shown[view.current];
    if (!current) return;
    const own = current.base ?? current, of = own.parts ?? [own];
    // A difference of histograms is one of both.
    const differences = this.charts.filter(({ base, histogram }) => base && of.some((one) => one === base || (histogram && one.histogram === histogram)));
    const others = view.shown.filter((chart) => !differences.includes(chart));
    const isShown = others.length < view.shown.length;
    view.shown = isShown ? others : [...others, ...differences];
    view.current = view.shown.indexOf(own);
    this.rebuild();
  }

  toggle(chart) {
    const { view } = this, place = view.shown.indexOf(chart);
    if (place < 0) view.shown.push(chart);
    else view.shown.splice(place, 1);
    if (place < 0) view.current = view.shown.length - 1;
    this.rebuild();
    if (place < 0) this.showCurrent();
  }

  move(step) {
    const { view } = this;
    view.current = Math.max(0, Math.min(view.shown.length - 1, view.current + step));
    this.showCurrent();
    this.changed();
  }

  showCurrent() {
    this.figures[this.view.current]?.element.scrollIntoView({ block: 'nearest' });
  }

  // -- Drawing -------------------------------------------------------------------------------

  changed() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }

  rebuild() {
    const { view } = this, current = view.shown[view.current] ?? view.shown.at(-1);
    const ranked = [...(view.changes?.notes?.keys() ?? []), ...this.charts];
    const places = new Map([...new Set(ranked)].map((chart, place) => [chart, place]));
    byId('changes').setAttribute('aria-pressed', Boolean(view.changes));
    view.shown.sort((a, b) => places.get(a) - places.get(b));
    view.current = Math.max(0, view.shown.indexOf(current));
    const kept = new Map(this.figures.map((figure) => [figure.chart, figure]));
    this.figures = view.shown.map((chart) => kept.get(chart) ?? new Figure(this, chart));
    this.none ??= element('p', { class: 'none' });
    this.none.textContent = this.charts.length ? 'Choose metrics in the list.' : 'Nothing has numbers at these times.';
    setChildren(byId('charts'), this.figures.length ? this.grouped() : [...this.grouped(), this.none]);
    this.fillList();
    this.changed();
  }

  draw() {
    const { data, view } = this;
    this.figures.forEach((figure) => figure.measure());
    this.overviewSize = sizeOf(byId('overview'));
    const digits = view.to - view.from < 10 ? 3 : 0;
    const zone = zoneAt(data, data.start + view.to)[2];
    byId('window').textContent = timeText(data, data.start + view.from, digits, true) + ' to ' + timeText(data, data.start + view.to, digits, true) + ' ' + zone;
    byId('status').textContent = view.cursor === null ? '' : this.timesAt(view.cursor, digits || (data.step < 1 ? 3 : 0)) + this.eventsAt(view.cursor);
    byId('raw').checked = view.raw;
    // Not while someone types there.
    for (const [field, value] of [['top', view.top], ['search', view.query]]) {
      if (document.activeElement !== byId(field)) byId(field).value = value;
    }
    this.figures.forEach((figure, place) => {
      figure.element.classList.toggle('current', place === view.current);
      if (figure.isVisible) figure.draw();
    });
    this.drawOverview();
    // Browsers limit how often an address may change.
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.writeAddress(), ADDRESS_AFTER);
    this.feed?.want();
  }

  // A time, and what it is in archives that were moved.
  timesAt(at, digits) {
    const { data } = this;
    const moved = data.sides.filter((side) => side.shift !== 0);
    const times = moved.map((side) => '  ' + side.name + ': ' + timeText(data, data.start + at - side.shift, digits, true));
    return timeText(data, data.start + at, digits, true) + times.join('');
  }

  // What happened near a time to the programs whose charts are shown.
  eventsAt(at) {
    const near = ((this.view.to - this.view.from) / innerWidth) * 5;
    const isShown = (event) => this.figures.some((figure) => figure.concerns(event));
    const found = this.events.filter((event) => Math.abs(event.at - at) <= near && isShown(event)).slice(0, 5);
    return found.map((event) => '  ' + event.text).join('');
  }

  drawOverview() {
    const { data, view } = this, canvas = byId('overview');
    const { width, height } = this.overviewSize, context = surface(canvas, this.overviewSize);
    const figure = this.figures[view.current];
    const pixels = Math.max(1, Math.floor(width));
    const tile = figure && !figure.chart.histogram ? figure.chart.tile(view.raw, true) : null;
    const key = [figure?.chart.name, view.raw, pixels, data.span, view.query].join('\n');
    if (this.overview.key !== key || this.overview.tile !== tile) {
      const lines = tile ? figure.linesOf(tile, 0, data.span, pixels, 4) : [];
      this.overview = { key, tile, lines: lines.filter((line) => line.color >= 0) };
    }
    const scale = scaleOf(...extremesOf(this.overview.lines));
    const box = { left: 0, right: width, top: 4, bottom: height - 14 };
    if (scale) for (const line of this.overview.lines) drawLine(context, box, scale, line, figure.kind);
    context.fillStyle = css('--dim');
    context.textAlign = 'center';
    for (const tick of timeTicks(data, 0, data.span, width)) context.fillText(tick.text, (tick.at / data.span) * width, height - 3);
    context.fillStyle = css('--mark');
    const isDrawn = (event) => !event.isMinor && (!figure || figure.concerns(event));
    for (const event of this.events.filter(isDrawn)) context.fillRect((event.at / data.span) * width, 0, 1.5, 6);
    const left = (view.from / data.span) * width, right = (view.to / data.span) * width;
    context.fillStyle = css('--window');
    context.fillRect(left, 0, Math.max(2, right - left), height);
    context.fillStyle = css('--pick');
    context.fillRect(left, 0, 2, height);
    context.fillRect(Math.max(left + 2, right - 2), 0, 2, height);
  }

  // -- The list ------------------------------------------------------------------------------

  found() {
    const words = this.view.query.toLowerCase().split(/\s+/).filter(Boolean);
    return this.charts.filter((chart) => words.every((word) => chart.text.includes(word)));
  }

  fillList() {
    const found = this.found(), shown = new Set(this.view.shown);
    byId('count').textContent = found.length + ' of ' + this.charts.length + (found.length > MOST_LISTED ? ', the first ' + MOST_LISTED + ':' : '');
    this.listed = found.slice(0, MOST_LISTED);
    this.items = new Map(this.listed.map((chart) => {
      const item = this.items.get(chart) ?? element('li', { role: 'button', tabindex: '0' });
      // A name is broken between its words.
      if (!item.firstChild) for (const part of chart.name.split(/(?<=[._[,])/)) item.append(part, element('wbr'));
      if (item.title !== chart.metric.help) item.title = chart.metric.help;
      item.classList.toggle('shown', shown.has(chart));
      return [chart, item];
    }));
    setChildren(byId('list'), [...this.items.values()]);
  }

  // -- Keys and the pointer ------------------------------------------------------------------

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { view } = this;
    const actions = {
      '+': () => this.zoom(0.5), '=': () => this.zoom(0.5), '-': () => this.zoom(2), '0': () => this.setWindow(0, this.data.span),
      ArrowLeft: () => this.pan(-0.25), ArrowRight: () => this.pan(0.25),
      t: () => this.stepSample(1), T: () => this.stepSample(-1),
      n: () => this.move(1), p: () => this.move(-1),
      x: () => view.shown[view.current] && this.toggle(view.shown[view.current]),
      r: () => this.setRaw(!view.raw),
      c: () => this.toggleChanges(),
      d: () => this.toggleDifference(),
      '/': () => { byId('search').focus(); byId('search').select(); },
      j: () => this.openJump(),
      '?': () => this.toggleHelp(),
    };
    const inField = /^(INPUT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== 'checkbox';
    if (event.key === 'Escape') {
      event.target.blur();
      this.close();
    } else if (!inField && Object.hasOwn(actions, event.key)) {
      event.preventDefault();
      actions[event.key]();
    }
  }

  setRaw(raw) {
    this.view.raw = raw;
    this.changed();
  }

  openJump() {
    byId('jump').hidden = false;
    byId('jump-error').textContent = '';
    byId('jump-text').value = '';
    byId('jump-text').focus();
  }

  jump() {
    const { data, view } = this;
    const at = parseTime(data, byId('jump-text').value, data.start + (view.cursor ?? view.to));
    if (at === null) {
      byId('jump-error').textContent = 'not a time such as 14:30 or -10min';
    } else if (at < data.start || at > data.end) {
      byId('jump-error').textContent = timeText(data, at, 0, true) + ' is before the start or after the end';
    } else {
      byId('jump').hidden = true;
      byId('charts').focus({ preventScroll: true });
      this.goTo(at - data.start);
    }
  }

  toggleHelp() {
    byId('help').hidden = !byId('help').hidden;
  }

  close() {
    byId('help').hidden = byId('jump').hidden = true;
  }

  listenToAll() {
    const on = (id, kind, act) => byId(id).addEventListener(kind, act);
    addEventListener('keydown', (event) => this.press(event));
    addEventListener('resize', () => this.changed());
    addEventListener('hashchange', () => {
      if (location.hash === this.address) return;
      clearTimeout(this.writing);
      this.readAddress();
      this.rebuild();
    });
    dark.addEventListener('change', () => this.changed());
    on('charts', 'scroll', () => this.changed());
    const list = byId('list');
    const pick = (item) => item && this.toggle(this.listed[[...list.children].indexOf(item)]);
    on('list', 'click', (event) => pick(event.target.closest('li')));
    on('list', 'keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      pick(event.target.closest('li'));
    });
    on('raw', 'change', (event) => this.setRaw(event.target.checked));
    on('top', 'change', (event) => {
      this.view.top = Math.min(50, Math.max(1, Math.round(Number(event.target.value)) || 6));
      event.target.value = this.view.top;
      this.changed();
    });
    on('all', 'click', () => this.setWindow(0, this.data.span));
    on('changes', 'click', () => this.toggleChanges());
    on('difference', 'click', () => this.toggleDifference());
    on('help-button', 'click', () => this.toggleHelp());
    on('jump', 'submit', (event) => {
      event.preventDefault();
      this.jump();
    });
    const search = byId('search');
    on('search', 'input', () => {
      this.view.query = search.value;
      this.fillList();
      this.changed();
    });
    on('search', 'keydown', (event) => {
      if (event.key === 'Enter') {
        this.show(this.found().slice(0, MOST_FOUND));
        search.blur();
      }
    });
    this.listenToOverview(byId('overview'));
  }

  listenToOverview(canvas) {
    const at = (event) => (event.offsetX / canvas.clientWidth) * this.data.span;
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button) return;
      canvas.setPointerCapture(event.pointerId);
      const length = this.view.to - this.view.from;
      const inside = at(event) >= this.view.from && at(event) <= this.view.to;
      const grip = inside ? at(event) - this.view.from : length / 2;
      const move = (moved) => this.setWindow(at(moved) - grip, at(moved) - grip + length);
      move(event);
      this.drag(canvas, move);
    });
    this.zoomWith(canvas, at);
  }

  // The wheel alone zooms; with shift the charts scroll.
  zoomWith(canvas, timeAt) {
    canvas.addEventListener('wheel', (event) => {
      if (event.shiftKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, timeAt(event));
    }, { passive: false });
  }

  // Calls a function for each move until the pointer is released, and one then.
  drag(canvas, move, done) {
    this.isDragging = true;
    const end = (event) => {
      this.isDragging = false;
      canvas.removeEventListener('pointermove', move);
      removeEventListener('pointerup', end);
      removeEventListener('pointercancel', end);
      if (done && event.target === canvas) done(event);
      this.changed();
    };
    canvas.addEventListener('pointermove', move);
    // Of the window: the canvas may be hidden by then.
    addEventListener('pointerup', end);
    addEventListener('pointercancel', end);
  }

  // The pointer in a chart.
  listen(figure) {
    const { canvas } = figure;
    const timeAt = ({ offsetX }) => {
      const box = figure.box(), { from, to } = this.view;
      return from + ((offsetX - box.left) / (box.right - box.left)) * (to - from);
    };
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button) return;
      canvas.setPointerCapture(event.pointerId);
      this.view.current = this.figures.indexOf(figure);
      const start = { ...this.view }, grip = timeAt(event);
      if (event.shiftKey) {
        this.drag(canvas, () => {}, (released) => {
          const other = timeAt(released);
          if (other !== grip) this.setWindow(Math.min(grip, other), Math.max(grip, other));
        });
        return;
      }
      const scale = (start.to - start.from) / Math.max(1, canvas.clientWidth - LEFT - RIGHT);
      const origin = event.offsetX;
      this.drag(canvas, (moved) => {
        const by = (origin - moved.offsetX) * scale;
        this.setWindow(start.from + by, start.to + by);
      });
      this.changed();
    });
    canvas.addEventListener('pointermove', (event) => {
      if (event.buttons) return;
      const at = timeAt(event);
      this.view.cursor = at >= this.view.from && at <= this.view.to ? at : null;
      this.changed();
    });
    this.zoomWith(canvas, timeAt);
  }
}

function numberIn(address, name) {
  const number = Number(address.get(name));
  return address.has(name) && Number.isFinite(number) ? number : null;
}

// The window of an address. A server has years of data, and an incident of minutes is a pixel of
// them: it shows the last day first. A file has what somebody chose.
function windowOf(address, data, isLive) {
  const from = numberIn(address, 'from'), to = numberIn(address, 'to');
  const opening = isLive && to === null ? Math.max(0, data.span - OPENING) : 0;
  return { from: from === null ? opening : from - data.start, to: to === null ? data.span : to - data.start };
}

function numberName(kind, quantile, limit) {
  if (kind === 'share_above') return 'share above ' + limit;
  return kind === 'quantile' ? 'p' + quantile * 100 : kind;
}

// What `explain` says of a change.
function changeText(data, { kind, quantile, units, before, during, begin, end, gradual }) {
  const seconds = (time) => Date.parse(time) / 1000;
  const lasted = seconds(end ?? begin) - seconds(begin);
  // Its ends are known to a column of the chart.
  const rounded = lasted < 10 ? lasted : Math.round(lasted);
  const length = end === null ? ', and goes on' : ' for ' + unitText(rounded, 'sec');
  const verb = (during > before ? ' rose' : ' fell') + (gradual ? ' slowly' : '');
  return numberName(kind, quantile) + verb + ' from ' + unitText(before, units) + ' to ' + unitText(during, units) + ' at ' + timeText(data, seconds(begin), 0) + length;
}

// What `compare` says of a number that differs.
function differenceText({ statistic, quantile, limit, units, base, new: now, low, high }, valueUnits) {
  const bounds = low === null || high === null ? '' : ', ' + numberText(low) + ' to ' + numberText(high) + ' times';
  return numberName(statistic, quantile, unitText(limit, valueUnits)) + ' ' + unitText(base, units) + ' \u2192 ' + unitText(now, units) + bounds;
}

// Whether a metric is one of an event's program: by the cluster of its PMID, or its name.
function isOf({ file, cluster }, name, pmid) {
  if (cluster !== null) return name.startsWith('mmv.') && pmid >>> 22 === 70 && ((pmid >>> 10) & 0xfff) === cluster;
  return file !== null && name.startsWith('mmv.' + file + '.');
}

// Processes that share their metrics have each a file NAME.PID.
function sharesNames({ file, pid }, name) {
  const end = '.' + pid;
  return pid !== null && file.endsWith(end) && name.startsWith('mmv.' + file.slice(0, -end.length) + '.');
}

// Events and marks in the order of time, in seconds since the start.
function eventsOf(data, marks, events) {
  const prefix = (side) => (data.sides.length > 1 ? data.sides[side].name + ' ' : '');
  const all = marks.map(([side, time]) => ({ side, at: time - data.start, isMark: true, isWall: true, short: prefix(side) + 'mark', text: prefix(side) + 'mark: logging was interrupted', isOf: () => true, concerns: () => true }));
  for (const event of events) {
    const details = [event.kind, event.file, event.pid === null ? null : 'pid ' + event.pid, event.reason];
    all.push({
      side: event.side,
      at: event.time - data.start,
      isMark: false,
      // New instances change no curve.
      isMinor: event.kind === 'grew',
      isWall: BOUNDARIES.includes(event.kind),
      short: prefix(event.side) + event.kind + (event.file === null ? '' : ' ' + event.file),
      text: prefix(event.side) + details.filter(Boolean).join(' '),
      isOf: (name, pmid) => isOf(event, name, pmid),
      concerns: (name, pmid) => event.file === null || isOf(event, name, pmid) || sharesNames(event, name),
    });
  }
  return all.sort((a, b) => a.at - b.at);
}
