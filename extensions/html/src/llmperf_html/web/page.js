"use strict";
// One run, or two side by side; the address says which, so that it can be kept, sent on and gone back from.
(function () {
  const data = llmperf.data, words = llmperf.words, runs = llmperf.runs, make = llmperf.make, table = llmperf.table, named = llmperf.charts.named;
  const detail = document.getElementById("detail"), overview = document.getElementById("overview"), heading = document.title;
  const keys = keysOf();
  let opener = "#search", shown = "", within = false;

  // What each run is called in the address: its identity, with a number where several have the same.
  function keysOf() {
    const times = new Map();
    return runs.map(function (run) {
      const count = (times.get(run.row.run) || 0) + 1;
      times.set(run.row.run, count);
      return count === 1 ? run.row.run : run.row.run + "~" + count;
    });
  }

  function focusOpener() { (document.querySelector(opener) || document.getElementById("search")).focus({ preventScroll: true }); }

  // The way back: to where the reader came from, else to the table.
  function back() {
    if (within) history.back();
    else location.hash = llmperf.overview.state();
  }

  function leave() {
    llmperf.charts.clear();
    detail.replaceChildren();
    detail.hidden = true;
    document.title = heading;
    overview.scrollIntoView({ block: "start" });
    focusOpener();
    // The table may draw its rows anew when the page gets shorter, and the focus is gone with them.
    setTimeout(function () { if (document.activeElement === document.body) focusOpener(); }, 250);
  }

  // An empty place for details; `from` is where the way back leads.
  function clear(from, title) {
    llmperf.charts.clear();
    opener = from;
    detail.replaceChildren();
    detail.hidden = false;
    if (runs.length === 1) return;
    document.title = title + " - " + heading;
    const leaving = make("button", words.back, "back");
    leaving.type = "button";
    leaving.addEventListener("click", back);
    detail.append(leaving);
  }

  function subject(run) { return [run.printed.model, run.printed.device, run.printed.layout].join(" \u00b7 "); }

  function show(index) {
    const run = runs[index];
    clear('.open[data-index="' + index + '"]', run.row.run);
    detail.append(make("h2", run.row.run + (run.complete ? "" : " (" + run.printed.status + ")")));
    detail.append(make("p", subject(run), "subject"));
    llmperf.charts.all(detail, [run]);
    detail.append(make("h3", words.findings));
    if (!run.findings.length) detail.append(make("p", words.no_findings));
    for (const one of run.findings.map(function (index) { return data.findings[index]; })) detail.append(make("p", one.text, one.severity));
    for (const part of llmperf.sections(run)) {
      detail.append(make(part.level === 3 ? "h4" : "h3", part.title));
      if (part.rows.length) detail.append(table(part.headers, part.rows));
    }
    detail.focus({ preventScroll: runs.length === 1 });
    if (runs.length > 1) detail.scrollIntoView({ block: "start" });
  }

  function imported(run) { return !run.measured; }
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
    const ended = [a, b].filter(function (run) { return !run.complete; });
    said(words.contracts_differ, contract.differ, "warning");
    said(words.not_complete, ended.map(function (run) { return run.row.run + " (" + run.printed.status + ")"; }), "warning");
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
    clear("#compare", "A: " + a.row.run + ", B: " + b.row.run);
    [a, b].forEach(function (run, i) { detail.append(make("h2", (i ? "B: " : "A: ") + run.row.run), make("p", subject(run), "subject")); });
    const divided = comparable(a, b);
    if (divided && (imported(a) || imported(b))) detail.append(make("p", words.memory_unlike));
    const rows = data.figures.map(function (figure, i) {
      return [figure.title, a.figures[i][1], b.figures[i][1]].concat(divided ? [ratio(a, b, i)] : []);
    }).filter(function (cells) { return cells[1] !== "-" || cells[2] !== "-"; });
    detail.append(table([words.figure, "A", "B"].concat(divided ? ["A / B"] : []), rows));
    llmperf.charts.all(detail, [a, b]);
    detail.focus({ preventScroll: true });
    detail.scrollIntoView({ block: "start" });
  }

  // Shows what the address says.
  function follow() {
    const query = new URLSearchParams(location.hash.slice(1));
    const one = keys.indexOf(query.get("run")), a = keys.indexOf(query.get("a")), b = keys.indexOf(query.get("b"));
    const wanted = one >= 0 ? "run " + one : a >= 0 && b >= 0 ? "two " + a + " " + b : "";
    if (wanted === shown) { if (!wanted) llmperf.overview.restore(query); return; }
    within = shown === "" && wanted !== "" && document.body.dataset.ready === "yes";
    shown = wanted;
    if (one >= 0) show(one);
    else if (wanted) showTwo(a, b);
    else { leave(); llmperf.overview.restore(query); }
  }

  // The search and the order of the table, in the address without a step of their own.
  function keep() {
    if (shown) return;
    const state = llmperf.overview.state();
    if (state !== location.hash.slice(1)) history.replaceState(null, "", state ? "#" + state : location.pathname + location.search);
  }

  function build() {
    document.getElementById("made").textContent = data.made;
    const skip = document.getElementById("skip");
    skip.textContent = words.skip;
    skip.addEventListener("click", function (event) {
      event.preventDefault();
      (document.querySelector("#table .open") || document.getElementById("search")).focus();
    });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", llmperf.charts.draw);
    let waiting = 0;
    window.addEventListener("resize", function () { clearTimeout(waiting); waiting = setTimeout(llmperf.charts.draw, 200); });
    if (runs.length === 1) { overview.hidden = true; }
    llmperf.overview.build(keys, keep, function (a, b) { location.hash = new URLSearchParams({ a: a, b: b }).toString(); }, function () {
      if (runs.length === 1) show(0);
      else {
        window.addEventListener("hashchange", follow);
        follow();
      }
      document.body.dataset.ready = "yes";
    });
  }

  build();
})();
