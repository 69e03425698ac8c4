"use strict";
// The charts of one run on its page of a site.
(function () {
  llmperf.bars.build();
  llmperf.bars.show("", "");
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
