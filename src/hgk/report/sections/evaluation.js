const testOutput = outputs => outputs[state["test-output"] ?? 0];
function drawTestScatter({ rows, outputs }) {
  const s = testOutput(outputs), range = wider(span([...s.actual, ...s.predicted]));
  const f = frame("test-scatter", 320, "Test predictions against labels.", range, range, { xLabel: "label", yLabel: "prediction", left: 58 });
  f.line(f.X(range[0]), f.Y(range[0]), f.X(range[1]), f.Y(range[1]), "rule dashed");
  s.actual.forEach((y, i) => f.point("o", "ours faint", f.X(y), f.Y(s.predicted[i]), `row ${rows[i]}\nlabel ${short(y)}\npredicted ${short(s.predicted[i])}`));
}
function drawTestResiduals({ rows, outputs }) {
  const s = testOutput(outputs), r = s.actual.map((y, i) => y - s.predicted[i]);
  const f = frame("test-residuals", 320, "Test residuals.", wider(span(s.predicted)), wider(span([...r, 0])), { xLabel: "prediction", yLabel: "label − prediction", left: 58 });
  f.line(f.left, f.Y(0), f.width - f.right, f.Y(0), "rule dashed");
  r.forEach((v, i) => f.point("o", "ours faint", f.X(s.predicted[i]), f.Y(v), `row ${rows[i]}\npredicted ${short(s.predicted[i])}\nresidual ${short(v)}`));
}
// A value with a line of two standard errors to either side, within [0, 1].
function withError(f, x, y, error, text) {
  f.line(f.X(x), f.Y(Math.max(0, y - 2 * error)), f.X(x), f.Y(Math.min(1, y + 2 * error)), "line ours");
  f.point("o", "ours", f.X(x), f.Y(y), text);
}
function drawTestCalibration({ calibration: b }) {
  const f = frame("test-calibration", 320, "Test calibration.", [0, 1], [0, 1], { xLabel: b.label, yLabel: b.against, left: 44 });
  f.line(f.X(0), f.Y(0), f.X(1), f.Y(1), "rule dashed");
  b.predicted.forEach((v, i) => withError(f, v, b.observed[i], b.errors[i], `predicted ${percent(v)}\nobserved ${percent(b.observed[i])}\n${plural(b.rows[i], "row")}`));
}
function drawTestRoc({ roc }) {
  const f = frame("test-roc", 320, "Test ROC curves.", [0, 1], [0, 1], { xLabel: "false positive rate", yLabel: "true positive rate", left: 44 });
  f.line(f.X(0), f.Y(0), f.X(1), f.Y(1), "rule dashed");
  roc.forEach((r, k) => f.path(r.fpr.map((v, i) => [v, r.tpr[i]]), `line ${series(k)}`));
  key("test-roc", roc.map((r, k) => ["o", series(k), `${cut(r.name, 30)}: ${r.auc.toFixed(3)}`]));
}
function drawTestLevels({ levels, below, errors }) {
  const f = frame("test-levels", 320, "Labels below each quantile.", [0, 1], [0, 1], { xLabel: "level", yLabel: "labels below", left: 44 });
  f.line(f.X(0), f.Y(0), f.X(1), f.Y(1), "rule dashed");
  levels.forEach((v, i) => withError(f, v, below[i], errors[i], `level ${short(v)}\n${percent(below[i])} of the labels below`));
}
