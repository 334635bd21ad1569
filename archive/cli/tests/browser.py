"""Drives a page in chromium: browser.py ROOT ADDRESS DIRECTORY PART; pictures go to DIRECTORY."""

import os
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs

from playwright.sync_api import sync_playwright

root, base, directory, part = Path(sys.argv[1]).resolve(), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
is_file = base.startswith("file:")
libraries = root / "usr/lib/x86_64-linux-gnu"
if not libraries.is_dir():
    libraries = next((root / "usr/lib").glob("*-linux-gnu*"))
home = directory / "home"
environment = dict(
    os.environ,
    LD_LIBRARY_PATH=f"{libraries}:{libraries}/pulseaudio",
    HOME=str(home),
)
problems = []


def opened(browser, scheme="light", width=1200, address=""):
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.on("console", lambda message: problems.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))

    def requested(request):
        address = request.url.split("#")[0]
        if address != base and (is_file or not address.startswith(base)):
            problems.append(f"request: {request.url}")

    page.on("request", requested)
    page.goto(base + address)
    until(page, "Boolean(globalThis.page && !globalThis.page.waiting)")
    settled(page)
    return page


def until(page, condition):
    """Waits for what is true sooner or later. playwright's own way to wait needs eval."""
    end = time.monotonic() + 60
    while not page.evaluate(condition):
        if time.monotonic() > end:
            raise TimeoutError(condition)
        time.sleep(0.02)


def settled(page):
    """Waits until what was asked for is drawn."""
    frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    page.evaluate(frames)
    until(page, "(({feed, waiting, writing}) => !writing && (!feed || !(feed.job || feed.steps || waiting)))(globalThis.page)")
    page.evaluate(frames)
    return page.evaluate(
        "(({from, to, cursor, raw, top, query, current, shown}) =>"
        " ({from, to, cursor, raw, top, query, current, shown: shown.map((one) => one.name)}))(page.view)"
    )


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    return settled(page)


def check(condition, what):
    if not condition:
        problems.append(f"failed: {what}")


def near(one, other, by=1e-3):
    return abs(one - other) <= by


def drawn(page, chart):
    """How many pixels of a chart are not of its background."""
    return page.evaluate(
        """(name) => {
          const figure = globalThis.page.figures.find((one) => one.chart.name === name);
          const {width, height} = figure.canvas;
          const {data} = figure.canvas.getContext('2d').getImageData(0, 0, width, height);
          let count = 0;
          for (let i = 3; i < data.length; i += 4) count += data[i] > 0;
          return count;
        }""",
        chart,
    )


def keys(page):
    whole = settled(page)
    check(whole["from"] == 0 and near(whole["to"], 299), f"all is shown at first: {whole}")
    view = press(page, "+")
    check(near(view["to"] - view["from"], 149.5), f"+ halves the time: {view}")
    view = press(page, "-")
    check(near(view["to"] - view["from"], 299), f"- doubles it: {view}")
    before = press(page, "+", "+")
    view = press(page, "ArrowRight")
    check(near(view["from"] - before["from"], 299 / 16), f"the arrow moves by a quarter: {view}")
    view = press(page, "ArrowLeft")
    check(near(view["from"], before["from"]), f"and back: {view}")
    view = press(page, "0")
    check(near(view["to"] - view["from"], 299), f"0 shows all: {view}")
    view = press(page, "n")
    check(view["current"] == 1, f"n is the next chart: {view}")
    view = press(page, "p", "p")
    check(view["current"] == 0, f"p is the one before, if there is one: {view}")
    view = press(page, "r")
    check(view["raw"], "r shows the values of counters")
    view = press(page, "r")
    check(not view["raw"], "and their rates")
    count = len(view["shown"])
    view = press(page, "x")
    check(len(view["shown"]) == count - 1, f"x hides a chart: {view}")
    press(page, "?")
    check(page.is_visible("#help"), "? shows the keys")
    press(page, "Escape")
    check(not page.is_visible("#help"), "Escape hides them")


def jumps(page):
    press(page, "0", "+", "+")
    press(page, "j")
    page.keyboard.type("22:14:00")
    view = press(page, "Enter")
    check(near(view["cursor"], 40), f"22:14:00 is 40 s after the start: {view}")
    check(view["from"] <= 40 <= view["to"], f"and in the window: {view}")
    press(page, "j")
    page.keyboard.type("-1min")
    view = press(page, "Enter")
    check(near(view["cursor"], 239), f"-1min is before the end: {view}")
    press(page, "j")
    page.keyboard.type("2023-11-14 22:13:30")
    view = press(page, "Enter")
    check(near(view["cursor"], 10), f"a date and a time: {view}")
    for text in ["tomorrow", "2030-01-01", "25:00", "24:59", "22:99", "2023-02-31"]:
        press(page, "j")
        page.keyboard.type(text)
        press(page, "Enter")
        check(page.inner_text("#jump-error") != "", f"{text} is answered")
        press(page, "Escape")
        check(not page.is_visible("#jump"), "Escape closes it")


def samples(page):
    search(page, "spike")
    view = press(page, "0", "j")
    page.keyboard.type("+10s")
    first = press(page, "Enter")["cursor"]
    cursors = [press(page, "t")["cursor"] for _ in range(3)]
    check([round(one) for one in cursors] == [11, 12, 13], f"t is the next sample: {first} {cursors}")
    for keys in ["", "+", "+", "+", "-"]:
        press(page, *keys, *"TTT")
        for _ in range(4):
            second = round(press(page, "t")["cursor"])
            legend = page.inner_text("figure.current .legend")
            check(legend == ("0" if second % 3 else "1"), f"the legend has that sample: {second} {legend}")
    press(page, "T")
    press(page, "0", "j")
    page.keyboard.type("+13s")
    press(page, "Enter")
    view = press(page, "T")
    check(round(view["cursor"]) == 12, f"T is the former one: {view}")
    press(page, "j")
    page.keyboard.type("+119s")
    press(page, "Enter")
    view = press(page, "t")
    check(round(view["cursor"]) == 180, f"t passes the gap: {view}")


def search(page, text):
    press(page, "/")
    page.fill("#search", text)
    view = press(page, "Enter")
    return view


def finds(page):
    check(search(page, "pictures.wave")["shown"] == ["pictures.wave"], "a name is found")
    check(search(page, "interrupted")["shown"] == ["pictures.wave"], "a help text is found")
    check(search(page, "worker-17")["shown"] == ["pictures.many"], "an instance is found")
    check("worker-17" in page.inner_text(".legend"), "and shown, though it is not among the largest")
    view = search(page, "pictures.many")
    legend = page.inner_text(".legend")
    check("worker-00" in legend and "44 others, their sum" in legend, f"the largest: {legend}")
    page.fill("#top", "50")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    settled(page)
    legend = page.inner_text(".legend")
    check("worker-49" in legend and "other" not in legend, f"all: {legend}")
    view = search(page, "no such thing")
    check(view["shown"] == [], f"nothing is found: {view}")
    page.fill("#search", "pictures.w")
    press(page, "Escape")
    page.locator("#list li").first.focus()
    for key, count in [("Enter", 1), (" ", 0)]:
        check(len(press(page, key)["shown"]) == count, "a key picks in the list")
        check(page.evaluate("document.activeElement.tagName") == "LI", "and the focus stays there")
    page.focus("#top")
    page.keyboard.press("Control+A")
    page.keyboard.type("1")
    page.evaluate("page.draw()")
    page.keyboard.type("2")
    check(page.input_value("#top") == "12", "a number is typed while the page is drawn")
    page.fill("#top", "6")
    page.keyboard.press("Enter")
    page.fill("#search", "")
    press(page, "Escape")


def pointer(page):
    search(page, "pictures.wave")
    press(page, "0")
    box = page.locator("canvas.chart").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 60
    page.mouse.move(x, y)
    page.mouse.wheel(0, -100)
    page.mouse.wheel(0, -100)
    zoomed = settled(page)
    check(near(zoomed["to"] - zoomed["from"], 299 * 0.64, 0.01), f"the wheel zooms: {zoomed}")
    page.mouse.down()
    page.mouse.move(x + 60, y)
    page.mouse.up()
    dragged = settled(page)
    check(dragged["from"] < zoomed["from"] - 1, f"a drag to the right shows earlier: {dragged}")
    length = dragged["to"] - dragged["from"]
    check(near(length, zoomed["to"] - zoomed["from"]), f"and as much time: {dragged}")
    page.keyboard.down("Shift")
    page.mouse.move(x - 50, y)
    page.mouse.down()
    page.mouse.move(x + 50, y)
    page.mouse.up()
    page.keyboard.up("Shift")
    chosen = settled(page)
    check(chosen["to"] - chosen["from"] < length / 3, f"with shift it chooses: {chosen}")
    page.mouse.down(button="right")
    page.mouse.move(x - 50, y)
    page.mouse.up(button="right")
    check(near(settled(page)["from"], chosen["from"]), "another button does not drag")
    overview = page.locator("#overview").bounding_box()
    page.mouse.click(overview["x"] + overview["width"] * 0.8, overview["y"] + 20)
    moved = settled(page)
    center = (moved["from"] + moved["to"]) / 2
    check(near(center, 299 * 0.8, 2), f"the overview moves the window: {moved}")


def links(browser, page):
    search(page, "pictures.large")
    press(page, "0", "+", "ArrowRight", "j")
    page.keyboard.type("+100s")
    before = press(page, "Enter")
    address = page.evaluate("location.hash")
    fields = parse_qs(address[1:])
    check(float(fields["from"][0]) > 1.6e9, f"times in the address are absolute: {address}")
    other = opened(browser, address=address)
    after = settled(other)
    same = all(near(before[key], after[key], 1e-4) for key in ["from", "to", "cursor"])
    check(same and before["shown"] == after["shown"], f"a link shows the same: {before} {after}")
    other.close()
    page.evaluate("location.hash = 'from=x&to=1e999&top=-5&current=99&chart=nothing'")
    view = settled(page)
    check(view["from"] == 0 and near(view["to"], 299), f"a bad link shows all: {view}")


def drawings(browser):
    for scheme, width in [("light", 1200), ("dark", 1200), ("light", 800)]:
        page = opened(browser, scheme, width)
        for name in ["wave", "many", "spike", "constant", "large", "once", "step", "hostile", "long_name", "tiny", "time"]:
            view = search(page, f"pictures.{name}")
            check(len(view["shown"]) == 1, f"{name} is a chart: {view}")
            empty = page.evaluate("document.querySelectorAll('.none').length")
            check(empty == 0 and drawn(page, view["shown"][0]) > 1500, f"{name} is drawn")
            wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
            check(not wide, f"{name} fits into {width} pixels")
            page.screenshot(path=directory / f"{part}-{name}-{scheme}-{width}.png")
        check("never" not in page.inner_text("#list"), "what has no value is not listed")
        page.close()


def texts(page):
    search(page, "pictures.hostile")
    check("<img src=x" in page.inner_text(".help"), "HTML in a help text is shown as text")
    check("</script>" in page.inner_text(".legend"), "and in the name of an instance")
    check(page.evaluate("document.querySelectorAll('img').length") == 0, "no element is made of it")
    check(page.evaluate("document.querySelectorAll('script').length") == 2, "nor is a script")


def frames(page):
    """Prints the processor time of a frame of a drag, as the browser counts it."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent():
        metrics = devtools.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "ThreadTime")

    before = spent()
    page.evaluate(
        """() => {
          const {page} = globalThis;
          for (let n = 0; n < 200; n++) {
            page.view.from += 0.05;
            page.view.to += 0.05;
            page.draw();
          }
        }"""
    )
    drawn = page.evaluate("page.figures.filter((one) => one.isVisible).flatMap((one) => one.lines).length")
    print(f"{part}: {(spent() - before) * 1000 / 200:.1f} ms of script for a frame of {drawn} bands")


def ten(page):
    """Ten bands in one chart."""
    search(page, "pictures.many")
    page.fill("#top", "9")
    page.keyboard.press("Enter")
    press(page, "Escape", "0", "+", "+")
    frames(page)
    page.fill("#top", "6")
    page.keyboard.press("Enter")
    press(page, "Escape")


def pictures(browser):
    page = opened(browser)
    for act in [keys, jumps, samples, finds, texts, pointer, ten]:
        act(page)
    links(browser, page)
    page.close()
    drawings(browser)


# Which of three metrics an event concerns, and which are those of its program.
CONCERNS = """(event) => {
  const [one] = eventsOf(page.data, [], [{side: 0, time: page.data.start, kind: 'ended', reason: null, ...event}]);
  const all = [['mmv.shop.queue', (70 << 22 | 5 << 10 | 1) >>> 0], ['mmv.free', (70 << 22 | 9 << 10 | 1) >>> 0], ['kernel.load', 251659265]];
  return [one.concerns, one.isOf].map((is) => all.filter((metric) => is(...metric)).map(([name]) => name));
}"""


def concerns(page):
    for event, expected in [
        (dict(file="shop", cluster=None, pid=7), [["mmv.shop.queue"], ["mmv.shop.queue"]]),
        (dict(file="shop.7", cluster=None, pid=7), [["mmv.shop.queue"], []]),
        (dict(file="shop.7", cluster=None, pid=8), [[], []]),
        (dict(file="any", cluster=9, pid=7), [["mmv.free"], ["mmv.free"]]),
        (dict(file=None, cluster=None, pid=1), [["mmv.shop.queue", "mmv.free", "kernel.load"], []]),
    ]:
        found = page.evaluate(CONCERNS, event)
        check(found == expected, f"{event} concerns {found}")


def shop(browser):
    page = opened(browser)
    concerns(page)
    view = search(page, "latency")
    check(view["shown"] == ["mmv.shop.latency"], f"a histogram is a chart: {view}")
    check(drawn(page, "mmv.shop.latency") > 5000, "a heat map is drawn")
    press(page, "j")
    page.keyboard.type("+75s")
    press(page, "Enter")
    legend = page.inner_text(".legend")
    check("p50: 6.5" in legend and "p99" in legend, f"quantiles at the cursor: {legend}")
    press(page, "j")
    page.keyboard.type("+50s")
    press(page, "Enter")
    check("appeared shop pid 8" in page.inner_text("#status"), "events at the cursor have a text")
    other = dict(side=0, kind="ended", file="other", cluster=None, pid=9, reason=None)
    page.evaluate("(event) => page.note([], [{...event, time: page.data.start + 50}])", other)
    page.evaluate("page.draw()")
    status = page.inner_text("#status")
    check("appeared shop pid 8" in status and "other" not in status, f"events of the charts only: {status}")
    search(page, "mmv.shop.latency")
    page.evaluate("page.setWindow(57, 81)")
    settled(page)
    heat = page.evaluate("page.figures[0].chart.heat.step")
    check(near(heat, 10), f"columns as wide as there are samples, though there are none at first: {heat}")
    search(page, "mmv.shop.queue")
    texts = [value_at(page, f"+{second}s") for second in [25, 30, 35, 45, 60, 95]]
    check(texts == ["6", "6", "-", "-", "8", "9"], f"values as long as there is a line: {texts}")
    search(page, "mmv.shop.version")
    texts = [value_at(page, f"+{second}s") for second in [35, 45, 60, 95]]
    check(texts == ["1", "-", "2", "2"], f"and one that is discrete: {texts}")
    search(page, "mmv.shop")
    page.screenshot(path=directory / f"{part}.png")
    page.close()


# Counts the questions about columns, and lets each take some time.
SLOW = """(delay) => {
  const plain = globalThis.plain ??= globalThis.fetch;
  globalThis.asked = {now: 0, most: 0, all: 0, cancelled: 0};
  globalThis.fetch = async (address, options) => {
    if (!String(address).startsWith('columns')) return plain(address, options);
    const {asked} = globalThis;
    asked.all++;
    asked.most = Math.max(asked.most, ++asked.now);
    try {
      await new Promise((done, failed) => {
        setTimeout(done, delay);
        options.signal.addEventListener('abort', () => {
          asked.cancelled++;
          failed(options.signal.reason);
        });
      });
      return await plain(address, options);
    } finally {
      asked.now--;
    }
  };
}"""


def drags(page):
    search(page, "pictures.wave")
    press(page, "0", "+", "+", "+", "+", "+")
    page.evaluate(SLOW, 100)
    box = page.locator("canvas.chart").first.bounding_box()
    y, begin = box["y"] + 60, time.monotonic()
    for _ in range(3):
        page.mouse.move(box["x"] + 100, y)
        page.mouse.down()
        for step in range(40):
            page.mouse.move(box["x"] + 100 + 20 * step, y)
            time.sleep(0.01)
        page.mouse.up()
    elapsed = time.monotonic() - begin
    view = settled(page)
    asked = page.evaluate("globalThis.asked")
    check(asked["most"] == 1, f"one question at a time: {asked}")
    check(2 <= asked["all"] <= elapsed / 0.1 + 2, f"as many as answers in {elapsed:.1f} s: {asked}")
    check(asked["cancelled"] == 0, f"none is cancelled while something is dragged: {asked}")
    tile = page.evaluate("(({from, to}) => ({from, to}))(page.figures[0].chart.tiles.plain)")
    check(tile["from"] <= view["from"] + 1e-6 and tile["to"] >= view["to"] - 1e-6, f"the last window is there: {tile} {view}")


def cancels(page):
    press(page, "0", "+", "+", "+", "+", "+", "+")
    page.evaluate(SLOW, 700)
    press_only(page, "j")
    page.keyboard.type("+1s")
    press_only(page, "Enter")
    time.sleep(0.2)
    press_only(page, "j")
    page.keyboard.type("+290s")
    press(page, "Enter")
    asked = page.evaluate("globalThis.asked")
    check(asked["cancelled"] >= 1 and asked["most"] == 1, f"a useless question is cancelled: {asked}")
    page.evaluate(SLOW, 0)


def wide(browser):
    page = opened(browser, width=7000)
    press(page, "+", "+")
    page.evaluate(SLOW, 0)
    page.evaluate("page.draw()")
    settled(page)
    check(page.evaluate("globalThis.asked.all") == 0, "a wide page asks once")
    page.close()


def fails(page):
    page.evaluate(
        """() => {
          const plain = globalThis.plain ??= globalThis.fetch;
          globalThis.fetch = async (address, options) =>
            String(address).startsWith('columns') ? new Response('no columns', {status: 500}) : plain(address, options);
        }"""
    )
    search(page, "pictures.time")
    for _ in range(15):
        check("no columns" in page.inner_text("#problem"), "what failed is shown as long as it does")
        time.sleep(0.1)
    check(page.evaluate("page.figures[0].absence").startswith("these values"), "in its chart, too")
    page.evaluate("() => { globalThis.fetch = globalThis.plain; }")
    until(page, "!document.getElementById('problem').textContent")
    check(drawn(page, "pictures.time") > 1500, "and it is asked for again")


def between(page):
    search(page, "pictures.spike")
    page.evaluate("page.setWindow(12.2, 12.4); page.view.cursor = 12.3")
    settled(page)
    legend = page.inner_text("figure.current .legend")
    check(legend == "1", f"the value before the window: {legend}")
    ends = page.evaluate("(({before, after}) => [before.mean, after.mean, after.joined])(page.figures[0].lines[0].reduced)")
    check(ends == [1, 0, True], f"a line passes a window between two samples: {ends}")
    search(page, "pictures.step")
    page.evaluate("page.setWindow(60, 61); page.view.cursor = 60.5")
    settled(page)
    legend = page.inner_text("figure.current .legend")
    check(legend == "1", f"a value holds until the next one: {legend}")


def press_only(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def measure(browser):
    """The first picture of an archive, and the script of a frame of at most ten charts."""
    for _ in range(3):
        page = opened(browser)
        until(page, "page.figures[0].chart.tile(false, false) !== null")
        settled(page)
        first = page.evaluate(
            "performance.getEntriesByType('resource').find((one) => one.name.includes('columns')).responseEnd"
        )
        print(f"{part}: values of the first picture after {first:.0f} ms")
        page.set_viewport_size({"width": 1200, "height": 2600})
        page.evaluate("page.view.shown.splice(10); page.rebuild()")
        press(page, "0", "+", "+")
        frames(page)
        page.close()


def live(browser):
    pictures(browser)
    page = opened(browser)
    for act in [drags, cancels, fails, between]:
        act(page)
    page.close()
    wide(browser)


def value_at(page, moment):
    """The legend at a time."""
    press(page, "j")
    page.keyboard.type(moment)
    press(page, "Enter")
    return page.inner_text("figure.current .legend")


def compares(browser):
    page = opened(browser)
    listed = page.inner_text("#list").split("\n")
    check("sides.level (B - A)" in listed and "sides.alone (B - A)" not in listed, f"what both have: {listed}")
    view = search(page, "sides.level")
    check(view["shown"] == ["sides.level", "sides.level (B - A)"], f"a metric and its difference: {view}")
    press(page, "0", "p")
    legend = value_at(page, "+10.2s")
    check("A: 100" in legend and "B: 130" in legend, f"both are in one chart: {legend}")
    press(page, "n")
    check(value_at(page, "+10.2s") == "30", f"their difference: {value_at(page, '+10.2s')}")
    check(value_at(page, "+30s") == "-", f"missing in one is missing: {value_at(page, '+30s')}")
    for count, gone in [(1, "sides.level (B - A)"), (2, None)]:
        view = press(page, "d")
        check(len(view["shown"]) == count and gone not in view["shown"], f"d: {view}")
    search(page, "sides.count (B")
    check(value_at(page, "+10.2s") == "15 /s", f"of rates: {value_at(page, '+10.2s')}")
    search(page, "sides.worker")
    press(page, "p")
    legend = value_at(page, "+10.2s")
    check(all(text in legend for text in ["A x: 1", "A y: 2", "B y: 5", "B z: 7"]), f"instances: {legend}")
    press(page, "n")
    check(value_at(page, "+10.2s") == "y: 3", f"only what both have: {value_at(page, '+10.2s')}")
    if part.endswith("aligned"):
        check("B: 2023-11-15 22:13:30" in page.inner_text("#status"), page.inner_text("#status"))
    if not is_file:
        press(page, "0", "c")
        until(page, "Boolean(page.view.changes.notes)")
        shown = settled(page)["shown"]
        found = page.evaluate("fetch(`changes?from=0&to=${page.data.span}`).then((answer) => answer.json())")
        metrics = [one["metric"] for one in found["series"] if one["verdict"] in ("higher", "lower")]
        check(metrics and shown == list(dict.fromkeys(metrics)), f"c orders by compare: {shown} {metrics}")
        press(page, "c")
    search(page, "sides")
    before = press(page, "0", "+", "n")
    other = opened(browser, address=page.evaluate("location.hash"))
    after = settled(other)
    check(before["shown"] == after["shown"] and near(before["from"], after["from"]), f"a link: {before} {after}")
    other.screenshot(path=directory / f"{part}.png")
    other.close()
    page.close()


# The colors of a heat map at some times and values.
COLORS = """(places) => {
  const figure = page.figures[page.view.current], box = figure.box();
  const {width, height} = figure.canvas;
  const {data} = figure.canvas.getContext('2d').getImageData(0, 0, width, height);
  return places.map(([second, value]) => {
    const x = Math.round(xOf(box, page.view, second));
    const y = Math.round(yOf(box, heatScale(figure.chart.map), true, value));
    return [...data.slice(4 * (y * width + x), 4 * (y * width + x) + 4)];
  });
}"""


def differences(browser):
    """Where the values of one histogram are that the other does not have, in two colors."""
    name, own = "sides.latency (B - A)", ["sides.latency (A)", "sides.latency (B)"]
    for scheme, width in [("light", 1440), ("dark", 1440), ("light", 800), ("dark", 800)]:
        page = opened(browser, scheme, width)
        check(search(page, "latency")["shown"] == [own[0], name, own[1]], f"a difference is listed: {settled(page)}")
        check(page.is_visible("#difference"), "there is a button for it")
        press(page, "0")
        for steps, gone in [(0, []), (2, []), (1, [name])]:
            view = press(page, *"ppp", *"n" * steps)
            here = view["shown"][view["current"]]
            view = press(page, "d")
            check(view["shown"] == own, f"d at {here} hides it: {view}")
            page.click("#difference")
            view = settled(page)
            check(view["shown"] == [own[0], name, own[1]], f"the button shows it again: {view}")
        press(page, *"ppp", "n")
        cells = page.evaluate(
            """(({cells, buckets, step}) => cells.map(([column, bucket, part]) => [column * step, buckets[bucket][0], part]))
            (page.figures[1].chart.map)"""
        )
        early = [part for at, _, part in cells if at < 50]
        check(len(early) > 20 and all(near(part, 0) for part in early), f"no difference before: {early}")
        for bucket, expected in [(10, -0.375), (20, 0), (80, 0.375)]:
            late = [part for at, first, part in cells if at > 65 and first == bucket]
            check(len(late) > 10 and all(near(part, expected) for part in late), f"{bucket} ms: {late}")
        legend = page.inner_text("figure.current .legend")
        check("\u221237.5 % to +37.5 % of the values in 3 s" in legend, f"the scale has a legend: {legend}")
        less, same, more, before = page.evaluate(COLORS, [[91.5, 14], [91.5, 24], [91.5, 84], [31.5, 14]])
        check(less[2] > less[0] + 80, f"blue is less: {less}")
        check(more[0] > more[2] + 80, f"orange is more: {more}")
        grey = max(same[:3]) - min(same[:3])
        check(grey < 20 and same == before and same[3] == 255, f"the same has no color: {same} {before}")
        wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
        check(not wide, f"it fits into {width} pixels")
        page.screenshot(path=directory / f"{part}-{scheme}-{width}.png")
        if not is_file:
            page.evaluate("page.setWindow(61, 120)")
            press(page, "c")
            until(page, "Boolean(page.view.changes.notes)")
            check(settled(page)["shown"] == [name], f"c shows the difference: {settled(page)}")
            page.screenshot(path=directory / f"{part}-changes-{scheme}-{width}.png")
            press(page, "c")
        page.evaluate("page.setWindow(100, 104)")
        settled(page)
        step = page.evaluate("page.figures[1].chart.map.step")
        check(near(step, 3), f"a column has enough values: {step}")
        other = opened(browser, address=page.evaluate("location.hash"))
        check(settled(other)["shown"] == settled(page)["shown"], "a link has it")
        other.close()
        page.close()


# The mean of a line of a chart at some seconds.
AT = """([place, name, seconds]) => {
  const line = page.figures[place].lines.find((one) => one.name === name);
  return seconds.map((second) => line.valueAt(second)?.mean ?? null);
}"""


def incident(browser):
    """One command and no typing: what fails, since when and for how long is in the first screen."""
    for scheme, width in [("light", 1440), ("dark", 1440), ("light", 800), ("dark", 800)]:
        page = opened(browser, scheme, width)
        shown = page.evaluate("page.view.shown.slice(0, 4).map(({role, name}) => role + ' ' + name)")
        expected = ["rate mmv.jobs.requests", "errors mmv.jobs.failures", "latency mmv.jobs.latency p99", "saturation mmv.jobs.queue.depth"]
        check(shown == expected, f"the signals of the program come first: {shown}")
        below = page.evaluate("page.figures.slice(0, 4).filter(({element}) => element.getBoundingClientRect().bottom > innerHeight).length")
        check(below == 0, f"all of them are in the first screen of {width} pixels")
        wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
        check(not wide, f"they fit into {width} pixels")
        page.screenshot(path=directory / f"{part}-{scheme}-{width}.png")
        if not is_file:
            changes(page, f"{scheme}-{width}")
        if (scheme, width) != ("light", 1440):
            page.close()
            continue
        first, last = page.evaluate(AT, [1, "", [60.5, 105.5]])
        check(first == 0 and near(last, 40), f"40 failures a second, from none: {first} {last}")
        before, during, after = page.evaluate(AT, [2, "/submit", [60.5, 105.5, 150.5]])
        check(near(during / before, 16, 0.1) and near(after, before), f"p99 is 16 times as high: {before} {during} {after}")
        before, during = page.evaluate(AT, [2, "/poll", [60.5, 105.5]])
        check(near(before, during), f"of the other endpoint it is not: {before} {during}")
        edges = page.evaluate(AT, [3, "", [88.5, 92.5, 117.5, 122.5]])
        check([one > 100 for one in edges] == [False, True, True, False], f"30 s long: {edges}")
        units = page.evaluate("page.figures.slice(0, 4).map((one) => one.units.textContent)")
        check(units == ["/s", "/s", "ms", ""], f"in units of people: {units}")
        marks = page.evaluate("page.events.filter((one) => page.figures[0].concerns(one)).map((one) => one.short)")
        check(marks == ["appeared jobs", "ended jobs", "restarted jobs"], f"with its restart: {marks}")
        headings = page.locator("#charts h2 button").all_inner_texts()
        check([one[0] + one[2:] for one in headings][:1] == ["\u25bemmv.jobs"], f"groups: {headings}")
        check(headings[1:] == ["\u25b8 mmv.agent"], f"the agent is folded at the end: {headings}")
        folds(page)
        colors(page)
        page.close()


def others(browser):
    """The program that changed is the first one, and the endpoint that did has the first heat map."""
    for scheme, width in [("light", 1440), ("dark", 1440), ("light", 800), ("dark", 800)]:
        page = opened(browser, scheme, width)
        headings = [one[2:] for one in page.locator("#charts h2 button").all_inner_texts()]
        check(headings == ["mmv.jobs", "mmv.billing", "mmv.api", "mmv.agent"], f"most changed first: {headings}")
        shown = page.evaluate("page.view.shown.slice(0, 5).map(({role, name}) => role + ' ' + name)")
        expected = ["rate mmv.jobs.requests", "errors mmv.jobs.failures", "latency mmv.jobs.latency p99", "saturation mmv.jobs.queue.depth", " mmv.jobs.latency[endpoint=/submit]"]
        check(shown == expected, f"the slow endpoint next to its quantile: {shown}")
        below = page.evaluate("page.figures.slice(0, 4).filter(({element}) => element.getBoundingClientRect().bottom > innerHeight).length")
        check(below == 0, f"the incident is in the first screen of {width} pixels")
        top = page.evaluate("page.figures[4].canvas.getBoundingClientRect().top")
        check(top < 800, f"and the heat map begins in it: {top}")
        before, during = page.evaluate(AT, [1, "", [60.5, 105.5]])
        check((before, round(during)) == (0, 40), f"its failures: {before} {during}")
        page.screenshot(path=directory / f"{part}-{scheme}-{width}.png")
        names = settled(page)["shown"]
        page.reload()
        until(page, "Boolean(globalThis.page && !globalThis.page.waiting)")
        check(settled(page)["shown"] == names, "the order is the same again")
        page.close()


def changes(page, name):
    """The button orders the charts as `explain` does, and gives them back."""
    before = settled(page)["shown"]
    page.evaluate("page.setWindow(60, page.data.span)")
    settled(page)
    page.click("#changes")
    until(page, "Boolean(page.view.changes.notes)")
    view = settled(page)
    found = page.evaluate("fetch(`changes?from=60&to=${page.data.span}`).then((answer) => answer.json())")
    metrics = [one["metric"] for one in found["changes"]]
    shown = [one.split("[")[0] for one in view["shown"]]
    check(len(metrics) > 3 and list(dict.fromkeys(shown)) == list(dict.fromkeys(metrics)), f"as explain: {shown} {metrics}")
    notes = page.locator(".note").all_inner_texts()
    check("ms to 81.92 ms at" in notes[shown.index("mmv.jobs.latency")], f"with what it says: {notes}")
    check("for 30" in notes[0], f"and for how long: {notes[0]}")
    page.screenshot(path=directory / f"changes-{name}.png")
    wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    check(not wide, f"notes fit into the page: {name}")
    address = page.evaluate("location.hash")
    view = press(page, "c")
    check(view["shown"] == before, f"the charts before are back: {view}")
    other = opened(page.context.browser, address=address)
    until(other, "Boolean(page.view.changes?.notes)")
    again = [one.split("[")[0] for one in settled(other)["shown"]]
    check(again == shown, f"the address has the order: {again}")
    other.close()
    press(page, "0")


def folds(page):
    shown = settled(page)["shown"]
    page.locator("#charts h2 button").first.click()
    check(settled(page)["shown"] == [], "a group folds")
    page.locator("#charts h2 button").first.click()
    check(settled(page)["shown"] == shown, "and unfolds")


def colors(page):
    lines = "Object.fromEntries(page.figures[0].lines.map(({name, color}) => [name, color]))"
    before = page.evaluate(lines)
    # Without the largest instance in the window the others keep their colors.
    page.evaluate("page.setWindow(95, 110)")
    settled(page)
    after = page.evaluate(lines)
    check(before == after and len(set(before.values())) == 3, f"colors belong to names: {before} {after}")


def grows(browser):
    page = opened(browser)
    begin = settled(page)
    until(page, f"page.view.to > {begin['to']} + 2")
    view = settled(page)
    check(view["from"] == 0, f"all stays all: {view}")
    search(page, "grows.first")
    press(page, "+", "+", *["ArrowRight"] * 8)
    edge = settled(page)
    until(page, f"page.view.to > {edge['to']} + 2")
    view = settled(page)
    length = edge["to"] - edge["from"]
    check(near(view["to"] - view["from"], length, 0.01), f"the window follows the end: {edge} {view}")
    last = page.evaluate("(({series}) => series[0].origin + (series[0].first + series[0].count) * series[0].step)(page.figures[0].chart.tiles.plain)")
    check(last > edge["to"], f"with its values: {last} {edge}")
    press(page, *["ArrowLeft"] * 4)
    still = settled(page)
    until(page, f"page.data.span > {view['to']} + 2")
    view = settled(page)
    check(near(view["from"], still["from"]), f"another window stays: {still} {view}")
    page.evaluate("globalThis.kept = [page.figures[0], page.figures[0].chart, document.querySelector('#list li')]; kept[2].focus()")
    until(page, "page.charts.some((one) => one.name === 'grows.second')")
    same = "kept[0] === page.figures[0] && kept[1] === page.charts[0] && kept[2] === document.activeElement"
    check(page.evaluate(same), "charts and the list stay as they are when there are more")
    check(settled(page)["shown"] == ["grows.first"], "new metrics change nothing that is shown")
    check(search(page, "grows.second")["shown"] == ["grows.second"], "and are found")
    page.close()


def fortnight(browser):
    """Of two weeks, the last day is shown first, and an incident of five minutes in it is wide enough to see."""
    page = opened(browser, width=1440)
    view = settled(page)
    check(near(view["to"], 14 * 86400) and near(view["from"], 13 * 86400), f"the last day: {view}")
    before, during = page.evaluate(AT, [0, "", [14 * 86400 - 14400, 14 * 86400 - 10650]])
    check((before, during) == (5, 500), f"the incident is in it: {before} {during}")
    pixels = page.evaluate("page.figures[0].canvas.clientWidth") * 300 / 86400
    check(pixels >= 3, f"it is {pixels} pixels wide")
    page.screenshot(path=directory / f"{part}.png")
    view = press(page, "0")
    check(view["from"] == 0 and near(view["to"], 14 * 86400), f"0 shows all of it: {view}")
    page.close()


def truncated(browser):
    page = opened(browser)
    search(page, "pictures.wave")
    press(page, "0")
    before = page.evaluate("page.data.span")
    (directory / "truncate").touch()
    until(page, f"page.data.span < {before}")
    press(page, "0", "+", "-")
    until(page, "!document.getElementById('problem').textContent")
    check(drawn(page, "pictures.wave") > 0, "what is left is drawn")
    (directory / "restore").touch()
    until(page, f"page.data.span === {before}")
    view = press(page, "0")
    check(near(view["to"], before, 1), f"and all of it again: {view}")
    check(search(page, "pictures.wave")["shown"] == ["pictures.wave"], "the page goes on")
    # An answer may have found the truncated file: the browser reports its status by itself.
    problems[:] = [one for one in problems if "status of 500" not in one]
    page.close()


with sync_playwright() as playwright:
    chromium = playwright.chromium.launch(
        executable_path=str(root / "usr/lib/chromium/chromium"),
        args=["--no-sandbox", "--disable-gpu", "--no-zygote"],
        env=environment,
    )
    parts = dict(pictures=pictures, live=live, incident=incident, **{"incident-file": incident, "others-file": others}, others=others, shop=shop, grows=grows, measure=measure, truncated=truncated, fortnight=fortnight, difference=differences, **{"difference-file": differences})
    parts.get(part, compares if part.startswith("compared") else shop)(chromium)
    chromium.close()
print("\n".join(problems))
sys.exit(1 if problems else 0)
