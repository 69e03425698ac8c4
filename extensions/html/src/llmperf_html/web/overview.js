"use strict";
// What is around the table of runs: search, columns, repeats, the choice of runs to compare.
llmperf.overview = (function () {
  const data = llmperf.data, words = llmperf.words, make = llmperf.make, table = llmperf.runsTable;
  const search = make("input"), each = make("input"), compare = make("button", null, "primary"), hint = make("span", null, "hint");

  function labelled(text, input, after) {
    const label = make("label");
    label.append(...(after ? [input, " " + text] : [text + " ", input]));
    return label;
  }

  function columnChoice() {
    const node = make("details", null, "columns"), field = make("fieldset"), boxes = new Map();
    node.append(make("summary", words.columns), field);
    field.append(make("legend", words.columns, "hidden"));
    for (const column of data.columns) {
      const box = make("input");
      box.type = "checkbox";
      box.disabled = column.field === "model";
      box.addEventListener("change", function () {
        table.update({ cols: data.columns.map(function (one) { return one.field; }).filter(function (name) { return boxes.get(name).checked; }) });
      });
      boxes.set(column.field, box);
      field.append(labelled(column.title, box, true));
    }
    node.addEventListener("keydown", function (event) { if (event.key === "Escape") { node.open = false; node.firstChild.focus(); } });
    llmperf.columnChoice = { show: function (shown) { for (const [name, box] of boxes) box.checked = shown.includes(name); } };
    return node;
  }

  function chose(keys) {
    const most = data.most_sides;
    compare.disabled = keys.length < 2 || keys.length > most;
    compare.textContent = llmperf.filled(words.compare_chosen, { chosen: keys.length });
    hint.textContent = keys.length > most ? llmperf.filled(words.too_many, { chosen: keys.length, most: most }) : keys.length < 2 ? llmperf.filled(words.choose_more, { most: most }) : "";
    compare.onclick = function () { location.hash = new URLSearchParams(keys.map(function (key) { return ["side", key]; })).toString(); };
  }

  // `changed` is called when what the overview shows changes.
  function build(changed) {
    const place = document.getElementById("table"), tools = make("div", null, "tools"), shown = document.getElementById("summary");
    search.type = "search";
    search.id = "search";
    search.autocomplete = "off";
    search.placeholder = words.search_hint;
    each.type = "checkbox";
    each.id = "group";
    compare.type = "button";
    compare.id = "compare";
    hint.id = "hint";
    shown.setAttribute("role", "status");
    hint.setAttribute("role", "status");
    tools.append(labelled(words.search, search));
    if (data.groups.length) tools.append(labelled(words.group, each, true));
    tools.append(columnChoice(), compare, hint);
    place.before(tools);
    search.addEventListener("input", function () { table.update({ q: search.value, page: 1 }); });
    each.addEventListener("change", function () { table.update({ each: !each.checked, page: 1 }); });
    chose([]);
    llmperf.bars.build(function () { table.update({ model: llmperf.bars.model(), page: 1 }); });
    table.build(place, { count: shown, changed: changed, chose: chose });
    restore(new URLSearchParams(""));
  }

  function state() {
    return llmperf.bars.keep(table.kept()).toString();
  }

  function restore(query) {
    search.value = query.get("q") || "";
    each.checked = query.get("each") !== "1";
    llmperf.bars.restore(query);
    table.restore(query);
  }

  return { build: build, state: state, restore: restore };
})();
