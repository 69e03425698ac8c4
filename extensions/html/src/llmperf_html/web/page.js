"use strict";
// Shows what the address says: the overview, one run, or a comparison; so that each can be kept, sent on and gone back from.
(function () {
  const data = llmperf.data, words = llmperf.words, runs = data.runs, heading = document.title;
  const detail = document.getElementById("detail"), overview = document.getElementById("overview");
  let shown = null, opener = "#search", within = false, last = "";

  function focusOpener() { (document.querySelector(opener) || document.getElementById("search")).focus({ preventScroll: true }); }

  // The way back: to where the reader came from, else to the overview.
  function back() {
    if (within) history.back();
    else location.hash = last;
  }

  function leave(query) {
    llmperf.plot.clear();
    detail.replaceChildren();
    detail.hidden = true;
    overview.hidden = false;
    document.title = heading;
    llmperf.overview.restore(query);
    focusOpener();
  }

  function setAxis(byTime) {
    const query = new URLSearchParams(location.hash.slice(1));
    if (byTime) query.set("x", "time"); else query.delete("x");
    history.replaceState(null, "", "#" + query);
    follow();
    const pressed = detail.querySelector('.axis [aria-pressed="true"]');
    if (pressed) pressed.focus({ preventScroll: true });
  }

  // A place for details, without the overview.
  function clear(title) {
    llmperf.plot.clear();
    detail.replaceChildren();
    detail.hidden = false;
    overview.hidden = true;
    if (runs.length === 1) return;
    document.title = title + " - " + heading;
    detail.append(llmperf.button(words.back, "back", back));
  }

  function follow() {
    const query = new URLSearchParams(location.hash.slice(1)), byTime = query.get("x") === "time";
    const run = runs.length === 1 ? runs[0] : runs.find(function (one) { return one.key === query.get("run"); });
    const sides = run ? null : llmperf.comparePage.sidesOf(query.getAll("side"));
    const wanted = run ? "run " + run.key : sides ? "sides " + query.getAll("side").join(" ") : "", moved = wanted !== shown;
    if (!wanted) {
      if (moved && shown !== null) leave(query); else llmperf.overview.restore(query);
      shown = wanted;
      return;
    }
    if (moved) within = shown !== null;
    if (shown === "") opener = run ? '.open[data-index="' + runs.indexOf(run) + '"]' : "#compare";
    shown = wanted;
    const scroll = window.scrollY;
    clear(run ? run.key : sides.map(function (side) { return side.letter + ": " + side.first.key; }).join(", "));
    if (run) llmperf.runPage.show(detail, run, byTime, setAxis);
    else llmperf.comparePage.show(detail, sides, byTime, setAxis);
    detail.focus({ preventScroll: true });
    if (runs.length > 1) window.scrollTo(0, moved ? 0 : scroll);
  }

  // The state of the overview in the address, without a step of its own.
  function keep() {
    if (shown) return;
    last = llmperf.overview.state();
    if (last !== location.hash.slice(1)) history.replaceState(null, "", last ? "#" + last : location.pathname + location.search);
  }

  function build() {
    const skip = document.getElementById("skip");
    skip.addEventListener("click", function (event) {
      event.preventDefault();
      (document.querySelector("#table .open") || document.getElementById("search")).focus();
    });
    let waiting = 0;
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", llmperf.plot.draw);
    window.addEventListener("resize", function () { clearTimeout(waiting); waiting = setTimeout(function () { if (shown) llmperf.plot.draw(); else llmperf.runsTable.fit(); }, 200); });
    const paper = function (on) { return function () { document.documentElement.classList.toggle("paper", on); llmperf.plot.draw(); }; };
    window.addEventListener("beforeprint", paper(true));
    window.addEventListener("afterprint", paper(false));
    window.addEventListener("hashchange", follow);
    const hash = location.hash;
    shown = "wait";
    llmperf.overview.build(keep);
    shown = null;
    if (hash !== location.hash) history.replaceState(null, "", hash);
    follow();
    document.body.dataset.ready = "yes";
  }

  build();
})();
