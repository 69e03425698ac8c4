"use strict";
// Everything in the data is foreign text: it reaches the page as text nodes only.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const words = data.words, runs = data.runs, chosen = new Set();
  const detail = document.getElementById("detail"), compare = document.getElementById("compare");
  let charts = [], redraw = function () {};

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

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  function axis(label) {
    const line = { stroke: colour("--line"), width: 1 };
    return { label: label, stroke: colour("--soft"), grid: line, ticks: line, size: 64, labelSize: 18 };
  }

  // One chart: curves of {name, x, low, middle, high, stroke}; a band is drawn where low and high are there.
  function chart(place, title, xLabel, yLabel, curves) {
    curves = curves.filter(function (one) { return one.x.length > 0; });
    if (!curves.length) return;
    const box = make("div", null, "chart");
    place.append(box);
    const tables = [], series = [{ label: xLabel }], bands = [];
    for (const one of curves) {
      const banded = one.low && one.low.some(function (value, i) { return value !== one.high[i]; });
      const stroke = colour(one.stroke), at = series.length;
      tables.push(banded ? [one.x, one.middle, one.low, one.high] : [one.x, one.middle]);
      series.push({ label: one.name, stroke: stroke, width: 1.6, spanGaps: true, points: { show: one.x.length < 40, size: 5 } });
      if (banded) {
        series.push({ label: one.name + " p5", class: "band", stroke: "transparent", spanGaps: true, points: { show: false } });
        series.push({ label: one.name + " p95", class: "band", stroke: "transparent", spanGaps: true, points: { show: false } });
        bands.push({ series: [at + 2, at + 1], fill: stroke + "33" });
      }
    }
    const options = {
      title: title, width: Math.max(260, box.clientWidth - 18), height: 260, series: series, bands: bands,
      scales: { x: { time: false } }, axes: [axis(xLabel), axis(yLabel)], cursor: { drag: { x: true, y: false } },
    };
    charts.push(new uPlot(options, tables.length > 1 ? uPlot.join(tables) : tables[0], box));
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", title);
  }

  function clear() {
    for (const one of charts) one.destroy();
    charts = [];
    detail.replaceChildren();
    detail.hidden = false;
  }

  function curvesOf(list, key, scale) {
    const strokes = ["--one", "--two"];
    return list.map(function (run, i) {
      const found = (run.curves && run.curves[key]) || { x: [], middle: [] };
      const scaled = function (values) { return values && values.map(function (v) { return v === null ? null : v * scale; }); };
      return { name: list.length > 1 ? (i ? "B" : "A") : words[key], x: found.x, stroke: strokes[i % 2],
               low: scaled(found.low), middle: scaled(found.middle), high: scaled(found.high) };
    });
  }

  function allCharts(list) {
    const place = make("div", null, "charts");
    detail.append(place);
    chart(place, words.loss, words.step, words.nats, curvesOf(list, "loss", 1));
    chart(place, words.step_seconds, words.step, "s", curvesOf(list, "step_seconds", 1));
    chart(place, words.memory_bytes, "s", "GiB", curvesOf(list, "memory_bytes", 1 / 1073741824));
    chart(place, words.power_watts, "s", "W", curvesOf(list, "power_watts", 1));
    chart(place, words.utilisation_percent, "s", "%", curvesOf(list, "utilisation_percent", 1));
    if (!place.children.length) place.append(make("p", words.no_curves));
  }

  function show(index) {
    const run = runs[index];
    redraw = function () {
      clear();
      detail.append(make("h2", run.row.run + (run.row.status === "complete" ? "" : " (" + run.row.status + ")")));
      allCharts([run]);
      for (const part of run.sections) {
        detail.append(make("h3", part.title), table(part.headers, part.rows));
      }
      detail.append(make("h3", words.findings));
      if (!run.findings.length) detail.append(make("p", words.no_findings));
      for (const one of run.findings) detail.append(make("p", one.text, one.severity));
    };
    redraw();
    detail.focus({ preventScroll: runs.length === 1 });
    if (runs.length > 1) detail.scrollIntoView({ block: "start" });
  }

  function shown(value) { return value === null || value === undefined ? "-" : typeof value === "number" ? value.toPrecision(5) : value; }

  function showTwo(one, other) {
    const a = runs[one], b = runs[other];
    redraw = function () {
      clear();
      detail.append(make("h2", "A: " + a.row.run), make("h2", "B: " + b.row.run));
      if (a.contract !== b.contract) detail.append(make("p", words.contracts_differ, "warning"));
      const rows = data.figures.map(function (figure) {
        const x = a.row[figure.field], y = b.row[figure.field];
        const ratio = typeof x === "number" && typeof y === "number" && y !== 0 ? (x / y).toFixed(4) : "-";
        return [figure.title, shown(x), shown(y), ratio];
      });
      detail.append(table([words.figure, "A", "B", "A / B"], rows));
      allCharts([a, b]);
    };
    redraw();
    detail.focus({ preventScroll: true });
    detail.scrollIntoView({ block: "start" });
  }

  function button(cell) {
    const node = make("button", words.open);
    node.type = "button";
    node.addEventListener("click", function (event) { event.stopPropagation(); show(cell.getData().index); });
    return node;
  }

  function checkbox(cell) {
    const node = make("input"), index = cell.getData().index;
    node.type = "checkbox";
    node.checked = chosen.has(index);
    node.setAttribute("aria-label", words.compare + " " + cell.getData().run);
    node.addEventListener("change", function () {
      if (node.checked) chosen.add(index); else chosen.delete(index);
      compare.disabled = chosen.size !== 2;
    });
    return node;
  }

  function plain(cell) { return make("span", cell.getValue() === null ? "-" : cell.getValue()); }

  function figure(digits) {
    return function (cell) {
      const value = cell.getValue();
      const text = value === null ? "-" : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
      return make("span", text);
    };
  }

  function columns() {
    const tools = { headerSort: false, hozAlign: "center", print: false };
    const list = [
      Object.assign({ title: "", formatter: button, width: 84 }, tools),
      Object.assign({ title: words.compare, formatter: checkbox, width: 96 }, tools),
    ];
    for (const column of data.columns) {
      const number = column.kind === "number";
      list.push({
        title: column.title, field: column.field, sorter: number ? "number" : "string", headerFilter: number ? false : "input",
        formatter: number ? figure(column.digits) : plain, hozAlign: number ? "right" : "left", minWidth: 80,
        sorterParams: { alignEmptyValues: "bottom" }, tooltip: false, headerTooltip: false,
      });
    }
    return list;
  }

  function build() {
    document.getElementById("summary").textContent = data.summary;
    document.getElementById("search-label").textContent = words.search;
    compare.textContent = words.compare_two;
    const rows = runs.map(function (run, index) { return Object.assign({ index: index }, run.row); });
    const grid = new Tabulator("#table", {
      data: rows, columns: columns(), index: "index", layout: "fitDataStretch", placeholder: words.nothing,
      height: rows.length > 15 ? "60vh" : false, printAsHtml: true, printRowRange: "active", columnDefaults: { resizable: true },
    });
    const fields = data.columns.filter(function (one) { return one.kind !== "number"; }).map(function (one) { return one.field; });
    document.getElementById("search").addEventListener("input", function (event) {
      const wanted = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      grid.setFilter(function (line) {
        const text = fields.map(function (field) { return line[field]; }).join(" ").toLowerCase();
        return wanted.every(function (word) { return text.includes(word); });
      });
    });
    compare.addEventListener("click", function () { const two = Array.from(chosen); showTwo(two[0], two[1]); });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { redraw(); });
    let waiting = 0;
    window.addEventListener("resize", function () { clearTimeout(waiting); waiting = setTimeout(function () { redraw(); }, 200); });
    grid.on("tableBuilt", function () { document.body.dataset.ready = "yes"; });
    if (runs.length === 1) { document.getElementById("overview").hidden = true; show(0); }
  }

  build();
})();
