"use strict";
// A table of runs: searched, sorted, in pages, repeats together, with the columns that the reader chooses.
llmperf.runsTable = (function () {
  const data = llmperf.data, words = llmperf.words, runs = data.runs, groups = data.groups, make = llmperf.make, formatted = llmperf.formatted;
  const PAGE = 100, MODEL = "model", ON_PAPER = 2000;
  const LEAVE_OUT = ["run", "case", "fix_hp", "layout", "memory", "train_hours", "train_days", "loss", "joules", "train_cost", "cost", "mfu", "device"];  // in this order, where the screen is narrow
  const columns = data.columns, names = columns.map(function (column) { return column.field; });
  const initial = { q: "", sort: "", page: 1, cols: null, each: false, open: new Set(), model: "" };
  let state = Object.assign({}, initial, { open: new Set() }), parts = {}, chosen = new Set(), changed = function () {}, chose = function () {};
  let hiddenForWidth = new Set(), searched = null, paper = false;

  function cell(run, place) {
    if (run.printed[place] !== null) return run.printed[place];
    return formatted(run.row[place], columns[place].rounding);
  }

  function known(place) { return ["model", "throughput", "status", "run"].includes(columns[place].field) || runs.some(function (run) { return run.row[place] !== null; }); }

  function shownColumns() {
    return columns.map(function (column, place) { return place; }).filter(function (place) {
      const field = names[place];
      if (field === MODEL) return true;
      if (state.cols) return state.cols.includes(field);
      return columns[place].chosen && known(place) && !hiddenForWidth.has(field);
    });
  }

  function textOf(index) {
    if (!searched) searched = [];
    if (searched[index] === undefined) searched[index] = columns.map(function (column, place) { return column.rounding ? "" : runs[index].row[place] || ""; }).join(" ").toLowerCase();
    return searched[index];
  }

  function fits() {
    const wanted = state.q.toLowerCase().split(/\s+/).filter(Boolean), place = names.indexOf(MODEL), found = [];
    runs.forEach(function (run, index) {
      if (state.model && run.row[place] !== state.model) return;
      if (!wanted.length || wanted.every(function (word) { return textOf(index).includes(word); })) found.push(index);
    });
    return found;
  }

  // Rows of the table: a run, or repeats of one with those of its runs that the search leaves.
  function items(found) {
    const seen = new Map(), list = [];
    for (const index of found) {
      const number = runs[index].group;
      if (state.each || number === undefined) list.push({ run: index, first: index });
      else if (seen.has(number)) seen.get(number).left.push(index);
      else { seen.set(number, { group: number, left: [index], first: index }); list.push(seen.get(number)); }
    }
    const [field, direction] = state.sort.split(":"), at = names.indexOf(field);
    if (at < 0) return list;
    const up = direction === "asc" ? 1 : -1, values = new Map(list.map(function (item) { return [item, value(item, at)]; }));
    return list.sort(function (a, b) {
      const x = values.get(a), y = values.get(b), currencies = currency(a, at).localeCompare(currency(b, at));
      if (currencies && x !== null && y !== null) return currencies;
      if (x === null || y === null) return x === y ? a.first - b.first : x === null ? 1 : -1;
      return (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y))) * up || a.first - b.first;
    });
  }

  function value(item, place) {
    if (item.run !== undefined) return runs[item.run].row[place];
    const figure = groups[item.group].figures[names[place]];
    return figure ? figure[0] : runs[item.first].row[place];
  }

  // The currency of a cost, such as USD; empty for other figures. Amounts in different currencies are not ordered.
  function currency(item, place) {
    return columns[place].cost ? (runs[item.first].printed[place] || "").replace(/^[^A-Z]+/, "") : "";
  }

  function joints(text) {
    const node = make("span", null, "text");
    String(text).split(/(?<=[_\/-])/).forEach(function (part, i) { node.append(...(i ? [make("wbr"), part] : [part])); });
    node.title = text;
    return node;
  }

  function checkbox(key, label) {
    const node = make("input");
    node.type = "checkbox";
    node.checked = chosen.has(key);
    node.setAttribute("aria-label", words.compare + " " + label);
    node.addEventListener("change", function () {
      if (node.checked) chosen.add(key); else chosen.delete(key);
      chose(Array.from(chosen));
      changed();
    });
    return node;
  }

  function runRow(index, places, within) {
    const run = runs[index], row = make("tr", null, within ? "repeat" : ""), head = llmperf.scoped(make("th"), "row"), link = make("a", null, "open");
    link.href = "#" + new URLSearchParams({ run: run.key });
    link.append(joints(within ? run.key : cell(run, names.indexOf(MODEL))));
    link.dataset.index = index;
    link.setAttribute("aria-label", words.open + " " + link.textContent + (within ? "" : ", " + run.key));
    head.append(llmperf.boxed("name", checkbox(run.key, run.key), link));
    row.append(head);
    for (const place of places.slice(1)) {
      const node = make("td", null, columns[place].rounding ? "number" : ""), text = cell(run, place);
      node.dataset.field = names[place];
      node.append(columns[place].rounding ? text : joints(text));
      if (columns[place].rounding && run.printed[place] !== null) node.classList.add("printed");
      if (names[place] === "status" && run.bad) node.classList.add("error");
      row.append(node);
    }
    return row;
  }

  function shared(members, place) {
    const texts = new Map();
    for (const index of members) { const text = cell(runs[index], place); texts.set(text, (texts.get(text) || 0) + 1); }
    if (texts.size === 1) return Array.from(texts.keys())[0];
    return texts.size > 4 ? "..." : Array.from(texts).map(function (pair) { return pair[1] + " " + pair[0]; }).join("; ");
  }

  // The median of a figure that comes without one, with the unit of its runs.
  function middle(group, place) {
    const known = group.runs.filter(function (index) { return runs[index].row[place] !== null; });
    const values = known.map(function (index) { return runs[index].row[place]; }).sort(function (a, b) { return a - b; });
    if (!values.length) return llmperf.UNKNOWN;
    const half = values.length >> 1, median = values.length % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
    const unit = (runs[known[0]].printed[place] || "").replace(/^[-+.,\de]+/, "");
    return formatted(median, columns[place].rounding) + unit;
  }

  function groupRow(item, places) {
    const group = groups[item.group], first = runs[group.runs[0]], row = make("tr", null, "group"), head = llmperf.scoped(make("th"), "row");
    const name = cell(first, names.indexOf(MODEL)), open = state.open.has(item.group), whole = item.left.length === group.runs.length;
    const count = llmperf.filled(whole ? words.runs_of : words.some_runs_of, { some: item.left.length, runs: group.runs.length });
    const expander = llmperf.button(open ? "\u25be" : "\u25b8", "expand", function () {
      if (open) state.open.delete(item.group); else state.open.add(item.group);
      draw();
      const again = parts.body.querySelector('[data-group="' + item.group + '"]');
      if (again) again.focus();
    });
    expander.dataset.group = item.group;
    expander.setAttribute("aria-expanded", String(open));
    expander.setAttribute("aria-label", llmperf.filled(words.expand, { name: name + ", " + cell(first, names.indexOf("layout")) }));
    const label = make("span");
    label.append(joints(name), make("span", " " + count, "count"));
    head.append(llmperf.boxed("name", checkbox("all:" + first.key, name + " " + cell(first, names.indexOf("layout")) + ", " + count), expander, label));
    row.append(head);
    for (const place of places.slice(1)) {
      const column = columns[place], figure = group.figures[names[place]], node = make("td", null, column.rounding ? "number" : "");
      node.dataset.field = names[place];
      if (figure) {
        node.append(figure[4] || formatted(figure[0], column.rounding));
        const low = formatted(figure[1], column.rounding), high = formatted(figure[2], column.rounding);
        if (figure[1] !== null && low !== high) node.append(make("span", low + " \u2013 " + high, "range"));
      } else node.append(names[place] === "run" ? count : column.rounding ? middle(group, place) : joints(shared(item.left, place)));
      if (names[place] === "status" && group.runs.some(function (index) { return runs[index].bad; })) node.classList.add("error");
      row.append(node);
    }
    const rows = [row];
    if (open) for (const index of item.left) rows.push(runRow(index, places, true));
    return rows;
  }

  function drawHead(places) {
    const line = make("tr"), [field, direction] = state.sort.split(":");
    for (const place of places) {
      const column = columns[place], head = llmperf.scoped(make("th", null, column.rounding ? "number" : ""), "col");
      head.dataset.field = names[place];
      const sort = llmperf.button(column.title, "sort", function () {
        const now = state.sort.split(":"), first = column.rounding && !column.less_is_better ? "desc" : "asc", second = first === "asc" ? "desc" : "asc";
        update({ sort: now[0] !== names[place] ? names[place] + ":" + first : now[1] === first ? names[place] + ":" + second : "", page: 1 });
        const again = parts.head.querySelector('[data-field="' + names[place] + '"] .sort');
        if (again) again.focus();
      });
      head.append(sort);
      if (field === names[place]) head.setAttribute("aria-sort", direction === "asc" ? "ascending" : "descending");
      line.append(head);
    }
    parts.head.replaceChildren(line);
  }

  function drawRows(places) {
    const found = fits(), list = items(found), size = paper ? ON_PAPER : PAGE, pages = Math.max(1, Math.ceil(list.length / size));
    state.page = Math.min(Math.max(1, state.page), pages);
    const from = paper ? 0 : (state.page - 1) * size, left = list.slice(from, from + size), body = document.createDocumentFragment();
    for (const item of left) body.append(...(item.run === undefined ? groupRow(item, places) : [runRow(item.run, places, false)]));
    if (!left.length) {
      const node = make("td", words.nothing);
      node.colSpan = places.length;
      body.append(make("tr"));
      body.firstChild.append(node);
    }
    parts.body.replaceChildren(body);
    parts.count.textContent = found.length === runs.length ? data.summary : llmperf.filled(words.shown, { shown: found.length, all: runs.length });
    parts.pages.hidden = pages === 1;
    parts.where.textContent = llmperf.filled(words.page, { first: from + 1, last: from + left.length, all: list.length });
    parts.previous.disabled = state.page === 1;
    parts.next.disabled = state.page === pages;
  }

  function draw() {
    const places = shownColumns();
    drawHead(places);
    drawRows(places);
    if (llmperf.columnChoice) llmperf.columnChoice.show(places.map(function (place) { return names[place]; }));
    changed();
  }

  // Leaves columns out until the table is as wide as the screen, unless the reader chose the columns.
  function fit() {
    hiddenForWidth = new Set();
    draw();
    for (const field of state.cols ? [] : LEAVE_OUT) {
      if (parts.place.scrollWidth <= parts.place.clientWidth) break;
      hiddenForWidth.add(field);
      draw();
    }
  }

  function update(values) {
    const other = "cols" in values;
    Object.assign(state, values);
    if (other) fit(); else draw();
  }

  // Makes the table; `options.changed` is called when what it shows changes, `options.chose` with the chosen keys.
  function build(place, options) {
    const table = make("table", null, "runs");
    table.append(make("caption", words.overview, "hidden"));
    parts = { head: make("thead"), body: make("tbody"), count: options.count, pages: make("nav", null, "pages"), where: make("span"), place: llmperf.scrolling(table, words.overview) };
    parts.place.classList.add("tall");
    table.append(parts.head, parts.body);
    const turn = function (by) { return function () { update({ page: state.page + by }); parts.place.scrollTop = 0; }; };
    parts.previous = llmperf.button(words.previous, "", turn(-1));
    parts.next = llmperf.button(words.next, "", turn(1));
    parts.pages.setAttribute("aria-label", words.pages);
    parts.pages.append(parts.previous, parts.where, parts.next);
    place.replaceChildren(parts.place, parts.pages);
    window.addEventListener("beforeprint", function () { paper = true; draw(); });
    window.addEventListener("afterprint", function () { paper = false; draw(); });
    fit();
    changed = options.changed;
    chose = options.chose;
  }

  // What the address keeps of the table.
  function kept() {
    const query = new URLSearchParams();
    for (const name of ["q", "sort", "model"]) if (state[name]) query.set(name, state[name]);
    if (state.page > 1) query.set("page", state.page);
    if (state.cols) query.set("cols", state.cols.join(","));
    if (state.each) query.set("each", "1");
    if (state.open.size) query.set("open", Array.from(state.open).join(","));
    for (const key of chosen) query.append("pick", key);
    return query;
  }

  function restore(query) {
    const cols = query.get("cols"), listed = function (name) { return (query.get(name) || "").split(",").filter(Boolean); };
    const keys = new Set(runs.map(function (run) { return run.key; }));
    chosen = new Set(query.getAll("pick").filter(function (key) { return keys.has(key.replace(/^all:/, "")); }));
    chose(Array.from(chosen));
    update({
      q: query.get("q") || "", sort: query.get("sort") || "", page: Number(query.get("page")) || 1, each: query.get("each") === "1",
      model: data.models.includes(query.get("model")) ? query.get("model") : "",
      open: new Set(listed("open").map(Number)), cols: cols === null ? null : listed("cols").filter(function (field) { return names.includes(field); }),
    });
  }

  return { build: build, update: update, fit: fit, kept: kept, restore: restore, state: function () { return state; } };
})();
