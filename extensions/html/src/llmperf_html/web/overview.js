"use strict";
// The table of all runs: sorted, searched, on paper.
llmperf.overview = (function () {
  const data = llmperf.data, words = llmperf.words, runs = llmperf.runs, make = llmperf.make, table = llmperf.table;
  const cellText = llmperf.cellText, filled = llmperf.filled, small = llmperf.small;
  const compare = document.getElementById("compare"), hint = document.getElementById("hint"), search = document.getElementById("search");
  const chosen = new Set();
  let grid = null, changed = function () {};

  function bad(column, line) { return column.field === "status" && /^(failed|aborted|invalid|imported: wrong)/.test(line.status) ? "error" : ""; }

  function formatter(column) {
    return function (cell) {
      const line = cell.getData(), text = cellText(column, line);
      const node = make(column.field === "model" ? "a" : "span", null, "text " + bad(column, line));
      text.split(/(?<=[_-])/).forEach(function (part, i) { node.append(...(i ? [make("wbr"), part] : [part])); });  // names break at their joints
      if (column.kind !== "number") node.title = text;
      if (column.field !== "model") return node;
      node.classList.add("open");
      node.href = "#" + new URLSearchParams({ run: line.key });
      node.dataset.index = line.index;
      node.setAttribute("aria-label", words.open + " " + text + ", " + line.run);
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

  // Columns for which there are figures; on a phone the figure and the status are next to the model.
  function shownColumns() {
    const known = data.columns.filter(function (column) {
      return !column.rare || runs.some(function (run) { const value = run.row[column.field]; return value && value !== "-"; });
    });
    const first = ["model", "throughput", "status"], place = function (column) { return first.indexOf(column.field) + 1; };
    if (small) known.sort(function (a, b) { return (place(a) || 9) - (place(b) || 9); });
    return known;
  }

  function columns() {
    const list = [{ title: small ? "" : words.compare, formatter: checkbox, width: small ? 34 : 78, frozen: true, headerSort: false, hozAlign: "center", headerWordWrap: true }];
    for (const column of shownColumns()) {
      const number = column.kind === "number", first = column.field === "model";
      list.push({
        title: column.title, field: column.field, sorter: number ? "number" : "string", headerFilter: number || !column.filter ? false : "input",
        headerFilterPlaceholder: words.filter, headerFilterParams: { elementAttributes: { "aria-label": words.filter + ": " + column.title } },
        formatter: formatter(column), hozAlign: number ? "right" : "left", titleFormatter: sorting, headerWordWrap: true,
        minWidth: small ? Math.min(column.width, first ? 110 : 94) : column.width, widthGrow: column.grows ? 3 : 1, frozen: first, variableHeight: !number,
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
      llmperf.charts.draw();
    });
    window.addEventListener("afterprint", function () {
      root.classList.remove("paper");
      place.replaceChildren();
      llmperf.charts.draw();
    });
  }

  // The rows follow where the keyboard takes the headers.
  function following() {
    const headers = document.querySelector(".tabulator-header-contents"), holder = document.querySelector(".tabulator-tableholder");
    headers.addEventListener("focusin", function () {
      requestAnimationFrame(function () { holder.scrollLeft = headers.scrollLeft; });
    });
  }

  // The table's own roles, made whole: a grid holds groups of rows and nothing else.
  function roles() {
    const role = function (selector, value) { for (const node of document.querySelectorAll(selector)) node.setAttribute("role", value); };
    role(".tabulator", "grid");
    role(".tabulator-header, .tabulator-tableholder", "presentation");
    role(".tabulator-header-contents", "rowgroup");
    document.querySelector(".tabulator").setAttribute("aria-label", words.overview);
    document.querySelector(".tabulator-tableholder").removeAttribute("tabindex");  // the links in its rows are reached one by one
  }

  function filter() {
    const fields = data.columns.filter(function (one) { return one.kind !== "number"; }).map(function (one) { return one.field; });
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    grid.setFilter(function (line) {
      const text = fields.map(function (field) { return line.printed[field]; }).join(" ").toLowerCase();
      return wanted.every(function (word) { return text.includes(word); });
    });
  }

  // What the address keeps of the table: the search and the column that it is sorted by.
  function state() {
    const kept = {}, sorted = grid ? grid.getSorters() : [];
    if (search.value) kept.q = search.value;
    if (sorted.length) kept.sort = sorted[0].field + ":" + sorted[0].dir;
    return new URLSearchParams(kept).toString();
  }

  function restore(query) {
    const wanted = query.get("q") || "", sorted = (query.get("sort") || "").split(":");
    if (search.value !== wanted) { search.value = wanted; filter(); }
    const now = grid.getSorters()[0];
    const known = data.columns.some(function (one) { return one.field === sorted[0]; });
    if (known && (!now || now.field !== sorted[0] || now.dir !== sorted[1])) grid.setSort(sorted[0], sorted[1] === "asc" ? "asc" : "desc");
    else if (!sorted[0] && now) { grid.clearSort(); grid.setData(grid.getData()); }
  }

  // `keys` name the runs in the address; `onChange` is called when search or order change, `onCompare` with two keys.
  function build(keys, onChange, onCompare, ready) {
    const summary = document.getElementById("summary"), place = document.getElementById("table");
    summary.textContent = data.summary;
    document.getElementById("overview").setAttribute("aria-label", words.overview);
    document.getElementById("search-label").textContent = words.search;
    search.placeholder = words.search_hint;
    compare.textContent = words.compare_two;
    choose();
    const rows = runs.map(function (run, index) { return Object.assign({ index: index, key: keys[index], printed: run.printed }, run.row); });
    const top = Math.ceil(place.getBoundingClientRect().top + window.scrollY);
    grid = new Tabulator("#table", {
      data: rows, columns: columns(), index: "index", layout: "fitColumns", placeholder: words.nothing,
      maxHeight: rows.length > 6 ? "max(20rem, calc(100vh - " + (top + 16) + "px))" : false, columnDefaults: { resizable: true },
    });
    search.addEventListener("input", filter);
    grid.on("dataFiltered", function (filters, left) {
      summary.textContent = left.length === runs.length ? data.summary : filled(words.shown, { shown: left.length, all: runs.length });
      changed();
    });
    grid.on("dataSorted", function () { changed(); });
    compare.addEventListener("click", function () { const two = Array.from(chosen); onCompare(keys[two[0]], keys[two[1]]); });
    grid.on("tableBuilt", function () { following(); roles(); changed = onChange; ready(); });
    printing(grid);
  }

  return { build: build, state: state, restore: restore };
})();
