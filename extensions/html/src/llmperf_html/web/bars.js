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
      row.cells[0].textContent = unknown ? llmperf.UNKNOWN : String(number);
      row.classList.toggle("further", i >= 10);
      body.append(row);
    });
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
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
    if (choice) choice.value = model;
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
    const place = document.getElementById("choices"), models = llmperf.data.models || [];
    if (place && models.length > 1) place.append(chooser(models));
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

  return { build: build, show: show, state: function () { return { metric: metric, model: model }; } };
})();
