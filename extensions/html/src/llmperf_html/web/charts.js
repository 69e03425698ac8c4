"use strict";
// The curves of runs in charts, against steps or against time. A run has a name and a colour if there are several.
llmperf.charts = (function () {
  const words = llmperf.words, make = llmperf.make;
  const DASHES = [undefined, [7, 5], [2, 3], [12, 4, 2, 4]];
  const GIB = 1073741824;

  function found(line, key) { return line.run.curves ? line.run.curves[key] : undefined; }
  function named(list, line, name) { return list.length > 1 ? line.name + ": " + name : name; }
  function dash(i) { return DASHES[Math.floor(i / 2) % DASHES.length] || (i % 2 ? DASHES[1] : undefined); }

  function bandName(curve, what) {
    return curve.of > 2 ? words["band_" + what] : curve.of === 2 ? words["both_" + what] : words.neighbours;
  }

  // The value at x of a line through points, null outside them.
  function at(xs, ys, x) {
    let low = 0, high = xs.length - 1;
    if (high < 0 || x < xs[0] || x > xs[high]) return null;
    while (high - low > 1) { const middle = (low + high) >> 1; if (xs[middle] <= x) low = middle; else high = middle; }
    return xs[high] === xs[low] ? ys[low] : ys[low] + (ys[high] - ys[low]) * (x - xs[low]) / (xs[high] - xs[low]);
  }

  // A curve against the wanted axis: steps and seconds are joined by when each step ended.
  function against(line, curve, isSeconds, wantSeconds) {
    if (isSeconds === wantSeconds) return curve;
    const ends = found(line, "step_ends");
    if (!ends) return null;
    const xs = isSeconds ? ends.middle : ends.x, ys = isSeconds ? ends.x : ends.middle, kept = { x: [], middle: [], of: curve.of };
    if (curve.low) Object.assign(kept, { low: [], high: [] });
    curve.x.forEach(function (x, i) {
      const moved = at(xs, ys, x);
      if (moved === null || (kept.x.length && moved <= kept.x[kept.x.length - 1])) return;
      kept.x.push(Number(moved.toPrecision(6)));
      for (const part of ["middle", "low", "high"]) if (kept[part]) kept[part].push(curve[part][i]);
    });
    return kept;
  }

  // Runs with errors beside others do not take part in the range of the axis: the others would be flat beside a wrong one.
  function curvesOf(list, key, scale, what, isSeconds, byTime) {
    const some = list.some(function (line) { return !line.run.bad && found(line, key); });
    return list.map(function (line) {
      const known = found(line, key), curve = known && against(line, known, isSeconds, byTime) || { x: [], middle: [] };
      const scaled = function (values) { return values && values.map(function (v) { return v === null ? null : v * scale; }); };
      const apart = some && line.run.bad, name = apart ? line.name + " (" + words.not_in_scale + ")" : line.name;
      return { name: list.length > 1 ? name : words[key], x: curve.x, stroke: line.stroke, dash: apart ? [3, 6] : dash(line.side || 0), apart: apart, band: named(list, line, bandName(curve, what)),
               low: list.length > 2 ? undefined : scaled(curve.low), middle: scaled(curve.middle), high: list.length > 2 ? undefined : scaled(curve.high) };
    });
  }

  // A level under curves, such as the known entropy; once where all runs have the same.
  function levels(list, curves, label, valueOf) {
    const known = list.map(function (line) { return line.run.curves ? valueOf(line.run.curves) : undefined; });
    const same = known.every(function (value) { return value === known[0]; });
    return list.map(function (line, i) {
      const x = typeof known[i] === "number" && !(same && i) ? curves[i].x : [];
      return { name: same ? label : named(list, line, label), x: x, middle: x.map(function () { return known[i]; }), stroke: same ? "--soft" : line.stroke, dash: [2, 4], limit: true };
    });
  }

  // Shaded parts of the axis, once where all runs have the same.
  function marked(list, label, rangesOf) {
    const all = list.map(function (line) { return line.run.curves ? rangesOf(line.run.curves, line) : []; });
    const same = all.every(function (ranges) { return JSON.stringify(ranges) === JSON.stringify(all[0]); });
    if (!same && list.length > 2) return [];
    return all.map(function (ranges, i) {
      return { ranges: ranges, label: same ? label : named(list, list[i], label), stroke: same ? "--soft" : list[i].stroke };
    }).filter(function (mark, i) { return mark.ranges.length && !(same && i); });
  }

  function warmup(curves) { return curves.warmup_steps ? [[null, curves.warmup_steps + 0.5]] : []; }
  function outside(curves) { return typeof curves.window_seconds === "number" ? [[null, 0], [curves.window_seconds, null]] : []; }

  function canUseTime(list) { return list.some(function (line) { return found(line, "step_ends"); }); }

  // All charts of a list of {run, name, stroke}; `byTime` chooses the axis.
  function all(place, list, byTime) {
    const node = make("div", null, list.length > 1 ? "charts large" : "charts");
    place.append(node);
    byTime = byTime && canUseTime(list);
    const since = list.every(function (line) { return !line.run.curves || outside(line.run.curves).length; }) ? words.since_window : words.since_sample;
    const joined = !byTime && canUseTime(list), xLabel = byTime ? since : words.step;
    const marks = byTime ? marked(list, words.outside, outside) : marked(list, words.warmup, warmup);
    const bySteps = function (key, label, valueOf) {
      const curves = curvesOf(list, key, 1, "ranks", false, byTime);
      llmperf.plot.add(node, words[key], xLabel, words[key + "_axis"], curves.concat(levels(list, curves, label, valueOf)), marks);
    };
    const ofDevices = function (key, scale, range) {  // without the ends of steps, against seconds in any case
      const curves = curvesOf(list, key, scale, "devices", true, !joined);
      llmperf.plot.add(node, words[key], joined ? words.step : since, words[key + "_axis"], curves, joined ? marks : marked(list, words.outside, outside), range);
    };
    bySteps("loss", words.entropy, function (curves) { return typeof curves.entropy === "number" ? curves.entropy : undefined; });
    bySteps("step_seconds", words.expected_step, function (curves) { return curves.expected.step_seconds; });
    ofDevices("memory_bytes", 1 / GIB);
    ofDevices("power_watts", 1);
    ofDevices("utilisation_percent", 1, [0, 100]);
    for (const line of list) if (!line.run.curves) node.append(make("p", named(list, line, line.run.no_curves)));
    llmperf.plot.draw();
  }

  // The choice between steps and time; `chosen` is called with true for time.
  function axisChoice(byTime, chosen) {
    const node = make("div", null, "axis");
    node.setAttribute("role", "group");
    node.setAttribute("aria-label", words.axis_choice);
    for (const [label, value] of [[words.by_step, false], [words.by_time, true]]) {
      const choice = llmperf.button(label, "", function () { chosen(value); });
      choice.setAttribute("aria-pressed", String(value === byTime));
      node.append(choice);
    }
    return node;
  }

  return { all: all, axisChoice: axisChoice, canUseTime: canUseTime };
})();
