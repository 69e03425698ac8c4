"use strict";
// The page of a comparison: what differs in the contracts first, then figures with ratios to the first side, then curves.
llmperf.comparePage = (function () {
  const data = llmperf.data, words = llmperf.words, make = llmperf.make, table = llmperf.table, formatted = llmperf.formatted;
  const RATIO = { style: "decimals", digits: 4 };

  // A side: a run, or all repeats of one (`all:` before its key); null if there is no such run.
  function side(key, i) {
    const all = key.startsWith("all:"), first = data.runs.find(function (run) { return run.key === (all ? key.slice(4) : key); });
    if (!first) return null;
    const indexes = all && first.group !== undefined ? data.groups[first.group].runs : [data.runs.indexOf(first)];
    const every = indexes.map(function (index) { return data.runs[index]; }), complete = every.filter(function (run) { return run.complete; });
    return { letter: String.fromCharCode(65 + i), key: key, first: first, runs: complete.length ? complete : every, left: every.length - complete.length, complete: complete.length > 0, place: indexes[0], stroke: "--c" + i % 8 };
  }

  function short(text) { return text === undefined ? "-" : text.length > 60 ? text.slice(0, 60) + "..." : text; }

  // In what named parts the sides differ, a row for each, and what an imported row does not state. Of a whole that differs
  // by its name (another model), the parts are left out. A run that does not list a part has `otherwise`.
  function differences(sides, partsOf, otherwise) {
    const parts = sides.map(function (one) { return partsOf(one.first); }), rows = [], untold = new Set();
    for (const name of new Set(parts.flatMap(Object.keys))) {
      const whole = name.split(".")[0], values = parts.map(function (part) { return part[name]; });
      if (values.every(function (value) { return value === values[0]; })) continue;
      if (whole !== name && new Set(parts.map(function (part) { return part[whole]; })).size > 1) continue;
      const told = values.filter(function (value, i) { return value !== undefined || sides[i].first.measured; });
      if (told.some(function (value) { return value !== told[0]; })) rows.push([name].concat(values.map(function (value, i) {
        return value === undefined && otherwise && sides[i].first.measured ? otherwise : short(value);
      })));
      if (told.length < values.length) untold.add(whole);
    }
    return { rows: rows, untold: Array.from(untold) };
  }

  function heads(sides, first) { return [first].concat(sides.map(function (one) { return one.letter; })); }

  function sentence(start, list, className) { return list.length ? [make("p", start + " " + list.join("; ") + ".", className)] : []; }

  function median(values) {
    const ordered = values.slice().sort(function (a, b) { return a - b; }), middle = ordered.length >> 1;
    return ordered.length % 2 ? ordered[middle] : (ordered[middle - 1] + ordered[middle]) / 2;
  }

  // A figure of a side: the median of its runs as a number, and its text.
  function figure(one, i) {
    const rounding = data.figures[i].rounding;
    const known = one.runs.map(function (run) { return run.figures[i]; }).filter(function (value) { return value !== null && value !== undefined && !(Array.isArray(value) && value[0] === null && value[1] === "-"); });
    if (!known.length) return { value: null, text: "-" };
    const group = one.key.startsWith("all:") && one.first.group !== undefined ? data.groups[one.first.group].figures[data.figures[i].field] : undefined;
    if (group) return { value: group[0], text: group[4] || formatted(group[0], rounding) };
    if (Array.isArray(known[0])) return { value: known[0][0], text: known[0][1] };
    const value = median(known), least = Math.min(...known), most = Math.max(...known);
    const range = known.length > 1 ? " (" + llmperf.filled(words.range_of, { low: formatted(least, rounding), high: formatted(most, rounding), runs: known.length }) + ")" : "";
    return { value: value, text: formatted(value, rounding) + range };
  }

  // The currency of a cost; empty for other figures. There is no ratio of amounts in different currencies.
  function currency(one, i) { return data.figures[i].field ? figure(one, i).text.replace(/^[^A-Z]+/, "") : ""; }

  // On a device that ranks share, such as a host, other processes are counted too.
  function ofAll(sides, i) { return data.figures[i].of_all && sides.some(function (one) { return one.runs.some(function (run) { return run.divided; }); }); }

  function ratio(one, base, i) {
    if (ofAll([one, base], i)) return "-";
    const x = figure(one, i).value, y = figure(base, i).value;
    if (data.figures[i].memory && !(one.first.measured && base.first.measured)) return "-";
    if (currency(one, i) !== currency(base, i)) return "-";
    return typeof x === "number" && typeof y === "number" && y !== 0 ? formatted(x / y, RATIO) : "-";
  }

  // One line on the throughput of each side against the first, with its interval where there is one.
  function verdicts(sides) {
    const base = sides[0], lines = [];
    for (const one of sides.slice(1)) {
      const names = { side: one.letter, base: base.letter }, known = one.key.startsWith("all:") && base.key.startsWith("all:") ? data.ratios[one.place + "/" + base.place] : undefined;
      const share = ratio(one, base, 0);
      if (known) lines.push(llmperf.filled(known, names));
      else if (share !== "-") lines.push(llmperf.filled(one.runs.length > 1 && base.runs.length > 1 ? words.ratio_without_interval : words.ratio_alone, Object.assign(names, { ratio: share })));
    }
    return lines.map(function (line) { return make("p", "token/p/s: " + line); });
  }

  function sideList(sides) {
    const list = make("ul", null, "sides");
    for (const one of sides) {
      const item = make("li"), swatch = make("i", null, "swatch solid"), link = make("a", one.first.key);
      swatch.style.background = "var(" + one.stroke + ")";
      link.href = "#" + new URLSearchParams({ run: one.first.key });
      item.append(swatch, make("strong", one.letter + ": "), link, one.runs.length > 1 ? ", " + llmperf.filled(words.runs_of, { runs: one.runs.length }) : "", make("span", " " + llmperf.runPage.subject(one.first), "subject"));
      list.append(item);
    }
    return list;
  }

  function contractPart(place, sides) {
    const contract = differences(sides, function (run) { return data.contracts[run.contract]; });
    const setting = differences(sides, function (run) { return data.settings[run.setting]; }, words.by_default);
    const ended = sides.filter(function (one) { return !one.complete; }).map(function (one) { return one.first.key + " (" + llmperf.runPage.named(one.first, "status") + ")"; });
    if (contract.rows.length) {
      place.append(make("p", words.contracts_differ, "warning"), llmperf.scrolling(table(heads(sides, words.path), contract.rows), words.contracts_differ));
    } else if (!contract.untold.length) place.append(make("p", words.contracts_equal));
    place.append(...sentence(words.not_complete, ended, "warning"), ...sentence(words.not_told, contract.untold.concat(setting.untold)));
    if (setting.rows.length) place.append(make("p", words.settings_differ), llmperf.scrolling(table(heads(sides, words.value), setting.rows), words.settings_differ));
    if (setting.rows.some(function (row) { return row[0] === words.device_share; })) place.append(make("p", words.shares_differ, "warning"));
    for (const one of sides) {
      const known = one.key.startsWith("all:") && one.first.group !== undefined ? data.groups[one.first.group] : one.first;
      for (const line of known.disturbed || []) place.append(make("p", llmperf.filled(line, { side: one.letter }), "warning"));
    }
    return !contract.rows.length && !ended.length;
  }

  function figurePart(place, sides, divided) {
    const rows = data.figures.map(function (known, i) {
      const title = ofAll(sides, i) ? llmperf.filled(words.in_use_by_all, { figure: known.title }) : known.title;
      const cells = [title].concat(sides.map(function (one) { return figure(one, i).text; }));
      return divided ? cells.concat(sides.slice(1).map(function (one) { return ratio(one, sides[0], i); })) : cells;
    }).filter(function (cells) { return cells.slice(1, sides.length + 1).some(function (text) { return text !== "-"; }); });
    const ratios = divided ? sides.slice(1).map(function (one) { return one.letter + " / " + sides[0].letter; }) : [];
    place.append(llmperf.scrolling(table(heads(sides, words.figure).concat(ratios), rows), words.comparison));
  }

  // Puts the comparison of sides into an element.
  function show(place, sides, byTime, chosen) {
    place.append(make("h2", words.comparison), sideList(sides), make("h3", words.contract));
    const divided = contractPart(place, sides);
    place.append(make("h3", words.figures));
    if (divided) place.append(...verdicts(sides));
    if (divided && sides.some(function (one) { return !one.first.measured; })) place.append(make("p", words.memory_unlike));
    figurePart(place, sides, divided);
    const lines = sides.flatMap(function (one) {
      return one.runs.map(function (run, i) { return { run: run, name: one.letter + (one.runs.length > 1 ? i + 1 : ""), stroke: one.stroke, side: sides.indexOf(one) }; });
    });
    place.append(make("h3", words.curves_of));
    if (llmperf.charts.canUseTime(lines)) place.append(llmperf.charts.axisChoice(byTime, chosen));
    llmperf.charts.all(place, lines, byTime);
  }

  // The sides that an address names; null unless all of them exist and there are at least two.
  function sidesOf(keys) {
    const sides = keys.slice(0, data.most_sides).map(side);
    return sides.length > 1 && sides.every(Boolean) ? sides : null;
  }

  return { show: show, sidesOf: sidesOf };
})();
