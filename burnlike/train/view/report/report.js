"use strict";
const data = JSON.parse(document.getElementById("data").textContent);

function make(name, className, text) {
  const element = document.createElement(name);
  element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function nearest(points, step) {
  let low = 0;
  let high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < step) low = middle;
    else high = middle;
  }
  return step - points[low][0] <= points[high][0] - step ? points[low] : points[high];
}

function show(area, chart, event) {
  hide(area);
  const box = area.querySelector("svg").getBoundingClientRect();
  const part = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
  const found = chart.series.map((it) => ({ ...it, point: nearest(it.points, data.low + part * (data.high - data.low)) }));
  const place = (step) => ((step - data.low) / (data.high - data.low)) * box.width;
  const closest = found.reduce((best, it) =>
    Math.abs(place(it.point[0]) - part * box.width) < Math.abs(place(best.point[0]) - part * box.width) ? it : best);
  const step = closest.point[0];
  const x = place(step);
  const cursor = make("div", "cursor extra");
  cursor.style.left = `${x}px`;
  area.append(cursor);
  const tip = make("div", "tip extra");
  tip.append(make("p", "", `step ${step.toLocaleString("en")}`));
  for (const it of found.sort((a, b) => a.point[2] - b.point[2])) {
    const dot = make("div", `point extra b${it.color}`);
    dot.style.left = `${place(it.point[0])}px`;
    dot.style.top = `${it.point[2] * box.height}px`;
    area.append(dot);
    const row = make("div", "");
    const isElsewhere = Math.abs(it.point[0] - step) > (data.high - data.low) / 50;
    const text = isElsewhere ? `${it.point[3]} (step ${it.point[0].toLocaleString("en")})` : it.point[3];
    row.append(make("i", `dot b${it.color}`), make("span", "", it.name), make("b", "", text));
    tip.append(row);
  }
  area.append(tip);
  const width = tip.offsetWidth;
  tip.style.left = `${x + 12 + width > area.clientWidth ? Math.max(x - 12 - width, -40) : x + 12}px`;
}

function hide(area) {
  for (const it of area.querySelectorAll(".extra")) it.remove();
}

for (const figure of document.querySelectorAll("[data-chart]")) {
  const area = figure.querySelector(".area");
  const chart = data.charts[figure.dataset.chart];
  area.addEventListener("pointermove", (event) => show(area, chart, event));
  area.addEventListener("pointerdown", (event) => show(area, chart, event));
  area.addEventListener("pointerleave", () => hide(area));
}
