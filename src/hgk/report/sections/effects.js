function drawEffects(effects) {
  const k = state.output, centred = e => (e.curves[k] ?? []).map(curve => curve.map(v => task === "regression" ? v - curve[0] + e.mean[k][0] : v));
  const y = wider(task === "regression" ? span(effects.flatMap(e => e.labels ? e.mean[k] : [...e.mean[k], ...centred(e).flat()])) : [0, 1]);
  effects.forEach((e, i) => e.labels ? drawCategories(`effect-${i}`, e, k, y) : drawCurve(`effect-${i}`, e, k, y, centred(e)));
}
function drawCurve(id, e, k, y, curves) {
  const gone = e.grid.indexOf(null), kept = [...e.mean[k].keys()].filter(p => p !== gone), place = p => p === gone ? gap : e.grid[p];
  const shown = kept.length ? span(kept.map(p => e.grid[p])) : [0, 1];
  const gap = shown[1] + .12 * (shown[1] - shown[0]), range = wider(gone < 0 ? shown : [shown[0], gap]);
  const f = frame(id, 200, `Effect of ${e.name}.`, range, y, { yLabel: outputs[k], left: 50 });
  for (const curve of curves) f.path(kept.map(p => [place(p), curve[p]]), "line thin grey");
  f.path(kept.map(p => [place(p), e.mean[k][p]]), "line ours");
  e.mean[k].forEach((v, p) => {
    const name = p === gone ? "missing" : e.dates ? e.dates[p] : short(e.grid[p]);
    f.point(p === gone ? "D" : "o", "ours", f.X(place(p)), f.Y(v), `${e.name} ${p === gone ? "" : "= "}${name}\n${outputs[k]} ${short(v)} on average over ${e.rows} rows`);
  });
  if (gone >= 0) f.text(f.X(gap) + 8, f.Y(e.mean[k][gone]) + 18, "missing", "end", "soft");
}
// Categories from top to bottom in the order of their effects, each with a line of its own, so that no label meets another.
function drawCategories(id, e, k, range) {
  const step = 22, height = Math.max(120, e.labels.length * step + 52), c = canvas(id, height, `Effect of ${e.name}.`), room = labelRoom(c.width, e.labels);
  const low = task === "regression" ? range[0] : 0, x = v => room + 8 + (c.width - room - 24) * (v - low) / (range[1] - low);
  for (const tick of ticks([low, range[1]], (c.width - room) / 60)) { c.line(x(tick), 20, x(tick), height - 20, "grid"); c.text(x(tick), height - 5, short(tick), "middle", "soft"); }
  c.text(4, 13, outputs[k], "start", "soft");
  e.labels.forEach((label, p) => {
    const v = e.mean[k][p], y = 24 + (p + .5) * step;
    c.text(room, y + 4, cut(label, room / 6.4), "end");
    c.svg.append(say(make("rect", { x: x(low), y: y - 7, width: Math.max(1, x(v) - x(low)), height: 14, class: "bar ours" }), `${e.name} ${label}\n${outputs[k]} ${short(v)} on average over ${e.rows} rows`));
  });
}
