// What the scripts of all sections share. A section's function draws its figures from the section's data.
const { task, judged, columns: columnNames, outputs } = data.about, Judged = judged[0].toUpperCase() + judged.slice(1);
const state = { output: 0 }; // what was chosen, by the name of the select
const series = i => `k${i % 8}`;
const cut = (text, length) => text.length > length ? `${text.slice(0, Math.max(1, length - 1))}…` : text;
const short = x => x === null ? "∞" : x === 0 ? "0" : Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(2) : String(+x.toPrecision(4));
const percent = x => `${(100 * x).toFixed(x > 0 && x < .0995 ? 1 : 0)} %`;
const span = values => {
  const kept = values.filter(v => v !== null);
  const low = kept.reduce((a, b) => Math.min(a, b), Infinity), high = kept.reduce((a, b) => Math.max(a, b), -Infinity);
  return low < high ? [low, high] : [low - (Math.abs(low) || 1) / 2, high + (Math.abs(low) || 1) / 2];
};
function ticks([low, high], room) {
  const many = Math.max(1, room), rough = high / many - low / many, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough * .999), first = Math.ceil(low / step - 1e-9);
  // There are no more than ``room`` and one; far from 0 a number and the next may be further apart than a step.
  const all = [...Array(Math.ceil(many) + 2).keys()].map(i => +((first + i) * step).toPrecision(15));
  return all.filter((tick, i) => Number.isFinite(tick) && tick >= low - step * 1e-9 && tick <= high + step * 1e-9 && tick !== all[i - 1]);
}
// A frame with axes; x and y are ranges, in which a margin is included.
function frame(id, height, label, x, y, { left = 52, right = 14, xLabel = "", yLabel = "", xTicks = null } = {}) {
  const c = canvas(id, height, label), top = yLabel ? 24 : 10, bottom = height - (xLabel ? 40 : 24);
  const X = v => left + (c.width - left - right) * (v - x[0]) / (x[1] - x[0]), Y = v => bottom - (bottom - top) * (v - y[0]) / (y[1] - y[0]);
  for (const tick of ticks(y, (bottom - top) / 36)) { c.line(left, Y(tick), c.width - right, Y(tick), "grid"); c.text(left - 6, Y(tick) + 4, short(tick), "end", "soft"); }
  for (const tick of xTicks ?? ticks(x, (c.width - left) / 64)) { c.line(X(tick), bottom, X(tick), bottom + 4, "grid"); c.text(X(tick), bottom + 17, short(tick), "middle", "soft"); }
  if (xLabel) c.text((left + c.width - right) / 2, height - 5, xLabel, "middle", "soft");
  if (yLabel) c.text(4, 13, yLabel, "start", "soft");
  const path = (points, kind) => { const d = points.map(([a, b], i) => `${i ? "L" : "M"}${X(a).toFixed(1)},${Y(b).toFixed(1)}`).join(""); c.svg.append(make("path", { d, class: kind, fill: "none" })); };
  return { ...c, X, Y, path, top, bottom, left, right };
}
const wider = ([low, high], by = .04) => [low - by * (high - low), high + by * (high - low)];
const say = (node, text) => { node.dataset.text = text; return node; };
const labelRoom = (width, names) => Math.min(width * .38, Math.max(60, Math.max(...names.map(n => n.length)) * 6.6 + 12));
function key(id, entries) {
  const line = document.createElement("p");
  line.className = "key";
  for (const [name, kind, text] of entries) {
    const entry = document.createElement("span"), icon = make("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" });
    icon.append(shape(name, kind, 0, 0)); entry.append(icon, ` ${text}`); line.append(entry);
  }
  const figure = document.getElementById(id);
  figure.querySelector(".key")?.remove();
  figure.querySelector("svg").after(line);
}
// ``figures`` are [id, function, key of its data]; drawn are those that the page has.
function start(figures) {
  const drawAll = () => { for (const [id, draw, section] of figures) if (document.getElementById(id)) draw(data[section]); };
  for (const choice of document.querySelectorAll("select")) {
    state[choice.name] = choice.value;
    choice.addEventListener("change", () => { state[choice.name] = choice.value; hide(); drawAll(); });
  }
  redraw(drawAll);
}
