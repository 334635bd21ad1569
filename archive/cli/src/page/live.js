// The page that a server feeds: it asks for what it shows.
//
// One question about archives is on its way at a time; the next one is asked when its answer
// has come, for what is shown then. So a drag asks no faster than answers come. A question
// whose answer is of no use any more is cancelled, but not while something is dragged.

const MARGIN = 0.5, MOST_COLUMNS = 8192, MOST_OF = 100, POLL = 1000, HIDDEN_POLL = 10000, RETRY = 2000, LATE = 120;

class Feed {
  constructor() {
    this.page = null;
    this.job = null;
    // What failed last of each kind of question.
    this.failures = new Map();
    this.eventsUntil = 0;
    this.generation = 0;
    this.steps = 0;
    this.stepping = Promise.resolve();
  }

  async begin() {
    const { now, header, moved } = await (await this.ask('header', {})).json();
    this.generation = now.generation;
    const data = this.prepared(header, now.end);
    // Charts keep their places afterwards.
    const shown = windowOf(new URLSearchParams(location.hash.slice(1)), data, true);
    data.movements = (!location.hash && moved) || await this.ask('movements', shown).then((one) => one.json()).catch(() => null);
    this.page = new Page(data, this);
    globalThis.page = this.page;
    this.problem = now.problem;
    this.say();
    // Asks for the values before the browser paints the page for the first time.
    this.page.draw();
    setTimeout(() => this.poll(), POLL);
  }

  prepared(data, end) {
    data.end = end;
    data.span = Math.max(end - data.start, 1e-9);
    data.step = 0;
    data.least = 1e-3;
    return data;
  }

  async ask(path, fields, signal) {
    const query = Object.entries(fields).map((field) => field.join('=')).join('&');
    const response = await fetch(path + '?' + query, { signal, cache: 'no-store' });
    if (!response.ok) throw new Error((await response.text()).trim());
    return response;
  }

  // Shows what is wrong as long as it is.
  say() {
    const texts = new Set([this.problem, ...[...this.failures.values()].map((one) => one.text)]);
    const text = [...texts].filter(Boolean).join('; ');
    if (byId('problem').textContent !== text) byId('problem').textContent = text;
  }

  fail(kind, error, more) {
    // What fetch throws if there is no server has no useful text.
    const text = error instanceof TypeError ? 'mmv-archive view does not answer; it may have ended' : error.message;
    this.failures.set(kind, { text, ...more });
    this.say();
  }

  // Something was answered, or is not wanted any more.
  pass(kind) {
    if (this.failures.delete(kind)) this.say();
  }

  // -- What is missing ----------------------------------------------------------------------

  // Called after each picture: asks for the first thing that is missing.
  want() {
    if (!this.page) return;
    if (this.job) {
      if (!this.page.isDragging && !this.job.isUseful()) this.job.abort.abort();
      return;
    }
    if (this.failures.get('step')?.cursor !== this.page.view.cursor) this.pass('step');
    for (const kind of ['changes', 'columns', 'heat', 'overview', 'events']) {
      const job = this[kind](), failed = this.failures.get(kind);
      if (!job) this.pass(kind);
      else if (failed?.key !== job.key || performance.now() >= failed.until) return void this.run(kind, job);
    }
  }

  async run(kind, job) {
    this.job = job;
    job.abort = new AbortController();
    const { charts = [] } = job;
    try {
      await job.take(await this.ask(job.path, job.fields, job.abort.signal));
      for (const chart of charts) chart.isFailed = false;
      this.pass(kind);
    } catch (error) {
      if (error.name !== 'AbortError') {
        for (const chart of charts) chart.isFailed = true;
        this.fail(kind, error, { key: job.key, until: performance.now() + RETRY });
        setTimeout(() => this.page.changed(), RETRY);
      }
    }
    this.job = null;
    this.page.changed();
  }

  // The window and as much on both sides of it as part of it.
  around(margin) {
    const { view, data } = this.page, length = view.to - view.from;
    return { from: Math.max(0, view.from - margin * length), to: Math.min(data.span, view.to + margin * length) };
  }

  // Whether a tile shows the window in the columns that it was asked for.
  fits(tile, step) {
    const { view } = this.page;
    if (!tile) return false;
    // No finer than an answer can be, or it would be asked for again and again.
    const least = ((view.to - view.from) * (1 + 2 * MARGIN)) / MOST_COLUMNS;
    const isFine = tile.asked <= Math.max(step, least) * 1.5;
    return isFine && tile.from <= view.from + step && tile.to >= view.to - tile.asked;
  }

  visible(isWanted) {
    const figures = this.page.figures.filter((figure) => isWanted(figure.chart) && figure.isVisible);
    return [...new Set(figures.flatMap((figure) => figure.chart.roots))];
  }

  // The values of the charts in the window.
  columns() {
    const { page } = this, { view } = page, { raw } = view;
    const boxes = page.figures.filter((figure) => !figure.chart.histogram).map((figure) => figure.box());
    if (!boxes.length) return null;
    // Of the widest: all are in one answer.
    const pixels = boxes.reduce((most, box) => Math.max(most, Math.floor(box.right - box.left)), 16);
    const step = (view.to - view.from) / pixels;
    const charts = this.visible((chart) => !chart.histogram).filter((chart) => !this.fits(chart.tile(raw, false), step));
    if (!charts.length) return null;
    const { from, to } = this.around(MARGIN);
    const count = Math.min(MOST_COLUMNS, Math.max(16, Math.ceil((to - from) / step)));
    const isUseful = () => {
      const now = page.view;
      const shown = this.visible((chart) => charts.includes(chart.root));
      return now.raw === raw && now.to > from && now.from < to && shown.length > 0;
    };
    return this.tiles(charts, { from, to }, count, isUseful, (chart, kind, tile) => {
      chart.tiles[kind] = tile;
      if (from === 0 && to >= page.data.span) chart.whole[kind] = tile;
    });
  }

  // The values of the current chart at all times.
  overview() {
    const { page } = this, { view, data } = page, figure = page.figures[view.current];
    if (!figure || figure.chart.histogram) return null;
    const chart = figure.chart.root, { raw } = view;
    const pixels = Math.max(16, Math.floor(page.overviewSize.width));
    const known = chart.tile(raw, true), span = { from: 0, to: data.span };
    if (known && known.to >= data.span - known.asked) return null;
    const isUseful = () => {
      const now = page.figures[page.view.current]?.chart;
      return now?.root === chart && page.view.raw === raw;
    };
    const job = this.tiles([chart], span, pixels, isUseful, (of, kind, tile) => { of.whole[kind] = tile; });
    // It says nothing about the window of the chart.
    return { ...job, charts: [] };
  }

  tiles(charts, { from, to }, columns, isUseful, put) {
    const { page } = this, { raw } = page.view;
    const few = [];
    let count = 0;
    for (const chart of charts) {
      const of = chart.ids;
      if (count + of.length > MOST_OF) break;
      count += of.length;
      few.push({ chart, of });
    }
    const fields = { from, to, columns, raw: raw ? 1 : 0, of: few.flatMap((one) => one.of).join() };
    const take = async (response) => {
      const tile = readTile(await response.arrayBuffer());
      for (const { chart, of } of few) {
        const series = tile.series.filter((one) => of.includes(one.side + ':' + one.pmid));
        put(chart, chart.isRate(raw) ? 'rate' : 'plain', { from, to, asked: (to - from) / columns, series });
      }
      if (tile.marks.length) page.note(tile.marks, []);
    };
    return { key: JSON.stringify(fields), path: 'columns', fields, charts: few.map((one) => one.chart), isUseful, take };
  }

  // What histograms counted in the window: of all instances of one at once.
  heat() {
    const { page } = this, { view } = page, length = view.to - view.from;
    const isOld = ({ asked }) => !asked || asked.from > view.from + 1e-9 || asked.to < view.to - length / 100 || asked.to - asked.from > 4 * length;
    const chart = this.visible((one) => one.histogram).find(isOld);
    if (!chart) return null;
    const { side, pmid } = chart.histogram, { from, to } = this.around(MARGIN);
    const fields = { from, to, of: side + ':' + pmid };
    const own = page.charts.filter(({ histogram }) => histogram?.side === side && histogram.pmid === pmid);
    const take = async (response) => {
      const heats = await response.json();
      for (const one of own) {
        one.heat = heats.find((heat) => heat.instance === one.histogram.instance) ?? null;
        one.asked = { from, to };
        one.isAsked = true;
      }
    };
    const isUseful = () => page.view.to > from && page.view.from < to && this.visible((one) => own.includes(one)).length > 0;
    return { key: JSON.stringify(fields), path: 'heat', fields, charts: own, isUseful, take };
  }

  // What happened since it was asked last, and somewhat before: it is logged later.
  events() {
    const { page } = this, to = page.data.span;
    if (this.eventsUntil >= to) return null;
    const fields = { from: Math.max(0, this.eventsUntil - LATE), to };
    const take = async (response) => {
      page.note([], await response.json());
      this.eventsUntil = to;
    };
    return { key: JSON.stringify(fields), path: 'events', fields, isUseful: () => true, take };
  }

  // What changed in the window for which it was asked.
  changes() {
    const { page } = this, asked = page.view.changes;
    if (!asked || asked.notes) return null;
    const fields = { from: asked.from, to: asked.to }, isUseful = () => page.view.changes === asked;
    const take = async (response) => {
      const found = await response.json();
      if (isUseful()) page.rank(found);
    };
    return { key: JSON.stringify(fields), path: 'changes', fields, isUseful, take };
  }

  // -- Samples ------------------------------------------------------------------------------

  // To the next or former sample of a chart: one step after the other.
  step(chart, direction) {
    if (this.steps >= 8) return;
    this.steps++;
    this.stepping = this.stepping.then(() => this.stepNow(chart.root, direction)).finally(() => { this.steps--; });
  }

  async stepNow(chart, direction) {
    const { page } = this, { view, data } = page;
    const from = view.cursor ?? (direction > 0 ? view.from : view.to);
    try {
      // A microsecond on, as times in seconds are not exact.
      const fields = { at: from + direction * 1e-6, forward: direction > 0 ? 1 : 0, of: chart.ids.join() };
      const at = await (await this.ask('sample', fields)).json();
      this.pass('step');
      if (at !== null && at >= 0 && at <= data.span) page.goTo(at);
    } catch (error) {
      this.fail('step', error, { cursor: view.cursor });
    }
  }

  // -- Growth -------------------------------------------------------------------------------

  async poll() {
    try {
      const now = await (await this.ask('now', {})).json();
      this.problem = now.problem;
      if (now.generation !== this.generation) {
        const { header } = await (await this.ask('header', {})).json();
        this.generation = now.generation;
        this.page.renew(this.prepared(header, now.end));
      }
      if (now.end !== this.page.data.end) this.page.extend(now.end);
      this.failures.delete('now');
      this.say();
    } catch (error) {
      this.fail('now', error);
    }
    setTimeout(() => this.poll(), document.hidden ? HIDDEN_POLL : POLL);
  }
}

new Feed().begin().catch((error) => { byId('problem').textContent = 'This page cannot be shown: ' + error.message; });
