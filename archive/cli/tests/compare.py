"""Compares runs as `mmv-archive compare` does, computed from their raw values.

Standard input: a line for each comparison, a JSON array of tables of counters, instants and the
buckets of a histogram: {name: [a value or null for each second]}. The last table is the new run.
Standard output: for each a line with a JSON object of numbers by their titles. Uses numpy and scipy.
"""
import json
import sys

import numpy as np
from scipy import stats

COLUMNS, GROUPS, CORRELATED = 128, 8, 16
LEVEL, SAME, RANKS = 0.95, 0.05, (0.5, 0.9, 0.99)
LIMITS = 20


def observe(values, is_counter):
    """Sums of numerators and denominators in columns, and the number of observations."""
    span = len(values) - 1
    cells = np.zeros((COLUMNS, 3))
    for second, value in enumerate(values):
        if value is None:
            continue
        column = min(second * COLUMNS // span, COLUMNS - 1)
        if not is_counter:
            cells[column] += (value, 1, 1)
            continue
        before = values[second - 1] if second else None
        if before is None or value < before:
            continue
        cells[column, 2] += 1
        for part in range((second - 1) * COLUMNS // span, column + 1):
            begin, end = part * span / COLUMNS, (part + 1) * span / COLUMNS
            overlap = min(end, second) - max(begin, second - 1)
            if overlap > 0:
                cells[part, :2] += ((value - before) * overlap, overlap)
    return cells


def group(cells, most):
    """Neighbours in groups of about equal numbers of observations."""
    whole, groups, current, before = cells[:, 2].sum(), [], np.zeros(3), 0
    for cell in cells:
        current = current + cell
        before += cell[2]
        if current[2] > 0 and before * most >= (len(groups) + 1) * whole:
            groups.append(current)
            current = np.zeros(3)
    return np.array(groups).reshape(-1, 3)


def estimate(cells):
    groups = group(cells, COLUMNS)
    if len(groups) < GROUPS or groups[:, 1].sum() <= 0:
        return None
    total = groups[:, 1].sum()
    value = groups[:, 0].sum() / total
    variance, freedom = 0.0, GROUPS - 1.0
    while len(groups) >= CORRELATED:
        count, residuals = len(groups), groups[:, 0] - value * groups[:, 1]
        squares = residuals @ residuals
        if squares > 0:
            found = residuals[1:] @ residuals[:-1] / squares
            rho = np.clip(found + (1 + 3 * found) / count, 0, 0.99)
            inflation = (1 + rho) / (1 - rho)
            variance = max(variance, count * squares / (count - 1) * inflation)
            freedom = min(freedom, count / inflation - 1)
        groups = group(groups, count // 2)
    batches = group(groups, GROUPS)
    residuals = batches[:, 0] - value * batches[:, 1]
    count = len(batches)
    variance = max(variance, count * (residuals @ residuals) / (count - 1))
    return value, variance / total**2, max(freedom, 1.0)


def predict(runs):
    """The value of a further run: the mean of some, with the variance between them if larger."""
    count = len(runs)
    values = np.array([value for value, _, _ in runs])
    within = sum(variance for _, variance, _ in runs) / count**2
    if count > 1 and values.var(ddof=1) * (1 + 1 / count) > within:
        return values.mean(), values.var(ddof=1) * (1 + 1 / count), count - 1.0
    return values.mean(), within, min(freedom for _, _, freedom in runs)


def change(bases, new, clamp, level=LEVEL):
    (m1, v1, d1), (m2, v2, d2) = predict(bases), new
    freedom = (v1 + v2) ** 2 / (v1**2 / d1 + v2**2 / d2) if v1 + v2 > 0 else min(d1, d2)
    difference, deviation = m2 - m1, np.sqrt(v1 + v2)
    if difference == 0:
        significance = 1.0
    elif deviation == 0:
        significance = 0.0
    else:
        significance = 2 * stats.t.sf(abs(difference / deviation), freedom)
    student = stats.t.ppf((1 + level) / 2, freedom)
    low = high = None
    g = student**2 * v1 / m1**2 if m1 else np.inf
    if g < 1:
        ratio = m2 / m1
        margin = student * np.sqrt(v2 * (1 - g) + ratio**2 * v1) / abs(m1)
        low, high = (ratio - margin) / (1 - g), (ratio + margin) / (1 - g)
        low = max(low, 0.0) if clamp else low
    same = difference == 0 and deviation == 0
    same = same or low is not None and low >= 1 - SAME and high <= 1 + SAME
    return dict(base=m1, new=m2, low=low, high=high, significance=significance, same=same)


def quantile(buckets, cells, rank, level):
    """Its middle and its bounds; buckets are (first, last, counts by column)."""
    counts = np.array([counts.sum() for _, _, counts in buckets])

    def bucket(rank):
        wanted, before, last = min(max(rank, 0), 1) * counts.sum(), 0.0, None
        for place, count in enumerate(counts):
            before += count
            if count > 0:
                last = place
                if before >= wanted:
                    break
        return buckets[last]

    first, last, _ = bucket(rank)
    _, variance, freedom = above(buckets, cells, first)
    variance = max(variance, rank * (1 - rank) / counts.sum())
    margin = stats.t.ppf((1 + level) / 2, freedom) * np.sqrt(variance)
    high = bucket(rank + margin)[1] if rank + margin < 1 else None
    middle = (first + (first if last is None else last)) / 2
    return middle, first, bucket(rank - margin)[0], high


def above(buckets, cells, limit):
    parts = cells.copy()
    parts[:, 0] = sum(
        (counts * (1.0 if first > limit else 0.5) for first, _, counts in buckets if first >= limit),
        np.zeros(COLUMNS),
    )
    parts[:, 1] = sum(counts for _, _, counts in buckets)
    return estimate(parts)


def histogram(table):
    buckets, seconds, observations = [], np.zeros(COLUMNS), np.zeros(COLUMNS)
    for name, values in table.items():
        cells = observe(values, True)
        seconds = np.maximum(seconds, cells[:, 1])
        observations = np.maximum(observations, cells[:, 2])
        if name == "sum":
            sums = cells[:, 0]
        elif cells[:, 1].any():
            first, last = name.split("..")
            buckets.append((float(first), float(last) if last else None, cells[:, 0]))
    buckets.sort(key=lambda bucket: bucket[0])
    return buckets, sums, np.stack([sums, seconds, observations], axis=1)


def quantile_change(bases, new, rank):
    level = np.sqrt(LEVEL)
    found = [quantile(buckets, cells, rank, level) for buckets, _, cells in bases]
    values, firsts, lows, highs = zip(*found)
    high = None if None in highs else max(highs)
    low, value = min(lows), np.mean(values)
    value2, first2, low2, high2 = quantile(new[0], new[2], rank, level)
    limit = first_at(mix(bases, new), rank)
    shares = [above(buckets, cells, limit) for buckets, _, cells in bases]
    found = change(shares, above(new[0], new[2], limit), False)
    ratio_low = low2 / high if high else None
    ratio_high = high2 / low if high2 is not None and low > 0 else None
    near = ratio_low is not None and ratio_high is not None
    near = near and ratio_low >= 1 - SAME and ratio_high <= 1 + SAME
    found.update(base=value, new=value2, low=ratio_low, high=ratio_high)
    found["same"] = set(firsts) == {first2} or near
    return found


def mix(bases, new):
    """The least values of all buckets, with their part of all values if both sides count the same."""
    mixed = []
    for (buckets, _, _), weight in [(base, 0.5 / len(bases)) for base in bases] + [(new, 0.5)]:
        count = sum(counts.sum() for _, _, counts in buckets)
        mixed += [(first, counts.sum() * weight / count) for first, _, counts in buckets]
    return sorted(mixed, key=lambda bucket: bucket[0])


def first_at(mixed, rank):
    before = 0.0
    for first, weight in mixed:
        before += weight
        if before >= rank:
            break
    return first


def share_from(buckets, cells, limit):
    """The share of values that are not less than a limit; those of its bucket are spread evenly."""
    parts = cells.copy()
    parts[:, 0] = 0.0
    for first, last, counts in buckets:
        if first >= limit:
            parts[:, 0] += counts
        elif last is not None and last > limit:
            parts[:, 0] += counts * (last - limit) / (last - first)
    parts[:, 1] = sum(counts for _, _, counts in buckets)
    return estimate(parts)


def distribution_change(bases, new):
    """The share above the limit at which the distributions differ most."""
    mixed = mix(bases, new)
    limits = sorted({first_at(mixed, (place + 0.5) / LIMITS) for place in range(LIMITS)})
    level = 1 - (1 - LEVEL) / len(limits)
    tests, most, same = [], None, True
    for limit in limits:
        raised = limit * (1 + SAME)
        at = [predict([share_from(b, c, one) for b, _, c in bases]) for one in (limit, raised)]
        own = [share_from(new[0], new[2], one) for one in (limit, raised)]
        for less, greater in [(at[0], own[1]), (own[0], at[1])]:
            difference, deviation = greater[0] - less[0], np.sqrt(less[1] + greater[1])
            freedom = min(less[2], greater[2])
            if deviation > 0:
                parts = less[1] ** 2 / less[2] + greater[1] ** 2 / greater[2]
                freedom = (less[1] + greater[1]) ** 2 / parts
            if difference <= 0:
                tests.append(1.0)
            else:
                tests.append(stats.t.sf(difference / deviation, freedom) if deviation > 0 else 0.0)
            same = same and difference + stats.t.ppf((1 + level) / 2, freedom) * deviation <= SAME
            if most is None or difference > most[0]:
                most = difference, at[0], own[0]
    found = change([most[1]], most[2], True, level)
    tests.sort()
    found["significance"] = min(1.0, min(len(tests) * p / rank for rank, p in enumerate(tests, 1)))
    found["same"] = same
    return found


def share(counters, name):
    """The share of an instance in its counter; 0 if the run does not have it."""
    cells = {n: observe(v, True) for n, v in counters.items() if "[" in n}
    whole = sum(part[:, 0] for part in cells.values())
    count = np.max([part[:, 2] for part in cells.values()], axis=0)
    own = cells[name][:, 0] if name in cells else np.zeros(COLUMNS)
    return estimate(np.stack([own, whole, count], axis=1))


def compare(runs):
    changes = {}

    def add(title, estimates, clamp):
        changes[title] = change(estimates[:-1], estimates[-1], clamp)

    for name in set().union(*(run["counters"] for run in runs)):
        counters = [run["counters"] for run in runs]
        zero = (0.0, 0.0, GROUPS - 1.0)
        rates = [estimate(observe(c[name], True)) if name in c else zero for c in counters]
        add(f"rate {name}", rates, True)
        if "[" in name:
            add(f"share {name}", [share(c, name) for c in counters], True)
    for name in runs[0]["instants"]:
        add(f"value {name}", [estimate(observe(run["instants"][name], False)) for run in runs], False)
    sides = [histogram(run["histogram"]) for run in runs]
    totals = [sum(counts for _, _, counts in side[0]) for side in sides]
    rates = [np.stack([t, s[2][:, 1], s[2][:, 2]], axis=1) for t, s in zip(totals, sides)]
    add("rate shop.latency", [estimate(rate) for rate in rates], True)
    means = [np.stack([s[1], t, s[2][:, 2]], axis=1) for t, s in zip(totals, sides)]
    add("mean shop.latency", [estimate(mean) for mean in means], False)
    for rank in RANKS:
        changes[f"p{rank * 100:.0f} shop.latency"] = quantile_change(sides[:-1], sides[-1], rank)
    changes["share_above shop.latency"] = distribution_change(sides[:-1], sides[-1])
    ranked = sorted(changes.values(), key=lambda change: change["significance"])
    different = 0
    for place, found in enumerate(ranked, 1):
        if found["significance"] <= place * 0.05 / len(ranked):
            different = place
    for place, found in enumerate(ranked):
        found["verdict"] = "same" if found.pop("same") else "unclear"
        if place < different and found["verdict"] == "unclear":
            found["verdict"] = "higher" if found["new"] > found["base"] else "lower"
    # What a mean or quantile says is not said again.
    of_values = [changes[f"{kind} shop.latency"] for kind in ("mean", "p50", "p90", "p99")]
    if any(found["verdict"] in ("higher", "lower") for found in of_values):
        del changes["share_above shop.latency"]
    return changes


for line in sys.stdin:
    print(json.dumps(compare(json.loads(line))))
