const judged = data.judged, Judged = judged[0].toUpperCase() + judged.slice(1);
const state = { tree: 0, by: "weight", output: 0 };
const cut = (text, length) => text.length > length ? `${text.slice(0, Math.max(1, length - 1))}…` : text;
const short = x => x === null ? "∞" : x === 0 ? "0" : Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(2) : String(+x.toPrecision(4));
const percent = x => `${(100 * x).toFixed(x > 0 && x < .0995 ? 1 : 0)} %`;
const has = id => document.getElementById(id) !== null;
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
const looks = { "this model": ["o", "ours"], "plain Gaussian SVM": ["s", "svm"], "random forest": ["^", "forest"] };
const labelRoom = (width, names) => Math.min(width * .38, Math.max(60, Math.max(...names.map(n => n.length)) * 6.6 + 12));

function drawErrors() {
  const rows = data.errors, step = 28, height = rows.length * step + 44, names = rows.map(r => `${r.method}, ${r.basis}`);
  const c = canvas("errors", height, "Errors of this model and of others."), left = Math.min(c.width * .5, 250), top = Math.max(...rows.map(r => r.risk), 1e-300) * 1.08;
  const x = v => left + (c.width - left - 16) * v / top;
  for (const tick of ticks([0, top], (c.width - left) / 64)) { c.line(x(tick), 4, x(tick), height - 40, "grid"); c.text(x(tick), height - 24, short(tick), "middle", "soft"); }
  c.text(c.width - 16, height - 5, "mean squared error, labels in [-1, 1]", "end", "soft");
  rows.forEach((r, i) => {
    const [name, kind] = looks[r.method], y = i * step + 18;
    c.text(left - 10, y + 4, cut(names[i], left / 7), "end");
    c.line(x(0), y, x(r.risk), y, `line ${kind}`);
    const more = [r.rmse === null ? null : `root mean squared error ${short(r.rmse)}`, r.wrong === null ? null : `wrong classes ${percent(r.wrong)}`, r.r2 === null ? null : `R² ${r.r2.toFixed(3)}`];
    c.point(name, kind, x(r.risk), y, [names[i], `mean squared error ${short(r.risk)}`, ...more.filter(t => t)].join("\n"));
  });
}

// The kernel as in the paper's Figure 1: columns at the left, then layer after layer, the top node at the right.
function drawTree() {
  const t = data.trees[state.tree], columns = t.columns, first = t.layers[0], step = 27, layers = t.layers.length;
  const tallest = Math.max(columns.length, ...t.layers.map(l => l.length)), height = tallest * step + 44;
  const c = canvas("tree", height, "The kernel as a tree."), names = columns.map(col => col.name), room = labelRoom(c.width, names);
  const narrow = c.width < 520, half = narrow ? 20 : 48, start = room + 8, end = c.width - half - 8;
  const at = (place, many) => 34 + (height - 44) * (place + .5) / many;
  const x = layer => start + (end - start) * (layer + 1) / layers;
  const ys = t.layers.map(l => l.map((_, i) => at(i, l.length)));
  const value = e => e[state.by], widest = Math.max(...t.edges.map(value), 1e-300);
  const kind = node => node.kind.split(",")[0];
  const edge = (x1, y1, x2, y2, width, name, text) => c.svg.append(say(make("path", { d: `M${x1},${y1}C${(x1 + x2) / 2},${y1} ${(x1 + x2) / 2},${y2} ${x2},${y2}`, class: `edge ${name}`, "stroke-width": (.6 + 8 * width).toFixed(2) }), text));
  for (const e of [...t.edges].sort((a, b) => value(b) - value(a))) {
    const node = first[e.node], terms = e.features.map(([name, v]) => `${name}  ${short(v)}`).join("\n");
    edge(start, at(e.place, columns.length), x(0) - half, ys[0][e.node], value(e) / widest, kind(node), `${columns[e.place].name} → ${node.name} (${node.kind})\nweight ${short(e.weight)}, ${percent(e.share)} of the exponent\n${terms}${e.more ? `\nand ${e.more} more` : ""}`);
  }
  t.layers.slice(0, -1).forEach((layer, l) => {
    const most = Math.max(...layer.map(n => state.by === "weight" ? n.weight : n.share), 1e-300), above = ys[l + 1];
    layer.forEach((node, i) => edge(x(l) + half, ys[l][i], x(l + 1) - half, above[node.parent], (state.by === "weight" ? node.weight : node.share) / most, kind(node), `${node.name} (${node.kind}) → ${t.layers[l + 1][node.parent].name}\nweight ${short(node.weight)}, ${percent(node.share)} of the exponent`));
  });
  columns.forEach((col, i) => {
    const y = at(i, columns.length);
    c.text(room, y + 4, cut(col.name, room / 6.4), "end");
    c.svg.append(say(make("circle", { cx: start, cy: y, r: 4.5, class: "node inner" }), `${col.name}\n${percent(col.share)} of the exponent`));
  });
  const box = (cx, cy, name, label, text) => { c.svg.append(say(make("rect", { x: cx - half, y: cy - 10, width: 2 * half, height: 20, rx: 4, class: `node ${name}` }), text)); c.text(cx, cy + 4, cut(label, half / 3.1), "middle", "label"); };
  t.layers.slice(0, -1).forEach((layer, l) => layer.forEach((node, i) => box(x(l), ys[l][i], kind(node), narrow ? String(i + 1) : node.name, `${node.name}, ${node.kind}\n${percent(node.share)} of the exponent`)));
  box(x(layers - 1), ys.at(-1)[0], "ours", narrow ? "k" : "kernel", `${t.name}\nγ ${short(t.gamma)}, λ ${short(t.lam)}, ${percent(t.share)} of the average`);
  c.text(room, 16, "columns", "end", "soft"); if (layers > 1) c.text(x(0), 16, narrow ? "nodes" : "first layer", "middle", "soft");
  c.text(x(layers - 1), 16, "top", "middle", "soft");
  key("tree", [...new Set(first.map(kind))].map(name => ["s", name, layers > 1 ? `${name} nodes` : `${name}, a single layer`]));
}

function drawRelevance() {
  const rows = data.relevance.order.map(j => ({ name: data.columns[j], mean: data.relevance.mean[j], sd: data.relevance.deviation[j], own: data.relevance.machines.map(m => m[j]) }));
  const step = 24, height = rows.length * step + 40, c = canvas("relevance", height, "Relevance of columns."), room = labelRoom(c.width, rows.map(r => r.name));
  const top = Math.max(...rows.flatMap(r => [r.mean + r.sd, ...r.own]), 1e-300) * 1.04, x = v => room + 8 + (c.width - room - 24) * v / top;
  for (const tick of ticks([0, top], (c.width - room) / 60)) { c.line(x(tick), 4, x(tick), height - 34, "grid"); c.text(x(tick), height - 19, percent(tick), "middle", "soft"); }
  c.text(x(0), height - 3, "share of the exponent", "start", "soft");
  rows.forEach((r, i) => {
    const y = i * step + 16;
    c.text(room, y + 4, cut(r.name, room / 6.4), "end");
    c.svg.append(say(make("rect", { x: x(0), y: y - 7, width: Math.max(1, x(r.mean) - x(0)), height: 14, class: "bar ours" }), `${r.name}\n${percent(r.mean)} of the exponent${r.own.length > 1 ? `\n± ${percent(r.sd)} over ${r.own.length} kernels, ${percent(Math.min(...r.own))} to ${percent(Math.max(...r.own))}` : ""}`));
    if (r.own.length > 1) {
      c.line(x(Math.max(0, r.mean - r.sd)), y, x(r.mean + r.sd), y, "rule");
      for (const v of r.own) c.line(x(v), y - 4, x(v), y + 4, "rule");
    }
  });
}

function drawEffects() {
  const k = state.output, centred = e => (e.curves[k] ?? []).map(curve => curve.map(v => data.task === "regression" ? v - curve[0] + e.mean[k][0] : v));
  const y = wider(data.task === "regression" ? span(data.effects.flatMap(e => [...e.mean[k], ...centred(e).flat()])) : [0, 1]);
  data.effects.forEach((e, i) => {
    const gone = e.labels ? -1 : e.grid.indexOf(null), kept = [...e.mean[k].keys()].filter(p => p !== gone), id = `effect-${i}`;
    const place = p => e.labels ? p : p === gone ? gap : e.grid[p];
    const shown = e.labels ? [0, Math.max(1, kept.length - 1)] : kept.length ? span(kept.map(p => e.grid[p])) : [0, 1];
    const gap = shown[1] + .12 * (shown[1] - shown[0]), range = wider(gone < 0 || e.labels ? shown : [shown[0], gap], e.labels ? .12 : .04);
    const f = frame(id, 200, `Effect of ${e.name}.`, range, y, { yLabel: data.outputs[k], left: 50, xTicks: e.labels ? [] : null });
    for (const curve of centred(e)) f.path(kept.map(p => [place(p), curve[p]]), "line thin svm");
    f.path(kept.map(p => [place(p), e.mean[k][p]]), "line ours");
    const room = (f.X(1) - f.X(0)) / 6.6;
    e.mean[k].forEach((v, p) => {
      const name = e.labels ? e.labels[p] : p === gone ? "missing" : short(e.grid[p]);
      if (e.labels && (room > 3 || e.labels.length < 3)) f.text(f.X(p), f.bottom + 17, cut(name, Math.max(3, room)), "middle", "soft");
      f.point(p === gone ? "D" : "o", "ours", f.X(place(p)), f.Y(v), `${e.name} ${e.labels || p === gone ? "" : "= "}${name}\n${data.outputs[k]} ${short(v)} on average over ${e.rows} rows`);
    });
    if (gone >= 0) f.text(f.X(gap) + 8, f.Y(e.mean[k][gone]) + 18, "missing", "end", "soft");
  });
}

function drawPairs() {
  const p = data.pairs, n = p.columns.length, names = p.columns.map(j => data.columns[j]);
  const probe = document.getElementById("pairs").clientWidth - 24, room = labelRoom(probe, names), top = Math.min(110, room * .8) + 8, size = Math.min(34, (Math.max(280, probe) - room - top) / n);
  const c = canvas("pairs", top + n * size + 8, "Pairs of columns that share nodes."), most = Math.max(...p.share.flatMap((row, a) => row.filter((_, b) => a !== b)), 1e-300);
  names.forEach((name, a) => {
    c.text(room, top + (a + .5) * size + 4, cut(name, room / 6.4), "end");
    c.svg.append(make("text", { transform: `translate(${room + 12 + (a + .5) * size} ${top - 6}) rotate(-45)` }, cut(name, top / 5.4)));
    names.forEach((other, b) => {
      if (a === b) return;
      const v = p.share[a][b], ratio = p.ratio[a][b];
      c.svg.append(say(make("rect", { x: room + 8 + b * size, y: top + a * size, width: size - 1, height: size - 1, class: "cell ours", "fill-opacity": (v / most).toFixed(3) }), `${name} and ${other}\n${percent(2 * v)} of the exponent together${ratio === null ? "" : `\n${ratio.toFixed(2)} × what chance would give`}`));
    });
  });
}

function drawRuns() {
  const runs = data.learning.runs, kinds = [...new Set(runs.map(r => r.kind))], all = runs.flatMap(r => [...r.criterion, ...r.watched]);
  const f = frame("runs", 300, "Training curves.", wider(span(runs.flatMap(r => r.steps))), wider(span(all)), { xLabel: "step", yLabel: data.learning.label });
  for (const r of runs) {
    const look = `k${kinds.indexOf(r.kind)}`;
    f.path(r.steps.map((s, i) => [s, r.criterion[i]]), `line run ${look}`);
    r.watched.forEach((v, i) => f.point("D", look, f.X(r.watched_steps[i]), f.Y(v), `${r.name}, step ${r.watched_steps[i]}\n${short(v)} on rows no gradient has seen`));
    if (r.criterion.length) f.point("o", look, f.X(r.steps.at(-1)), f.Y(r.criterion.at(-1)), `${r.name}, ${plural(r.steps.at(-1), "step")}\n${short(r.criterion[0])} at first, ${short(r.criterion.at(-1))} at the end`);
  }
  key("runs", kinds.map((name, i) => ["o", `k${i}`, name]));
}
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

function drawOptimism() {
  const rows = data.learning.kinds, step = 30, height = rows.length * step + 48, names = rows.map(r => r.chosen ? `${r.name} (chosen)` : r.name);
  const c = canvas("optimism", height, "Optimism of the criterion."), room = labelRoom(c.width, names);
  const range = wider(span(rows.flatMap(r => [r.criterion, r.honest])), .08), x = v => room + 12 + (c.width - room - 28) * (v - range[0]) / (range[1] - range[0]);
  for (const tick of ticks(range, (c.width - room) / 64)) { c.line(x(tick), 4, x(tick), height - 40, "grid"); c.text(x(tick), height - 24, short(tick), "middle", "soft"); }
  c.text(c.width - 16, height - 5, "mean squared error, labels in [-1, 1]", "end", "soft");
  rows.forEach((r, i) => {
    const y = i * step + 18, gap = r.criterion === null ? "" : `\noptimism ${short(r.optimism)}`, look = r.chosen ? "ours" : "svm";
    c.text(room, y + 4, cut(names[i], room / 6.4), "end");
    if (r.criterion !== null) { c.line(x(r.criterion), y, x(r.honest), y, `line ${look}`); c.point("o", `${look} hollow`, x(r.criterion), y, `${names[i]}\ncriterion ${short(r.criterion)}${gap}`); }
    c.point("o", look, x(r.honest), y, `${names[i]}\n${short(r.honest)} on rows set aside${gap}`);
  });
}

function drawScatter() {
  const s = data.fit.outputs[state.output], range = wider(span([...s.actual, ...s.predicted]));
  const f = frame("scatter", 320, `${Judged} predictions against labels.`, range, range, { xLabel: "label", yLabel: `${judged} prediction`, left: 58 });
  f.line(f.X(range[0]), f.Y(range[0]), f.X(range[1]), f.Y(range[1]), "rule dashed");
  s.actual.forEach((y, i) => f.point("o", "ours faint", f.X(y), f.Y(s.predicted[i]), `row ${data.fit.rows[i]}\nlabel ${short(y)}\npredicted ${short(s.predicted[i])}\nresidual ${short(y - s.predicted[i])}`));
}
function bars(id, label, edges, heights, xLabel, yLabel, text) {
  const f = frame(id, 320, label, [edges[0], edges.at(-1)], [0, Math.max(...heights, 1e-300) * 1.05], { xLabel, yLabel, left: 50 });
  heights.forEach((v, i) => f.svg.append(say(make("rect", { x: f.X(edges[i]) + .5, y: f.Y(v), width: Math.max(.5, f.X(edges[i + 1]) - f.X(edges[i]) - 1), height: Math.max(0, f.bottom - f.Y(v)), class: "bar ours" }), text(i))));
}
function drawResiduals() {
  const s = data.fit.outputs[state.output];
  bars("residuals", `${Judged} residuals.`, s.edges, s.counts, "residual: label − prediction", "rows", i => `${short(s.edges[i])} to ${short(s.edges[i + 1])}\n${plural(s.counts[i], "row")}`);
}
function drawRoc() {
  const f = frame("roc", 320, "ROC curves.", [0, 1], [0, 1], { xLabel: "false positive rate", yLabel: "true positive rate", left: 44 });
  f.line(f.X(0), f.Y(0), f.X(1), f.Y(1), "rule dashed");
  data.fit.roc.forEach((r, k) => {
    f.path(r.fpr.map((v, i) => [v, r.tpr[i]]), `line k${k % 8}`);
    const middle = r.tpr.findIndex((v, i) => v - r.fpr[i] === Math.max(...r.tpr.map((t, j) => t - r.fpr[j])));
    f.point("o", `k${k % 8}`, f.X(r.fpr[middle]), f.Y(r.tpr[middle]), `${r.name}\narea under the curve ${r.auc.toFixed(4)}`);
  });
  key("roc", data.fit.roc.map((r, k) => ["o", `k${k % 8}`, `${cut(r.name, 30)}: ${r.auc.toFixed(3)}`]));
}
function drawCalibration() {
  const b = data.fit.calibration, f = frame("calibration", 320, "Calibration.", [0, 1], [0, 1], { xLabel: b.label, yLabel: b.against, left: 44 });
  f.line(f.X(0), f.Y(0), f.X(1), f.Y(1), "rule dashed");
  f.path(b.predicted.map((v, i) => [v, b.observed[i]]), "line ours");
  b.predicted.forEach((v, i) => f.point("o", "ours", f.X(v), f.Y(b.observed[i]), `said ${percent(v)}\nhappened ${percent(b.observed[i])}\n${plural(b.rows[i], "row")}`));
}
function drawCoverage() {
  const c = data.coverage, low = Math.max(0, Math.min(...c.levels, ...c.covered, ...(c.new ?? [])) - .05), f = frame("coverage", 300, "Coverage of intervals.", [low, 1], [low, 1], { xLabel: "coverage asked for", yLabel: "labels inside", left: 44 });
  f.line(f.X(low), f.Y(low), f.X(1), f.Y(1), "rule dashed");
  f.path(c.levels.map((v, i) => [v, c.covered[i]]), "line ours");
  c.levels.forEach((v, i) => f.point("o", "ours", f.X(v), f.Y(c.covered[i]), `asked for ${percent(v)}\n${(100 * c.covered[i]).toFixed(1)} % of ${plural(c.rows, "training row")} inside\nmedian width ${short(c.width[i])}`));
  if (!c.new) return;
  f.path(c.levels.map((v, i) => [v, c.new[i]]), "line k1");
  c.levels.forEach((v, i) => f.point("^", "k1", f.X(v), f.Y(c.new[i]), `asked for ${percent(v)}\n${(100 * c.new[i]).toFixed(1)} % of ${plural(c.new_rows, "new row")} inside`));
  key("coverage", [["o", "ours", "training rows, left out one at a time"], ["^", "k1", "new rows"]]);
}
function drawParts() {
  const c = data.coverage, low = Math.max(0, Math.min(c.asked, ...c.parts.map(p => p.covered)) - .1), f = frame("parts", 300, "Coverage by prediction.", span(c.parts.flatMap(p => [p.low, p.high])), [low, 1], { xLabel: `${judged} prediction`, yLabel: "labels inside", left: 44 });
  f.line(f.left, f.Y(c.asked), f.width - f.right, f.Y(c.asked), "rule dashed");
  for (const p of c.parts) {
    f.line(f.X(p.low), f.Y(p.covered), f.X(p.high), f.Y(p.covered), "line ours");
    f.point("o", "ours", (f.X(p.low) + f.X(p.high)) / 2, f.Y(p.covered), `predictions from ${short(p.low)} to ${short(p.high)}\n${(100 * p.covered).toFixed(1)} % of ${plural(p.rows, "row")} inside, ${percent(c.asked)} asked for`);
  }
}

function drawAll() {
  const drawn = { errors: drawErrors, tree: drawTree, relevance: drawRelevance, "effect-0": drawEffects, pairs: drawPairs, runs: drawRuns, optimism: drawOptimism,
    scatter: drawScatter, residuals: drawResiduals, roc: drawRoc, calibration: drawCalibration, coverage: drawCoverage, parts: drawParts };
  for (const [id, draw] of Object.entries(drawn)) if (has(id)) draw();
}
for (const [id, draw] of [["tree", drawTree], ["by", drawTree], ["output", drawAll]]) document.getElementById(`choose-${id}`)?.addEventListener("change", event => {
  state[id] = id === "by" ? event.target.value : +event.target.value;
  hide(); draw();
});
redraw(drawAll);
