"use strict";
// What every part of the page uses. Everything in the data is foreign text: it reaches the page as text nodes only.
const llmperf = (function () {
  const data = JSON.parse(document.getElementById("data").textContent);

  // Rows of the table come as lists; what is shown is null where it is the value itself.
  for (const run of data.runs) {
    const row = {}, printed = {};
    data.fields.forEach(function (field, i) {
      row[field] = run.row[i];
      if (i < run.printed.length) printed[field] = run.printed[i] === null ? (run.row[i] === null ? "-" : run.row[i]) : run.printed[i];
    });
    run.row = row;
    run.printed = printed;
  }

  // The sections of a run, each with its rows; runs share them.
  function sections(run) {
    return run.sections.map(function (index) {
      const section = data.sections[index];
      return Object.assign({}, section, { rows: section.rows.map(function (row) { return data.rows[row]; }) });
    });
  }

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
    const node = make("table", null, "data"), head = make("thead"), body = make("tbody");
    if (headers.length) { head.append(row(headers, "th")); node.append(head); }
    for (const cells of rows) body.append(row(cells));
    node.append(body);
    return node;
  }

  function filled(template, values) {
    return template.replace(/\{(\w+)\}/g, function (_, name) { return String(values[name]); });
  }

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  function cellText(column, line) {
    const printed = line.printed[column.field];
    return printed === undefined ? "-" : printed;
  }

  return { data: data, words: data.words, runs: data.runs, make: make, table: table, filled: filled, colour: colour, cellText: cellText, sections: sections,
           small: window.matchMedia("(max-width: 40rem)").matches };
})();
