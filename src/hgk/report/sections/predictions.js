function drawScatter({ rows, outputs }) {
  const s = outputs[state.output], range = wider(span([...s.actual, ...s.predicted]));
  const f = frame("scatter", 320, `${Judged} predictions against labels.`, range, range, { xLabel: "label", yLabel: `${judged} prediction`, left: 58 });
  f.line(f.X(range[0]), f.Y(range[0]), f.X(range[1]), f.Y(range[1]), "rule dashed");
  s.actual.forEach((y, i) => f.point("o", "ours faint", f.X(y), f.Y(s.predicted[i]), `row ${rows[i]}\nlabel ${short(y)}\npredicted ${short(s.predicted[i])}\nresidual ${short(y - s.predicted[i])}`));
}
function bars(id, label, edges, heights, xLabel, yLabel, text) {
  const f = frame(id, 320, label, [edges[0], edges.at(-1)], [0, Math.max(...heights, 1e-300) * 1.05], { xLabel, yLabel, left: 50 });
  heights.forEach((v, i) => f.svg.append(say(make("rect", { x: f.X(edges[i]) + .5, y: f.Y(v), width: Math.max(.5, f.X(edges[i + 1]) - f.X(edges[i]) - 1), height: Math.max(0, f.bottom - f.Y(v)), class: "bar ours" }), text(i))));
}
function drawResiduals({ outputs }) {
  const s = outputs[state.output];
  bars("residuals", `${Judged} residuals.`, s.edges, s.counts, "residual: label − prediction", "rows", i => `${short(s.edges[i])} to ${short(s.edges[i + 1])}\n${plural(s.counts[i], "row")}`);
}
function drawRoc({ roc }) {
  const f = frame("roc", 320, "ROC curves.", [0, 1], [0, 1], { xLabel: "false positive rate", yLabel: "true positive rate", left: 44 });
  f.line(f.X(0), f.Y(0), f.X(1), f.Y(1), "rule dashed");
  roc.forEach((r, k) => {
    f.path(r.fpr.map((v, i) => [v, r.tpr[i]]), `line ${series(k)}`);
    const middle = r.tpr.findIndex((v, i) => v - r.fpr[i] === Math.max(...r.tpr.map((t, j) => t - r.fpr[j])));
    f.point("o", series(k), f.X(r.fpr[middle]), f.Y(r.tpr[middle]), `${r.name}\narea under the curve ${r.auc.toFixed(4)}`);
  });
  key("roc", roc.map((r, k) => ["o", series(k), `${cut(r.name, 30)}: ${r.auc.toFixed(3)}`]));
}
function drawCalibration({ calibration: b }) {
  const f = frame("calibration", 320, "Calibration.", [0, 1], [0, 1], { xLabel: b.label, yLabel: b.against, left: 44 });
  f.line(f.X(0), f.Y(0), f.X(1), f.Y(1), "rule dashed");
  f.path(b.predicted.map((v, i) => [v, b.observed[i]]), "line ours");
  b.predicted.forEach((v, i) => f.point("o", "ours", f.X(v), f.Y(b.observed[i]), `predicted ${percent(v)}\nobserved ${percent(b.observed[i])}\n${plural(b.rows[i], "row")}`));
}
function drawCoverage({ coverage: c }) {
  const low = Math.max(0, Math.min(...c.levels, ...c.covered, ...(c.new ?? [])) - .05), f = frame("coverage", 300, "Coverage of intervals.", [low, 1], [low, 1], { xLabel: "coverage requested", yLabel: "labels inside", left: 44 });
  f.line(f.X(low), f.Y(low), f.X(1), f.Y(1), "rule dashed");
  f.path(c.levels.map((v, i) => [v, c.covered[i]]), "line ours");
  c.levels.forEach((v, i) => f.point("o", "ours", f.X(v), f.Y(c.covered[i]), `${percent(v)} requested\n${(100 * c.covered[i]).toFixed(1)} % of ${plural(c.rows, "training row")} inside\nmedian width ${short(c.width[i])}`));
  if (!c.new) return;
  f.path(c.levels.map((v, i) => [v, c.new[i]]), "line k1");
  c.levels.forEach((v, i) => f.point("^", "k1", f.X(v), f.Y(c.new[i]), `${percent(v)} requested\n${(100 * c.new[i]).toFixed(1)} % of ${plural(c.new_rows, "new row")} inside`));
  key("coverage", [["o", "ours", "training rows, left out one at a time"], ["^", "k1", "new rows"]]);
}
function drawParts({ coverage: c }) {
  const low = Math.max(0, Math.min(c.asked, ...c.parts.map(p => p.covered)) - .1), f = frame("parts", 300, "Coverage by prediction.", span(c.parts.flatMap(p => [p.low, p.high])), [low, 1], { xLabel: `${judged} prediction`, yLabel: "labels inside", left: 44 });
  f.line(f.left, f.Y(c.asked), f.width - f.right, f.Y(c.asked), "rule dashed");
  for (const p of c.parts) {
    f.line(f.X(p.low), f.Y(p.covered), f.X(p.high), f.Y(p.covered), "line ours");
    f.point("o", "ours", (f.X(p.low) + f.X(p.high)) / 2, f.Y(p.covered), `predictions from ${short(p.low)} to ${short(p.high)}\n${(100 * p.covered).toFixed(1)} % of ${plural(p.rows, "row")} inside, ${percent(c.asked)} requested`);
  }
}
