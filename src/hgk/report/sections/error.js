const methodLooks = { "this model": ["o", "ours"], "plain Gaussian SVM": ["s", "svm"], "random forest": ["^", "forest"] };
function drawErrors(rows) {
  const step = 28, height = rows.length * step + 44, names = rows.map(r => `${r.method}, ${r.basis}`);
  const c = canvas("errors", height, "Errors of this model and of others."), left = Math.min(c.width * .5, 250), top = Math.max(...rows.map(r => r.risk), 1e-300) * 1.08;
  const x = v => left + (c.width - left - 16) * v / top;
  for (const tick of ticks([0, top], (c.width - left) / 64)) { c.line(x(tick), 4, x(tick), height - 40, "grid"); c.text(x(tick), height - 24, short(tick), "middle", "soft"); }
  c.text(c.width - 16, height - 5, "mean squared error, labels in [-1, 1]", "end", "soft");
  rows.forEach((r, i) => {
    const [name, kind] = methodLooks[r.method], y = i * step + 18;
    c.text(left - 10, y + 4, cut(names[i], left / 7), "end");
    c.line(x(0), y, x(r.risk), y, `line ${kind}`);
    const more = [r.rmse === null ? null : `root mean squared error ${short(r.rmse)}`, r.wrong === null ? null : `wrong classes ${percent(r.wrong)}`, r.r2 === null ? null : `R² ${r.r2.toFixed(3)}`];
    c.point(name, kind, x(r.risk), y, [names[i], `mean squared error ${short(r.risk)}`, ...more.filter(t => t)].join("\n"));
  });
}
