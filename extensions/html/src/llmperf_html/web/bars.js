"use strict";
// The ranked bars: another figure to rank by, further entries, one model. The tables themselves are in the HTML.
llmperf.bars = (function () {
  const words = llmperf.words, make = llmperf.make;
  let onChange = function () {};
  let metric = "", model = "";

  function sections() { return Array.from(document.querySelectorAll(".standing")); }

  // Ranks the rows of one table by a figure; unknown ones are last.
  function rank(table, head) {
    const place = Array.from(head.parentNode.children).indexOf(head), up = head.querySelector(".sort").dataset.order === "ascending";
    const value = function (row) {
      const text = row.children[place].dataset.value;
      return text === "" ? Infinity : up ? Number(text) : -Number(text);
    };
    const currency = function (row) { return row.children[place].dataset.currency || ""; };  // costs have a rank within each
    const body = table.tBodies[0], rows = Array.from(body.rows).sort(function (a, b) {
      const x = value(a), y = value(b);
      return currency(a).localeCompare(currency(b)) * (x < Infinity && y < Infinity) || (x === y ? 0 : x - y);
    });
    let before = "", number = 0;
    rows.forEach(function (row, i) {
      const unknown = value(row) === Infinity;
      number = unknown || currency(row) === before ? number + 1 : 1;
      before = unknown ? before : currency(row);
      if (rows.length > 1) row.cells[0].textContent = unknown ? llmperf.UNKNOWN : String(number);
      row.classList.toggle("further", i >= 10);
      body.append(row);
    });
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
  }

  // What the address says: `rank`, `model`, and a value for each filter.
  function restore(query) {
    for (const facet of FACETS) {
      if (selects[facet]) selects[facet].value = Array.from(selects[facet].options).some(function (one) { return one.value === query.get(facet); }) ? query.get(facet) : "";
    }
    show(query.get("rank") || llmperf.data.rank || "", query.get("model") || "");
  }

  // Adds to the address what the reader has chosen.
  function keep(query) {
    if (metric) query.set("rank", metric);
    if (model) query.set("model", model);
    for (const facet of FACETS) if (selects[facet] && selects[facet].value) query.set(facet, selects[facet].value);
    return query;
  }

  function show(wantedMetric, wantedModel) {
    metric = wantedMetric;
    model = llmperf.data.models && llmperf.data.models.includes(wantedModel) ? wantedModel : "";
    for (const section of sections()) {
      section.hidden = Boolean(model) && section.dataset.model !== model;
      const heads = Array.from(section.querySelectorAll("th[data-metric]"));
      const head = heads.find(function (node) { return node.dataset.metric === metric; }) || heads[0];
      if (head && !head.hasAttribute("aria-sort")) rank(section.querySelector("table"), head);
    }
    const choice = document.getElementById("model");
    if (choice) { choice.value = model; draw(); }
  }

  const FACETS = ["vendor", "device", "precision", "verification"];
  const selects = {};
  const MOST = 40;

  function select(name, text, values, changed) {
    const label = make("label", text), choice = make("select");
    choice.id = name;
    choice.append(...values);
    choice.addEventListener("change", changed);
    label.append(choice);
    selects[name] = choice;
    return label;
  }

  // The range of a figure from `low` to `high` percent of its track.
  function whisker(low, high) {
    const range = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    range.setAttribute("class", "whisker");
    for (const [name, x, width] of [["line", low, high - low], ["end", low], ["end", high]]) {
      const part = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      part.setAttribute("class", name);
      part.setAttribute("x", x + "%");
      if (width !== undefined) part.setAttribute("width", width + "%");
      range.append(part);
    }
    return range;
  }

  // One chart across devices and contracts: the rows of the tables of one model that fit the filters, by one figure.
  function draw() {
    const place = document.getElementById("chart"), all = sections();
    if (!place || !all.length) return;
    const name = model || all[0].dataset.model, own = all.filter(function (section) { return section.dataset.model === name; }), rows = [];
    const titles = new Map();
    for (const section of own) for (const head of section.querySelectorAll("th[data-metric]")) titles.set(head.dataset.metric, head);
    const options = Array.from(titles).map(function (pair) { return new Option(pair[1].textContent, pair[0]); });
    const key = titles.has(metric) ? metric : titles.keys().next().value, head = titles.get(key);
    selects.figure.replaceChildren(...options);
    selects.figure.value = key;
    for (const row of document.querySelectorAll(".standing .bars tbody tr")) {
      row.hidden = !FACETS.every(function (facet) { return !selects[facet].value || row.dataset[facet] === selects[facet].value; });
    }
    for (const section of own) {
      const column = section.querySelector('th[data-metric="' + key + '"]');
      for (const row of section.querySelectorAll(".bars tbody tr")) {
        const cell = column && row.cells[column.cellIndex];
        if (!row.hidden && cell && cell.dataset.value !== "") rows.push({ row: row, cell: cell, value: Number(cell.dataset.value), contract: own.length > 1 ? section.querySelector(".contract").textContent : "" });
      }
    }
    const up = head.querySelector(".sort").dataset.order === "ascending", sound = rows.filter(function (one) { return !one.row.querySelector(".verdict.errors"); });
    const wrong = rows.length - sound.length;
    rows.splice(0, rows.length, ...sound);  // a row that is wrong is in its table alone
    const most = Math.max(...rows.map(function (one) { return Number(one.cell.dataset.high || one.value); }));
    rows.sort(function (a, b) { return (a.cell.dataset.currency || "").localeCompare(b.cell.dataset.currency || "") || (up ? a.value - b.value : b.value - a.value); });
    // The best row of each device; the rows of a single device all, and the tables have the rest.
    const devices = new Set(rows.map(function (one) { return one.row.dataset.device; })), seen = new Set(), list = make("ol");
    if (devices.size > 1) rows.splice(0, rows.length, ...rows.filter(function (one) { const key = one.row.dataset.device + one.contract; return !seen.has(key) && seen.add(key); }));
    for (const one of rows.slice(0, MOST)) {
      const item = make("li"), label = make("div"), track = make("span", null, "track"), bar = one.cell.querySelector(".bar");
      label.append(...Array.from(one.row.querySelector("th").childNodes, function (node) { return node.cloneNode(true); }));
      if (one.contract) label.append(make("span", one.contract, "how"));
      track.setAttribute("aria-hidden", "true");
      if (rows.length > 1) {
        const drawn = document.createElementNS("http://www.w3.org/2000/svg", "svg");
        drawn.setAttribute("class", bar ? bar.getAttribute("class") : one.cell.dataset.look);
        drawn.setAttribute("width", Math.min(100, 100 * one.value / most) + "%");
        track.append(drawn);
        if (one.cell.dataset.high) track.append(whisker(100 * one.cell.dataset.low / most, 100 * one.cell.dataset.high / most));
      } else track.classList.remove("track");
      item.append(label, track, make("span", one.cell.querySelector(".value").textContent, "value"));
      list.append(item);
    }
    const title = make("h2", name + ": " + head.textContent);
    if (!model && llmperf.data.models.length > 1) title.append(make("span", llmperf.filled(words.one_of_models, { count: llmperf.data.models.length }), "contract"));
    place.replaceChildren(title, rows.length ? list : make("p", wrong ? words.all_wrong : words.nothing, "note"));
  }

  function chooser(models) {
    const label = make("label", words.model_choice + " "), choice = make("select");
    choice.id = "model";
    choice.append(new Option(words.all_models, ""));
    for (const name of models) choice.append(new Option(name, name));
    choice.addEventListener("change", function () { show(metric, choice.value); onChange(); });
    label.append(choice);
    return label;
  }

  // `changed` is called when the reader ranks by another figure or chooses a model.
  function build(changed) {
    onChange = changed || onChange;
    const place = document.getElementById("choices"), models = llmperf.data.models || Array.from(new Set(sections().map(function (section) { return section.dataset.model; })));
    llmperf.data.models = models;
    if (place && sections().length) {
      place.append(chooser(models), select("figure", words.figure_choice + " ", [], function () { show(selects.figure.value, model); onChange(); }));
      for (const facet of FACETS) {
        const found = new Set(Array.from(document.querySelectorAll(".standing .bars tbody tr"), function (row) { return row.dataset[facet]; }));
        const label = select(facet, words["choice_" + facet] + " ", [new Option(words.any, ""), ...Array.from(found).sort().map(function (text) { return new Option(text, text); })], function () { draw(); onChange(); });
        if (found.size > 1) place.append(label);
      }
    }
    for (const section of sections()) {
      llmperf.localise(section);
      for (const head of section.querySelectorAll("th[data-metric]")) {
        head.querySelector(".sort").addEventListener("click", function () { show(head.dataset.metric, model); onChange(); });
      }
      const more = section.querySelector(".more");
      if (more) more.addEventListener("click", function () { fold(section, more); });
    }
  }

  function fold(section, more) {
    const all = section.classList.toggle("all"), count = section.querySelector("table").tBodies[0].rows.length;
    more.setAttribute("aria-expanded", String(all));
    more.textContent = llmperf.filled(all ? words.show_fewer : words.show_all, { count: all ? 10 : count });
  }

  return { build: build, restore: restore, keep: keep, model: function () { return model; } };
})();
