"use strict";
// One chart of curves by uPlot: bands, shaded parts of the axis, a legend in words, and its points as a table.
llmperf.plot = (function () {
  const words = llmperf.words, make = llmperf.make, colour = llmperf.colour;
  let plots = [];

  // Room for the labels of the y axis, however many digits a zoom brings.
  function labelRoom(plot, values) { return Math.max(48, 16 + 7 * Math.max(0, ...(values || []).map(function (one) { return String(one).length; }))); }

  function axis(label, size) {
    const line = { stroke: colour("--line"), width: 1 };
    return { label: label, stroke: colour("--soft"), grid: line, ticks: line, size: size, labelSize: 18, space: 50 };
  }

  function banded(one) { return one.low && one.low.some(function (value, i) { return value !== one.high[i]; }); }

  // Shades parts of the x axis; an open end is null.
  function shade(marks) {
    return function (plot) {
      const left = plot.bbox.left, right = left + plot.bbox.width;
      const at = function (x, open) { return x === null ? open : Math.min(right, Math.max(left, plot.valToPos(x, "x", true))); };
      plot.ctx.save();
      for (const mark of marks) {
        plot.ctx.fillStyle = colour(mark.stroke) + "26";
        for (const range of mark.ranges) {
          const from = at(range[0], left);
          plot.ctx.fillRect(from, plot.bbox.top, at(range[1], right) - from, plot.bbox.height);
        }
      }
      plot.ctx.restore();
    };
  }

  function drawn(place, title, xLabel, yLabel, curves, marks, range) {
    const tables = [], series = [{ label: xLabel }], bands = [];
    for (const one of curves) {
      const stroke = colour(one.stroke), at = series.length, around = { class: "band", stroke: "transparent", spanGaps: true, auto: !one.apart, points: { show: false } };
      tables.push(banded(one) ? [one.x, one.middle, one.low, one.high] : [one.x, one.middle]);
      // A limit does not take part in the range of the axis: the curve would be flat beside a far one.
      series.push({ label: one.name, stroke: stroke, width: one.dash && !one.limit ? 2.2 : 1.6, dash: one.dash, spanGaps: true, auto: !one.limit && !one.apart,
                    points: { show: !one.dash && one.x.length < 40, size: 5 } });
      if (banded(one)) {
        series.push(Object.assign({ label: "low" }, around), Object.assign({ label: "high" }, around));
        bands.push({ series: [at + 2, at + 1], fill: stroke + "33" });
      }
    }
    const paper = document.documentElement.classList.contains("paper");
    return new uPlot({
      title: title, width: paper ? 520 : Math.max(260, place.clientWidth), height: 250, series: series, bands: bands,
      scales: { x: { time: false }, y: range ? { range: range } : {} }, axes: [axis(xLabel, 34), axis(yLabel, labelRoom)], cursor: { drag: { x: true, y: false } },
      hooks: { drawClear: [shade(marks)] },
    }, tables.length > 1 ? uPlot.join(tables) : tables[0], place);
  }

  function drawCharts() {
    for (const one of plots) {
      if (one.plot) one.plot.destroy();
      one.plot = one.draw();
    }
  }

  // What the curves' own legend does not say: bands, shaded parts of the axis, limits outside the chart, equal curves.
  function legend(entries) {
    const list = make("p", null, "marks");
    for (const entry of entries) {
      const mark = make("span", entry.label, "mark");
      if (entry.stroke) {
        const swatch = make("span", null, "swatch");
        swatch.style.background = "var(" + entry.stroke + ")";
        mark.prepend(swatch);
      }
      list.append(mark);
    }
    return list;
  }

  function extent(curve) { return [Math.min(...(curve.low || curve.middle)), Math.max(...(curve.high || curve.middle))]; }

  // Limits that lie above or below what the chart shows.
  function outOfSight(curves) {
    const shown = curves.filter(function (one) { return !one.limit && !one.apart; }).map(extent);
    const least = Math.min(...shown.map(function (one) { return one[0]; })), most = Math.max(...shown.map(function (one) { return one[1]; }));
    return curves.filter(function (one) { return one.limit && (one.middle[0] < least || one.middle[0] > most); }).map(function (one) {
      return { of: one, label: one.name + ": " + llmperf.filled(one.middle[0] < least ? words.below : words.above, { value: Number(one.middle[0].toPrecision(6)) }) };
    });
  }

  // That of two curves one covers the other, which no chart can show.
  function covered(curves) {
    const [a, b, more] = curves.filter(function (one) { return !one.limit; });
    if (!b || more || JSON.stringify(a.x) !== JSON.stringify(b.x)) return [];
    const apart = Math.max(...a.middle.map(function (value, i) { return Math.abs(value - b.middle[i]); }));
    const range = Math.max(...a.middle) - Math.min(...a.middle);
    if (apart === 0) return [{ label: words.same_curve }];
    return apart < 0.005 * range ? [{ label: llmperf.filled(words.close_curve, { value: Number(apart.toPrecision(2)) }) }] : [];
  }

  // The points of a chart as a table, made when somebody opens it.
  function points(title, xLabel, curves) {
    const node = make("details", null, "points"), shown = curves.filter(function (one) { return !one.limit; });
    node.append(make("summary", words.as_table));
    node.addEventListener("toggle", function () {
      if (!node.open || node.lastChild.nodeName === "DIV") return;
      const rows = new Map(), heads = [xLabel], blank = [];
      for (const one of shown) {
        const names = banded(one) ? ["", " (" + words.lowest + ")", " (" + words.highest + ")"] : [""];
        names.forEach(function (name) { heads.push(one.name + name); blank.push("-"); });
      }
      let at = 0;
      for (const one of shown) {
        const columns = banded(one) ? [one.middle, one.low, one.high] : [one.middle];
        one.x.forEach(function (x, i) {
          if (!rows.has(x)) rows.set(x, blank.slice());
          columns.forEach(function (column, j) { if (column[i] !== null && column[i] !== undefined) rows.get(x)[at + j] = Number(column[i].toPrecision(6)); });
        });
        at += columns.length;
      }
      const sorted = Array.from(rows.entries()).sort(function (a, b) { return a[0] - b[0]; });
      const inner = make("div"), whole = llmperf.table(heads, sorted.map(function (one) { return [one[0]].concat(one[1]); }));
      inner.tabIndex = 0;
      inner.setAttribute("role", "region");
      inner.setAttribute("aria-label", title);
      inner.append(whole);
      node.append(inner);
    });
    return node;
  }

  // One chart: curves of {name, x, low, middle, high, stroke}; a band is drawn where low and high are there.
  function chart(place, title, xLabel, yLabel, curves, marks, range) {
    curves = curves.filter(function (one) { return one.x.length > 0; });
    if (!curves.length) return;
    const box = make("div", null, "chart"), image = make("div"), inner = make("div");
    const around = curves.filter(banded).map(function (one) { return { stroke: one.stroke, label: one.band }; });
    const hidden = outOfSight(curves), entries = around.concat(marks, hidden, covered(curves));
    curves = curves.filter(function (one) { return !hidden.some(function (limit) { return limit.of === one; }); });
    image.setAttribute("role", "img");
    image.setAttribute("aria-label", [title].concat(entries.map(function (one) { return one.label; })).join("; "));
    image.append(inner);
    if (entries.length) image.append(legend(entries));
    box.append(image, points(title, xLabel, curves));
    place.append(box);
    plots.push({ draw: function () { return drawn(inner, title, xLabel, yLabel, curves, marks, range); } });
  }

  function clear() { plots = []; }

  return { add: chart, clear: clear, draw: drawCharts, banded: banded };
})();
