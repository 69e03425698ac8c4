"use strict";
// The page of one run: its figures and findings, curves, where the time went, the estimate, the contract, the rest folded.
llmperf.runPage = (function () {
  const data = llmperf.data, words = llmperf.words, make = llmperf.make, table = llmperf.table, formatted = llmperf.formatted;
  const GIB = 1073741824;

  function cell(run, place) { return run.printed[place] !== null ? run.printed[place] : formatted(run.row[place], data.columns[place].rounding); }
  function named(run, field) { return cell(run, data.fields.indexOf(field)); }
  function subject(run) { return [named(run, "model"), named(run, "device"), named(run, "layout")].join(" \u00b7 "); }

  // The figures of a run as short boxes.
  function figures(run) {
    const list = make("dl", null, "figures");
    data.columns.forEach(function (column, place) {
      if (!column.rounding || run.row[place] === null && run.printed[place] === null) return;
      const box = make("div");
      box.append(make("dt", column.title), make("dd", cell(run, place)));
      list.append(box);
    });
    return list;
  }

  function findings(run) {
    const node = make("section"), severity = { error: 0, warning: 1 };
    node.append(make("h3", words.findings));
    if (!run.findings.length) node.append(make("p", words.no_findings));
    const list = make("ul", null, "findings"), found = run.findings.map(function (index) { return data.findings[index]; });
    found.sort(function (a, b) { return (severity[a.severity] === undefined ? 2 : severity[a.severity]) - (severity[b.severity] === undefined ? 2 : severity[b.severity]); });
    for (const finding of found) list.append(make("li", finding.text, finding.severity));
    if (found.length) node.append(list);
    return node;
  }

  // Seconds by name as a stacked bar, and as a table.
  function stacked(known, heading, digits) {
    const whole = known.reduce(function (sum, part) { return sum + part[1]; }, 0), bar = make("div", null, "stack");
    bar.setAttribute("aria-hidden", "true");
    const rows = known.map(function (part, i) {
      const label = words[part[0].replace(" ", "_")] || part[0], block = make("i"), name = make("span"), swatch = make("i", null, "swatch solid");
      block.style.width = Math.max(0, 100 * part[1] / whole) + "%";
      block.style.background = swatch.style.background = "var(--c" + i % 8 + ")";
      block.title = label;
      bar.append(block);
      name.append(swatch, label);
      return [name, formatted(part[1], { style: "decimals", digits: digits }), formatted(part[1] / whole, { style: "percent", digits: 1 })];
    });
    return [bar, llmperf.scrolling(table([heading, words.seconds, words.share], rows), heading)];
  }

  function timeParts(run) {
    const phases = run.curves ? run.curves.phases : [], traced = run.curves ? run.curves.traced : [];
    const positive = function (parts) { return parts.some(function (part) { return part[1] > 0; }); };
    if (!positive(phases)) return [];
    const waiting = typeof run.waiting === "number" ? llmperf.filled(words.waiting, { share: formatted(run.waiting, { style: "percent", digits: 1 }) }) : words.waiting_unknown;
    const parts = [make("h3", words.where_time_went), ...stacked(phases, words.phase, 2), make("p", waiting)];
    return positive(traced) ? parts.concat([make("h4", words.traced_step)], stacked(traced, words.kind_of_operation, 4)) : parts;
  }

  function measuredFigure(run, key) {
    const place = data.figures.findIndex(function (figure) { return figure.key === key; }), value = place < 0 ? null : run.figures[place];
    return typeof value === "number" ? value : null;
  }

  function estimate(run) {
    const expected = run.curves ? run.curves.expected : {};
    const rows = [["step_seconds", "step_seconds_median", words.step_median, { style: "decimals", digits: 4 }],
                  ["rank_peak_bytes", "rank_peak_bytes", words.peak_of_rank, { style: "decimals", digits: 2, divisor: GIB }]].map(function (line) {
      const before = expected[line[0]], after = measuredFigure(run, line[1]);
      if (before === undefined) return null;
      const share = before && after !== null ? formatted(after / before, { style: "decimals", digits: 2 }) : "-";
      return [line[2], formatted(before, line[3]), formatted(after, line[3]), share];
    }).filter(Boolean);
    if (!rows.length) return run.curves && run.measured ? [make("h3", words.estimate), make("p", words.no_estimate)] : [];
    const basis = words.estimate_basis + (run.curves.expected_basis ? " (" + run.curves.expected_basis + ")" : "");
    return [make("h3", words.estimate), table([words.figure, words.estimated, words.measured, words.measured_to_estimated], rows), make("p", basis, "note")];
  }

  function contract(run) {
    const parts = Object.entries(data.contracts[run.contract]).filter(function (part) { return !part[0].startsWith("model."); });
    return parts.length ? [make("h3", words.contract), table([words.path, words.value], parts)] : [];
  }

  function sections(run) { return run.sections.map(function (index) { return data.sections[index]; }); }

  function section(part) {
    const rows = part.rows.map(function (row) { return data.rows[row]; }), node = make("section");
    node.append(make(part.level === 3 ? "h4" : "h3", part.title));
    if (rows.length) node.append(llmperf.scrolling(table(part.headers, rows), part.title));
    return node;
  }

  function repeats(run) {
    const group = run.group === undefined ? null : data.groups[run.group];
    if (!group) return [];
    const line = make("p", words.repeats_of + ": ");
    group.runs.forEach(function (index, i) {
      const other = data.runs[index], text = other.key + " (" + named(other, "throughput") + ")";
      const link = make(other === run ? "strong" : "a", text);
      if (other !== run) link.href = "#" + new URLSearchParams({ run: other.key });
      line.append(i ? ", " : "", link);
    });
    return [line];
  }

  // Puts the page of a run into an element; `byTime` and `chosen` are the axis of its charts, and its change.
  function show(place, run, byTime, chosen) {
    const status = named(run, "status"), head = make("h2", run.key + " ");
    head.append(make("span", status, "status" + (run.bad ? " error" : "")));
    place.append(head, make("p", subject(run), "subject"), ...repeats(run), figures(run), findings(run));
    const line = [{ run: run, name: "", stroke: "--c0" }];
    if (llmperf.charts.canUseTime(line)) place.append(llmperf.charts.axisChoice(byTime, chosen));
    llmperf.charts.all(place, line, byTime);
    place.append(...timeParts(run), ...estimate(run));
    const known = sections(run), rest = make("div");
    const isChange = function (part) { return part.key === "fix_hp"; };
    for (const part of known.filter(isChange)) place.append(section(part));
    place.append(...contract(run));
    for (const part of known) if (!part.fold && !isChange(part)) place.append(section(part));
    for (const part of known) if (part.fold) rest.append(section(part));
    if (rest.children.length) place.append(llmperf.folded(words.environment, rest));
  }

  return { show: show, subject: subject, named: named };
})();
