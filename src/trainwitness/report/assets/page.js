"use strict";
// Draws the figures, in the page's colours, with one legend of real checkboxes that is linked within a result.
const plots = [...document.querySelectorAll(".plot")];
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const seriesColour = (trace) => colour(`--series-${trace.meta.place % 8}`);
const isBand = (trace) => trace.meta.shape === "band";

function paint(trace) {
  const ink = seriesColour(trace);
  const painted = { ...trace, marker: { ...trace.marker, color: ink }, line: { ...trace.line, color: ink } };
  if (isBand(trace)) painted.fillcolor = ink + "33";
  return painted;
}

function themed(layout, narrow) {
  const lines = { gridcolor: colour("--rule"), linecolor: colour("--faint"), tickcolor: colour("--faint") };
  return {
    ...layout,
    font: { ...layout.font, color: colour("--ink"), size: narrow ? 11 : 13 },
    hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--rule"), font: { color: colour("--ink") } },
    xaxis: { ...layout.xaxis, ...lines },
    yaxis: { ...layout.yaxis, ...lines },
  };
}

function draw(plot) {
  const { data, layout } = plot.figure;
  const hidden = plot.hiddenSeries;
  const traces = data.map((trace) => ({ ...paint(trace), visible: !hidden.has(trace.name) }));
  const options = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d"] };
  return Plotly.react(plot, traces, themed(layout, plot.clientWidth < 500), options);
}

function legend(plot) {
  const box = plot.parentElement.querySelector(".legend");
  for (const name of new Set(plot.figure.data.map((trace) => trace.name))) {
    const label = document.createElement("label");
    const tick = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
    tick.dataset.series = name;
    const swatch = Object.assign(document.createElement("span"), { className: "swatch" });
    swatch.dataset.place = plot.figure.data.find((trace) => trace.name === name).meta.place % 8;
    swatch.style.background = `var(--series-${swatch.dataset.place})`;
    tick.addEventListener("change", () => show(plot.closest("section"), name, tick.checked));
    label.append(tick, swatch, name);
    box.append(label);
  }
}

function show(section, name, visible) {
  for (const plot of section.querySelectorAll(".plot")) {
    if (!plot.figure.data.some((trace) => trace.name === name)) continue;
    visible ? plot.hiddenSeries.delete(name) : plot.hiddenSeries.add(name);
    for (const tick of plot.parentElement.querySelectorAll(".legend input"))
      if (tick.dataset.series === name) tick.checked = visible;
    draw(plot);
  }
}

function zoom(plot, event) {
  const factor = { "+": 0.7, "=": 0.7, "-": 1 / 0.7 }[event.key];
  const shift = { ArrowLeft: ["xaxis", -1], ArrowRight: ["xaxis", 1], ArrowDown: ["yaxis", -1], ArrowUp: ["yaxis", 1] };
  if (event.key === "0") {
    Plotly.relayout(plot, { "xaxis.autorange": true, "yaxis.autorange": true });
  } else if (factor) {
    const [from, to] = plot._fullLayout.xaxis.range.map(Number);
    const half = ((to - from) / 2) * factor;
    Plotly.relayout(plot, { "xaxis.range": [(from + to) / 2 - half, (from + to) / 2 + half] });
  } else if (shift[event.key]) {
    const [axis, sign] = shift[event.key];
    const [from, to] = plot._fullLayout[axis].range.map(Number);
    const step = ((to - from) / 5) * sign;
    Plotly.relayout(plot, { [`${axis}.range`]: [from + step, to + step] });
  } else return;
  event.preventDefault();
}

for (const plot of plots) {
  plot.figure = JSON.parse(document.querySelector(`script[data-for="${plot.id}"]`).textContent);
  plot.hiddenSeries = new Set();
  legend(plot);
  plot.addEventListener("keydown", (event) => event.target === plot && zoom(plot, event));
}
const drawAll = () => Promise.all(plots.map(draw));
drawAll().then(() => (document.documentElement.dataset.drawn = plots.length));
for (const query of ["(prefers-color-scheme: dark)", "print"])
  matchMedia(query).addEventListener("change", drawAll);
const folded = () => [...document.querySelectorAll("details:not(.behind):not([open])")];
addEventListener("beforeprint", () => folded().forEach((one) => { one.open = true; one.dataset.printed = ""; }));
addEventListener("afterprint", () =>
  document.querySelectorAll("details[data-printed]").forEach((one) => { one.open = false; delete one.dataset.printed; }));
