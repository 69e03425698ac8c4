"use strict";
// Everything in the data is foreign text: it reaches the page as text nodes only.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const words = data.words, runs = data.runs, chosen = new Set();
  const detail = document.getElementById("detail"), compare = document.getElementById("compare");
  const overview = document.getElementById("overview"), hint = document.getElementById("hint");
  const small = window.matchMedia("(max-width: 40rem)").matches;
  let plots = [], opener = "#search";

  function make(tag, text, className) {
    const node = document.createElement(tag);
    if (text !== undefined && text !== null) node.textContent = String(text);
    if (className) node.className = className;
    return node;
  }

  function row(cells, tag) {
    const line = make("tr");
    for (const cell of cells) line.append(make(tag || "td", cell));
    return line;
  }

  function table(headers, rows) {
    const node = make("table"), head = make("thead"), body = make("tbody");
    if (headers.length) { head.append(row(headers, "th")); node.append(head); }
    for (const cells of rows) body.append(row(cells));
    node.append(body);
    return node;
  }

  function filled(template, values) {
    return template.replace(/\{(\w+)\}/g, function (_, name) { return String(values[name]); });
  }

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  function axis(label, size) {
    const line = { stroke: colour("--line"), width: 1 };
    return { label: label, stroke: colour("--soft"), grid: line, ticks: line, size: size, labelSize: 18 };
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

  function drawn(place, title, xLabel, yLabel, curves, marks) {
    const tables = [], series = [{ label: xLabel }], bands = [];
    for (const one of curves) {
      const stroke = colour(one.stroke), at = series.length, around = { class: "band", stroke: "transparent", spanGaps: true, points: { show: false } };
      tables.push(banded(one) ? [one.x, one.middle, one.low, one.high] : [one.x, one.middle]);
      series.push({ label: one.name, stroke: stroke, width: 1.6, dash: one.dash, spanGaps: true, points: { show: !one.dash && one.x.length < 40, size: 5 } });
      if (banded(one)) {
        series.push(Object.assign({ label: "low" }, around), Object.assign({ label: "high" }, around));
        bands.push({ series: [at + 2, at + 1], fill: stroke + "33" });
      }
    }
    const paper = document.documentElement.classList.contains("paper");
    return new uPlot({
      title: title, width: paper ? 520 : Math.max(260, place.clientWidth), height: 260, series: series, bands: bands,
      scales: { x: { time: false } }, axes: [axis(xLabel, 34), axis(yLabel, 48)], cursor: { drag: { x: true, y: false } },
      hooks: { drawClear: [shade(marks)] },
    }, tables.length > 1 ? uPlot.join(tables) : tables[0], place);
  }

  function drawCharts() {
    for (const one of plots) {
      if (one.plot) one.plot.destroy();
      one.plot = one.draw();
    }
  }

  // What the curves' own legend does not say: shaded bands and shaded parts of the axis.
  function legend(entries) {
    const list = make("p", null, "marks");
    for (const entry of entries) {
      const mark = make("span", entry.label, "mark"), swatch = make("span", null, "swatch");
      swatch.style.background = "var(" + entry.stroke + ")";
      mark.prepend(swatch);
      list.append(mark);
    }
    return list;
  }

  // One chart: curves of {name, x, low, middle, high, stroke}; a band is drawn where low and high are there.
  function chart(place, title, xLabel, yLabel, curves, marks) {
    curves = curves.filter(function (one) { return one.x.length > 0; });
    if (!curves.length) return;
    const box = make("div", null, "chart"), inner = make("div");
    const around = curves.filter(banded).map(function (one) { return { stroke: one.stroke, label: one.band }; });
    const entries = around.concat(marks);
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", [title].concat(entries.map(function (one) { return one.label; })).join("; "));
    box.append(inner);
    if (entries.length) box.append(legend(entries));
    place.append(box);
    plots.push({ draw: function () { return drawn(inner, title, xLabel, yLabel, curves, marks); } });
  }

  function focusOpener() { (document.querySelector(opener) || document.getElementById("search")).focus({ preventScroll: true }); }

  function back() {
    plots = [];
    detail.replaceChildren();
    detail.hidden = true;
    overview.scrollIntoView({ block: "start" });
    focusOpener();
    // The table may draw its rows anew when the page gets shorter, and the focus is gone with them.
    setTimeout(function () { if (document.activeElement === document.body) focusOpener(); }, 250);
  }

  // An empty place for details; `from` is where the way back leads.
  function clear(from) {
    plots = [];
    opener = from;
    detail.replaceChildren();
    detail.hidden = false;
    if (runs.length === 1) return;
    const leave = make("button", words.back, "back");
    leave.type = "button";
    leave.addEventListener("click", back);
    detail.append(leave);
  }

  function named(list, i, name) { return list.length > 1 ? (i ? "B: " : "A: ") + name : name; }
  function stroke(i) { return i ? "--two" : "--one"; }
  function found(run, key) { return run.curves ? run.curves[key] : undefined; }

  function bandName(curve, what) {
    return curve.of > 2 ? words["band_" + what] : curve.of === 2 ? words["both_" + what] : words.neighbours;
  }

  function curvesOf(list, key, scale, what) {
    return list.map(function (run, i) {
      const curve = found(run, key) || { x: [], middle: [] };
      const scaled = function (values) { return values && values.map(function (v) { return v === null ? null : v * scale; }); };
      return { name: list.length > 1 ? (i ? "B" : "A") : words[key], x: curve.x, stroke: stroke(i), band: named(list, i, bandName(curve, what)),
               low: scaled(curve.low), middle: scaled(curve.middle), high: scaled(curve.high) };
    });
  }

  // The known entropy under each loss; once where all have the same.
  function entropies(list) {
    const known = list.map(function (run) { return found(run, "loss") ? run.curves.entropy : null; });
    const same = known.every(function (one) { return one === known[0]; });
    return list.map(function (run, i) {
      const x = typeof known[i] === "number" && !(same && i) ? run.curves.loss.x : [];
      return { name: same ? words.entropy : named(list, i, words.entropy), x: x, middle: x.map(function () { return known[i]; }),
               stroke: same ? "--soft" : stroke(i), dash: [6, 4] };
    });
  }

  // Shaded parts of the axis, once where all runs have the same.
  function marked(list, label, rangesOf) {
    const all = list.map(function (run) { return run.curves ? rangesOf(run.curves) : []; });
    const same = all.every(function (one) { return JSON.stringify(one) === JSON.stringify(all[0]); });
    return all.map(function (ranges, i) {
      return { ranges: ranges, label: same ? label : named(list, i, label), stroke: same ? "--soft" : stroke(i) };
    }).filter(function (one, i) { return one.ranges.length && !(same && i); });
  }

  function warmup(curves) { return curves.warmup_steps ? [[null, curves.warmup_steps + 0.5]] : []; }
  function outside(curves) { return typeof curves.window_seconds === "number" ? [[null, 0], [curves.window_seconds, null]] : []; }

  function allCharts(list) {
    const place = make("div", null, "charts");
    detail.append(place);
    const steps = marked(list, words.warmup, warmup), seconds = marked(list, words.outside, outside);
    const since = list.every(function (run) { return !run.curves || outside(run.curves).length; }) ? words.since_window : words.since_sample;
    const byStep = function (key, curves) { chart(place, words[key], words.step, words[key + "_axis"], curves, steps); };
    const byTime = function (key, scale) { chart(place, words[key], since, words[key + "_axis"], curvesOf(list, key, scale, "devices"), seconds); };
    byStep("loss", curvesOf(list, "loss", 1, "ranks").concat(entropies(list)));
    byStep("step_seconds", curvesOf(list, "step_seconds", 1, "ranks"));
    byTime("memory_bytes", 1 / 1073741824);
    byTime("power_watts", 1);
    byTime("utilisation_percent", 1);
    list.forEach(function (run, i) { if (!run.curves) place.append(make("p", named(list, i, run.no_curves))); });
    drawCharts();
  }

  function show(index) {
    const run = runs[index];
    clear('.open[data-index="' + index + '"]');
    detail.append(make("h2", run.row.run + (run.row.status === "complete" ? "" : " (" + run.row.status + ")")));
    allCharts([run]);
    for (const part of run.sections) {
      detail.append(make("h3", part.title), table(part.headers, part.rows));
    }
    detail.append(make("h3", words.findings));
    if (!run.findings.length) detail.append(make("p", words.no_findings));
    for (const one of run.findings) detail.append(make("p", one.text, one.severity));
    detail.focus({ preventScroll: runs.length === 1 });
    if (runs.length > 1) detail.scrollIntoView({ block: "start" });
  }

  function imported(run) { return run.row.provenance === "imported"; }
  function short(text) { return text === undefined ? "-" : text.length > 60 ? text.slice(0, 60) + "..." : text; }

  // What differs between two lists of named parts, and what an imported row does not tell. Of a whole that differs by
  // its name (another model), the parts are not told.
  function held(a, b, partsOf) {
    const x = partsOf(a), y = partsOf(b), differ = [], untold = new Set();
    for (const name of new Set(Object.keys(x).concat(Object.keys(y)))) {
      const whole = name.split(".")[0];
      if (x[name] === y[name] || (whole !== name && whole in x && whole in y && x[whole] !== y[whole])) continue;
      if ((name in x || !imported(a)) && (name in y || !imported(b))) differ.push(name + " (A: " + short(x[name]) + ", B: " + short(y[name]) + ")");
      else if (!(whole in x && whole in y)) untold.add(whole);
    }
    return { differ: differ, untold: Array.from(untold) };
  }

  function said(start, list, className) { if (list.length) detail.append(make("p", start + " " + list.join("; ") + ".", className)); }

  // Says in what the two differ; true where their figures can be divided.
  function comparable(a, b) {
    const contract = held(a, b, function (run) { return data.contracts[run.contract]; });
    const setting = held(a, b, function (run) { return data.settings[run.setting]; });
    const ended = [a, b].filter(function (run) { return !imported(run) && run.row.status !== "complete"; });
    said(words.contracts_differ, contract.differ, "warning");
    said(words.not_complete, ended.map(function (run) { return run.row.run + " (" + run.row.status + ")"; }), "warning");
    said(words.settings_differ, setting.differ);
    said(words.not_told, contract.untold.concat(setting.untold));
    detail.append(make("p", words.one_each));
    return !contract.differ.length && !ended.length;
  }

  function ratio(a, b, i) {
    const x = a.figures[i][0], y = b.figures[i][0];
    if (data.figures[i].memory && (imported(a) || imported(b))) return "-";
    return typeof x === "number" && typeof y === "number" && y !== 0 ? (x / y).toFixed(4) : "-";
  }

  function showTwo(one, other) {
    const a = runs[one], b = runs[other];
    clear("#compare");
    detail.append(make("h2", "A: " + a.row.run), make("h2", "B: " + b.row.run));
    const divided = comparable(a, b);
    if (divided && (imported(a) || imported(b))) detail.append(make("p", words.memory_unlike));
    const rows = data.figures.map(function (figure, i) {
      return [figure.title, a.figures[i][1], b.figures[i][1]].concat(divided ? [ratio(a, b, i)] : []);
    }).filter(function (cells) { return cells[1] !== "-" || cells[2] !== "-"; });
    detail.append(table([words.figure, "A", "B"].concat(divided ? ["A / B"] : []), rows));
    allCharts([a, b]);
    detail.focus({ preventScroll: true });
    detail.scrollIntoView({ block: "start" });
  }

  function cellText(column, line) {
    const value = line[column.field], printed = line.printed[column.field];
    if (printed !== undefined) return printed;
    if (value === null) return "-";
    const digits = { minimumFractionDigits: column.digits, maximumFractionDigits: column.digits };
    return column.kind === "number" ? value.toLocaleString("en", digits) : value;
  }

  function bad(column, line) { return column.field === "status" && /^(failed|aborted)/.test(line.status) ? "error" : ""; }

  function formatter(column) {
    return function (cell) {
      const line = cell.getData(), text = cellText(column, line);
      if (column.field !== "run") return make("span", text, "text " + bad(column, line));
      const node = make("button", text, "text open");
      node.type = "button";
      node.dataset.index = line.index;
      node.setAttribute("aria-label", words.open + " " + text);
      node.addEventListener("click", function () { show(line.index); });
      return node;
    };
  }

  function choose() {
    compare.disabled = chosen.size !== 2;
    hint.textContent = chosen.size === 2 ? "" : filled(words.chosen, { chosen: chosen.size });
  }

  function checkbox(cell) {
    const node = make("input"), index = cell.getData().index;
    node.type = "checkbox";
    node.checked = chosen.has(index);
    node.setAttribute("aria-label", words.compare + " " + cell.getData().run);
    node.addEventListener("change", function () {
      if (node.checked) chosen.add(index); else chosen.delete(index);
      choose();
    });
    return node;
  }

  // A title that the keyboard reaches; a click on it sorts.
  function sorting(cell) {
    const node = make("button", cell.getValue(), "sort");
    node.type = "button";
    return node;
  }

  function columns() {
    const list = [{ title: small ? "" : words.compare, formatter: checkbox, width: small ? 34 : 92, frozen: true, headerSort: false, hozAlign: "center" }];
    for (const column of data.columns) {
      const number = column.kind === "number", run = column.field === "run";
      list.push({
        title: column.title, field: column.field, sorter: number ? "number" : "string", headerFilter: number ? false : "input",
        headerFilterParams: { elementAttributes: { "aria-label": words.filter + ": " + column.title, placeholder: words.filter } },
        formatter: formatter(column), hozAlign: number ? "right" : "left", titleFormatter: sorting, headerWordWrap: true,
        width: small && run ? 126 : small ? Math.min(column.width, 94) : column.width, minWidth: 36, frozen: run, variableHeight: !number,
        sorterParams: { alignEmptyValues: "bottom" }, tooltip: false, headerTooltip: false,
      });
    }
    return list;
  }

  // The overview on paper: the columns that matter of the rows that are shown; what was changed has room to wrap.
  function printed(grid) {
    const shown = data.columns.filter(function (column) { return column.paper; });
    const rows = grid.getData("active").map(function (line) { return shown.map(function (column) { return cellText(column, line); }); });
    const node = table(shown.map(function (column) { return column.title; }), rows), widths = make("colgroup");
    const weight = function (column) { return column.field === "fix_hp" ? 1.5 * column.width : column.width; };
    const whole = shown.reduce(function (sum, column) { return sum + weight(column); }, 0);
    for (const column of shown) {
      const one = make("col");
      one.style.width = 100 * weight(column) / whole + "%";
      widths.append(one);
    }
    node.prepend(widths);
    return node;
  }

  function printing(grid) {
    const place = document.getElementById("printed"), root = document.documentElement;
    window.addEventListener("beforeprint", function () {
      root.classList.add("paper");
      place.replaceChildren(printed(grid));
      drawCharts();
    });
    window.addEventListener("afterprint", function () {
      root.classList.remove("paper");
      place.replaceChildren();
      drawCharts();
    });
  }

  // The rows follow where the keyboard takes the headers.
  function following() {
    const headers = document.querySelector(".tabulator-header-contents"), holder = document.querySelector(".tabulator-tableholder");
    headers.addEventListener("focusin", function () {
      requestAnimationFrame(function () { holder.scrollLeft = headers.scrollLeft; });
    });
  }

  function build() {
    const summary = document.getElementById("summary");
    summary.textContent = data.summary;
    overview.setAttribute("aria-label", words.overview);
    document.getElementById("search-label").textContent = words.search;
    compare.textContent = words.compare_two;
    choose();
    const rows = runs.map(function (run, index) { return Object.assign({ index: index, printed: run.printed }, run.row); });
    const grid = new Tabulator("#table", {
      data: rows, columns: columns(), index: "index", layout: "fitDataStretch", placeholder: words.nothing,
      height: rows.length > 15 ? "60vh" : false, columnDefaults: { resizable: true },
    });
    const fields = data.columns.filter(function (one) { return one.kind !== "number"; }).map(function (one) { return one.field; });
    document.getElementById("search").addEventListener("input", function (event) {
      const wanted = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      grid.setFilter(function (line) {
        const text = fields.map(function (field) { return line[field]; }).join(" ").toLowerCase();
        return wanted.every(function (word) { return text.includes(word); });
      });
    });
    grid.on("dataFiltered", function (filters, left) {
      summary.textContent = left.length === runs.length ? data.summary : filled(words.shown, { shown: left.length, all: runs.length });
    });
    compare.addEventListener("click", function () { const two = Array.from(chosen); showTwo(two[0], two[1]); });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
    let waiting = 0;
    window.addEventListener("resize", function () { clearTimeout(waiting); waiting = setTimeout(drawCharts, 200); });
    grid.on("tableBuilt", function () { following(); document.body.dataset.ready = "yes"; });
    printing(grid);
    if (runs.length === 1) { overview.hidden = true; show(0); }
  }

  build();
})();
