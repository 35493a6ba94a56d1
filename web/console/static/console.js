// The few things that HTML and htmx do not do: copying a command, the key of the search, charts.
"use strict";
(() => {

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// A scan ends when its connection does.
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-stop]")) return;
  const scan = document.getElementById("scan");
  scan?._htmx?.sse?.abortController?.abort();
  scan?.remove();
  event.target.closest("[data-stop]").disabled = true;
  document.getElementById("progress").prepend("Stopped. ");
});
document.addEventListener("htmx:sse:close", () => {
  const stop = document.querySelector("[data-stop]");
  if (stop) stop.disabled = true;
});

// A page that no longer hears from the console says so, until it does again.
function cutOff(text) {
  const said = document.querySelector(".cut-off");
  if (said.textContent !== text) said.textContent = text;
}
document.addEventListener("htmx:sse:error", () => cutOff("The console does not answer. What is shown may be old."));
document.addEventListener("htmx:sse:after:connection", () => cutOff(""));

document.addEventListener("keydown", (event) => {
  const search = document.querySelector("[data-slash]");
  const typing = event.target.closest("input, textarea, select");
  if (event.key !== "/" || typing || !search) return;
  event.preventDefault();
  search.focus();
});

// Charts: a point comes with each drawing of the page, and the page keeps them while it is open.
const MOST_POINTS = 600;
const CLOCK = "{HH}:{mm}:{ss}";
const charts = new Map();

function plot() {
  for (const source of document.querySelectorAll("[data-points]")) {
    const id = source.dataset.chart;
    if (!charts.has(id)) charts.set(id, { times: [], lines: {}, drawn: null });
    const point = JSON.parse(source.dataset.points);
    if (keep(charts.get(id), point.at / 1000, point.lines)) draw(charts.get(id), document.getElementById(id));
  }
}

function keep(chart, time, lines) {
  if (time <= (chart.times.at(-1) ?? 0)) return false;
  for (const name of Object.keys(lines)) chart.lines[name] ??= chart.times.map(() => null);
  chart.times.push(time);
  for (const [name, line] of Object.entries(chart.lines)) line.push(lines[name] ?? null);
  if (chart.times.length > MOST_POINTS) [chart.times, ...Object.values(chart.lines)].forEach((one) => one.shift());
  return true;
}

function draw(chart, figure) {
  const place = figure.querySelector("div");
  const data = [chart.times, ...Object.values(chart.lines)];
  if (chart.drawn && place.contains(chart.drawn.root) && chart.drawn.series.length === data.length) {
    chart.drawn.setData(data);
    return;
  }
  chart.drawn?.destroy();
  const style = getComputedStyle(document.documentElement);
  const shades = ["--accent", "--warn", "--note", "--bad", "--good"].map((name) => style.getPropertyValue(name).trim());
  const grid = style.getPropertyValue("--line").trim();
  const axis = { stroke: getComputedStyle(figure).color, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid } };
  const names = Object.keys(chart.lines);
  chart.drawn = new uPlot({
    width: place.clientWidth, height: 190, padding: [8, 8, 0, 0],
    tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "Etc/UTC"),
    scales: { y: { range: (_, low, high) => [0, Math.max(high ?? 0, 10)] } },
    axes: [{ ...axis, values: CLOCK, space: 80, size: 34 }, { ...axis, size: 64 }],
    series: [{ value: CLOCK }, ...names.map((name, index) => ({ label: name, stroke: shades[index % shades.length], width: 2, points: { show: false } }))],
  }, data, place);
}

document.addEventListener("DOMContentLoaded", plot);
document.addEventListener("htmx:after:swap", plot);
document.addEventListener("htmx:sse:after:message", plot);
addEventListener("resize", () => {
  for (const { drawn } of charts.values()) drawn?.setSize({ width: drawn.root.parentElement?.clientWidth ?? 0, height: 190 });
});
})();
