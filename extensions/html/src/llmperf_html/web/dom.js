"use strict";
// What every part of a page uses. Everything in the data is foreign text: it reaches the page as text nodes only.
const llmperf = (function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const UNKNOWN = "-";

  // A number as text in the reader's locale, with the rounding of llmperf's other formats.
  function formatted(value, rounding) {
    if (typeof value !== "number") return value === null || value === undefined ? UNKNOWN : String(value);
    if (!rounding) return String(value);
    const scaled = value / (rounding.divisor || 1), digits = rounding.digits;
    if (Math.abs(scaled) >= 1e15) return Number(scaled.toPrecision(4)).toExponential();
    if (rounding.style === "decimals") return localised(scaled, { minimumFractionDigits: digits, maximumFractionDigits: digits });
    if (rounding.style === "percent") {
      const share = 100 * scaled;
      return localised(share, Math.abs(share) >= 1 ? { minimumFractionDigits: digits, maximumFractionDigits: digits } : { maximumSignificantDigits: 3 }) + " %";
    }
    if (rounding.style === "amount" && Math.abs(scaled) >= Math.pow(10, digits - 1)) return localised(scaled, { maximumFractionDigits: 0 });
    const size = scaled === 0 ? 0 : Math.floor(Math.log10(Math.abs(scaled)));
    if (size < -4 || size >= digits) return Number(scaled.toPrecision(digits)).toExponential();
    return localised(scaled, { maximumSignificantDigits: digits, useGrouping: false });
  }

  const formats = new Map();
  function localised(value, options) {
    const key = JSON.stringify(options);
    if (!formats.has(key)) formats.set(key, new Intl.NumberFormat(navigator.language, options));
    return formats.get(key).format(value);
  }

  // Writes the numbers of HTML that was made elsewhere in the reader's locale.
  function localise(root) {
    for (const node of root.querySelectorAll("data[data-rounding]")) {
      const parts = node.dataset.rounding.split(" ");
      node.textContent = formatted(Number(node.value), { style: parts[0], digits: Number(parts[1]), divisor: Number(parts[2]) });
    }
  }

  function make(tag, text, className) {
    const node = document.createElement(tag);
    if (text !== undefined && text !== null) node.textContent = String(text);
    if (className) node.className = className;
    return node;
  }

  function button(text, className, action) {
    const node = make("button", text, className);
    node.type = "button";
    node.addEventListener("click", action);
    return node;
  }

  // A table of cells; without headers, the first cell of each row is its label.
  function table(headers, rows) {
    const node = make("table", null, "data"), body = make("tbody");
    if (headers.length) {
      const head = make("thead"), line = make("tr");
      for (const cell of headers) line.append(scoped(make("th", cell), "col"));
      head.append(line);
      node.append(head);
    }
    for (const cells of rows) {
      const line = make("tr");
      cells.forEach(function (cell, i) {
        line.append(!headers.length && !i && cells.length > 1 ? scoped(make("th", cell), "row") : cell instanceof Node ? held(cell) : make("td", cell));
      });
      body.append(line);
    }
    node.append(body);
    return node;
  }

  function held(node) { const cell = make("td"); cell.append(node); return cell; }

  function scoped(node, scope) { node.scope = scope; return node; }

  function boxed(className, ...parts) {
    const node = make("div", null, className);
    node.append(...parts);
    return node;
  }

  // A wide thing that scrolls by itself and that the keyboard reaches.
  function scrolling(node, label) {
    const place = make("div", null, "wide");
    place.tabIndex = 0;
    place.setAttribute("role", "region");
    place.setAttribute("aria-label", label);
    place.append(node);
    return place;
  }

  function folded(title, content) {
    const node = make("details", null, "fold");
    node.append(make("summary", title), content);
    return node;
  }

  function filled(template, values) {
    return template.replace(/\{(\w+)\}/g, function (_, name) { return String(values[name]); });
  }

  function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

  return { data: data, words: data.words, make: make, button: button, boxed: boxed, table: table, scrolling: scrolling, folded: folded, filled: filled, colour: colour,
           formatted: formatted, localised: localised, localise: localise, scoped: scoped, UNKNOWN: UNKNOWN };
})();
