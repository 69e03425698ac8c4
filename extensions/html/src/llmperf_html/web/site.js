"use strict";
// The bars of a page of a site, and the charts of one run.
(function () {
  llmperf.bars.build(function () { history.replaceState(null, "", "#" + llmperf.bars.keep(new URLSearchParams())); });
  llmperf.bars.restore(new URLSearchParams(location.hash.slice(1)));
  if (!llmperf.data.run) return;
  const place = document.getElementById("charts"), line = [{ run: llmperf.data.run, name: "", stroke: "--c0" }];

  function show(byTime) {
    place.replaceChildren();
    llmperf.plot.clear();
    if (llmperf.charts.canUseTime(line)) place.append(llmperf.charts.axisChoice(byTime, show));
    llmperf.charts.all(place, line, byTime);
  }

  function again() { llmperf.plot.draw(); }

  show(false);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let waiting = 0;
  window.addEventListener("resize", function () { clearTimeout(waiting); waiting = setTimeout(again, 150); });
})();
