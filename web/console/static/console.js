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

// The chart of a live partition: points come with each drawing of the page, and are kept here.
const MOST_POINTS = 600;
const seen = { times: [], behind: {} };
let chart = null;

function colours() {
  const style = getComputedStyle(document.documentElement);
  return ["--accent", "--warn", "--note", "--bad", "--good"].map((name) => style.getPropertyValue(name).trim());
}

function plot() {
  const source = document.getElementById("points");
  const figure = document.getElementById("lag-chart");
  if (!source || !figure || !window.uPlot) return;
  const point = JSON.parse(source.dataset.points);
  if (seen.times.at(-1) === point.at / 1000) return;
  seen.times.push(point.at / 1000);
  for (const [broker, behind] of Object.entries(point.behind)) {
    const known = seen.behind[broker] ??= new Array(seen.times.length - 1).fill(null);
    known.push(behind);
  }
  if (seen.times.length > MOST_POINTS) {
    seen.times.shift();
    Object.values(seen.behind).forEach((one) => one.shift());
  }
  const brokers = Object.keys(seen.behind);
  const data = [seen.times, ...brokers.map((one) => seen.behind[one])];
  const place = figure.querySelector("div");
  if (!chart || !place.contains(chart.root)) {
    const shades = colours();
    const ink = getComputedStyle(figure).color;
    const grid = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid } };
    chart = new uPlot({
      width: place.clientWidth, height: 190, padding: [8, 8, 0, 0],
      scales: { y: { range: (_, low, high) => [0, Number.isFinite(high) ? Math.max(high, 10) : 10] } },
      axes: [axis, { ...axis, size: 64 }],
      series: [{}, ...brokers.map((one, index) => ({ label: `broker ${one}`, stroke: shades[index % shades.length], width: 2, points: { show: false } }))],
    }, data, place);
  } else {
    chart.setData(data);
  }
}

document.addEventListener("DOMContentLoaded", plot);
document.addEventListener("htmx:after:swap", plot);
document.addEventListener("htmx:sse:after:message", plot);
addEventListener("resize", () => chart?.setSize({ width: chart.root.parentElement.clientWidth, height: 190 }));
})();
