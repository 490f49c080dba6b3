const chosen = new Set(data.ranks ? data.ranks.methods : data.methods.keys());

const look = m => [data.methods[m].shape, `m${m}`];
const shortSeconds = x => x < 100 ? String(+x.toPrecision(3)) : Math.round(x).toLocaleString("en");
const describe = (s, m) => {
  const c = data.cells[s][m];
  return [`${data.sets[s]}, ${data.methods[m].name}`, `${number(c.mean)}${c.sd === null ? "" : ` ± ${number(c.sd)}`}, ${plural(c.n, "split")}`,
    ...(c.failed ? [`${c.failed} failed`] : []), ...(c.missing ? [`${c.missing} missing`] : [])].join("\n");
};

// Rows of points on a logarithmic axis: one row per name, points [row, method, value, text].
function dots(id, names, points, label, { rule = null, spread = 0, right = 16, format = String } = {}) {
  const step = spread ? 36 : 24, height = names.length * step + 44, left = Math.min(150, Math.max(...names.map(n => n.length), 1) * 6.8 + 14);
  const c = canvas(id, height, label), values = points.map(p => p[2]).filter(v => v > 0);
  if (!values.length) return c.text(10, 24, "Nothing to show.", "start", "soft");
  const low = Math.min(...values, rule ?? Infinity) / 1.15, high = Math.min(Math.max(...values, rule ?? 0) * 1.15, Number.MAX_VALUE);
  const x = v => left + (c.width - left - right) * Math.log(v / low) / Math.log(high / low), bottom = height - 38;
  for (const tick of logTicks(low, high, (c.width - left) / 44)) {
    c.line(x(tick), 4, x(tick), bottom, "grid"); c.text(x(tick), bottom + 16, format(tick), "middle", "soft"); }
  names.forEach((name, i) => { c.line(left, i * step + step / 2 + 4, c.width - right, i * step + step / 2 + 4, "grid"); c.text(left - 8, i * step + step / 2 + 8, name, "end"); });
  if (rule) c.line(x(rule), 4, x(rule), bottom, "rule");
  c.text(left, bottom + 33, label, "start", "soft");
  for (const [row, m, value, text, shift = 0] of points) if (value > 0) c.point(...look(m), x(value), row * step + step / 2 + 4 + shift * spread, text);
  return { ...c, x, step };
}
const picked = () => [...chosen].sort((a, b) => a - b);
const ran = (s, m) => data.cells[s][m].mean !== null;

function drawRelative() {
  const base = data.baseline, methods = picked().filter(m => data.methods[m].name !== base.own);
  const sets = [...data.sets.keys()].filter(s => base.errors[s] && methods.some(m => ran(s, m)));
  const points = sets.flatMap((s, row) => methods.filter(m => ran(s, m)).map(m => {
    const ratio = data.cells[s][m].mean / base.errors[s], shift = methods.length > 1 ? methods.indexOf(m) / (methods.length - 1) * 2 - 1 : 0;
    return [row, m, ratio, `${describe(s, m)}\n${number(ratio)} × ${base.name}`, shift];
  }));
  dots("relative", sets.map(s => data.sets[s]), points, `error / error of ${base.name}`, { rule: 1, spread: 11 });
}
// margin(error, others) for each set; a method's line counts the sets with a margin above x.
function drawCounts(id, margin, label) {
  const methods = picked(), sets = [...data.sets.keys()].filter(s => methods.length > 1 && methods.every(m => ran(s, m)));
  const height = 300, left = 34, bottom = height - 40, c = canvas(id, height, label), limit = .5;
  if (!sets.length) return c.text(10, 24, "No set has results of all methods chosen.", "start", "soft");
  const jumps = methods.map(m => sets.map(s => [margin(data.cells[s][m].mean, methods.filter(o => o !== m).map(o => data.cells[s][o].mean)), s])
    .filter(([v]) => v > 0).sort((a, b) => b[0] - a[0]));
  const top = Math.max(1, ...jumps.map(j => j.length)), points = [];
  const x = v => left + (c.width - left - 16) * Math.min(v, limit) / limit, y = n => bottom - (bottom - 14) * n / top;
  for (let n = 0; n <= top; n += top > 8 ? 2 : 1) { c.line(left, y(n), c.width - 12, y(n), "grid"); c.text(left - 8, y(n) + 4, n, "end", "soft"); }
  for (let v = 0; v <= 5; v++) c.text(x(v / 10), bottom + 16, `${10 * v}`, "middle", "soft");
  c.text(left, bottom + 33, `${label} by more than x %; sets, of ${sets.length}`, "start", "soft");
  methods.forEach((m, j) => {
    const shift = (j / (methods.length - 1) - .5) * 6;
    let path = "";
    jumps[j].forEach(([v, s], i) => {
      if (v > limit) path = `M${x(limit)},${y(i + 1) + shift}`;  // beyond the axis: the line enters at its end
      else path = `${path ? `${path}H${x(v)}` : `M${x(v)},${y(0) + shift}`}V${y(i + 1) + shift}`;
      if (v <= limit) points.push([...look(m), x(v), y(i + 1) + shift, `${describe(s, m)}\n${(100 * v).toFixed(1)} %: ${plural(i + 1, "set")} by as much or more`]);
    });
    if (path) c.svg.append(make("path", { d: `${path}H${x(0)}`, class: `line m${m}` }));
  });
  for (const point of points) c.point(...point);
}
const gain = (own, others) => 1 - own / Math.min(...others);
const lag = (own, others) => own / Math.min(own, ...others) - 1;

function drawRanks() {
  const r = data.ranks;
  if (!r) return;
  const k = r.methods.length, step = 26, left = 118, height = k * step + 66, bars = r.groups.length * 10;
  const c = canvas("ranks", height, "Average ranks."), x = v => left + 10 + (c.width - left - 34 - bars) * (v - 1) / (k - 1);
  for (let v = 1; v <= k; v += x(2) - x(1) < 20 ? 2 : 1) { c.line(x(v), 44, x(v), height - 22, "grid"); c.text(x(v), height - 6, v, "middle", "soft"); }
  c.line(x(1), 14, x(1) + x(1 + r.cd) - x(1), 14, "rule"); for (const e of [x(1), x(1 + r.cd)]) c.line(e, 9, e, 19, "rule");
  c.text(x(1), 34, `CD = ${r.cd.toFixed(2)}`);
  r.groups.forEach(([a, b], i) => c.svg.append(make("rect", { x: c.width - bars - 4 + 10 * i, y: 50 + a * step, width: 5, height: (b - a) * step + 16, rx: 2, style: "fill: var(--ink); opacity: .75" })));
  r.methods.forEach((m, i) => {
    const at = 58 + i * step;
    c.line(x(1), at, x(r.average[i]), at, `line m${m}`); c.text(left, at + 4, `${data.methods[m].name}`, "end");
    c.point(...look(m), x(r.average[i]), at, `${data.methods[m].name}\naverage rank ${r.average[i].toFixed(2)} over ${r.sets} sets`);
  });
}
function drawSeconds() {
  const methods = [...data.methods.keys()].filter(m => data.sets.some((_, s) => data.cells[s][m].seconds !== null));
  const points = methods.flatMap((m, row) => data.sets.flatMap((name, s) => {
    const seconds = data.cells[s][m].seconds;
    return seconds === null ? [] : [[row, m, seconds, `${name}, ${data.methods[m].name}\n${shortSeconds(seconds)} s on average, ${plural(data.cells[s][m].n, "split")}`]];
  }));
  const c = dots("seconds", methods.map(m => data.methods[m].name), points, "seconds", { format: shortSeconds });
  if (c?.x) methods.forEach((m, row) => c.line(c.x(data.methods[m].median), row * c.step + 7, c.x(data.methods[m].median), row * c.step + 25, "rule"));
}
function draw() {
  hide();
  drawRelative();
  drawCounts("gains", gain, "better than all others");
  drawCounts("lags", lag, "worse than the best");
  drawRanks();
  drawSeconds();
}
const choice = document.getElementById("choice");
data.methods.forEach((method, m) => {
  const label = document.createElement("label"), box = document.createElement("input"), icon = make("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" });
  box.type = "checkbox"; box.checked = chosen.has(m);
  box.addEventListener("change", () => { box.checked ? chosen.add(m) : chosen.delete(m); draw(); });
  icon.append(shape(...look(m), 0, 0));
  label.append(box, icon, method.name);
  choice.append(label);
});
redraw(draw);
