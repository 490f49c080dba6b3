function drawEffects(effects) {
  const k = state.output, centred = e => (e.curves[k] ?? []).map(curve => curve.map(v => task === "regression" ? v - curve[0] + e.mean[k][0] : v));
  const y = wider(task === "regression" ? span(effects.flatMap(e => [...e.mean[k], ...centred(e).flat()])) : [0, 1]);
  effects.forEach((e, i) => {
    const gone = e.labels ? -1 : e.grid.indexOf(null), kept = [...e.mean[k].keys()].filter(p => p !== gone), id = `effect-${i}`;
    const place = p => e.labels ? p : p === gone ? gap : e.grid[p];
    const shown = e.labels ? [0, Math.max(1, kept.length - 1)] : kept.length ? span(kept.map(p => e.grid[p])) : [0, 1];
    const gap = shown[1] + .12 * (shown[1] - shown[0]), range = wider(gone < 0 || e.labels ? shown : [shown[0], gap], e.labels ? .12 : .04);
    const f = frame(id, 200, `Effect of ${e.name}.`, range, y, { yLabel: outputs[k], left: 50, xTicks: e.labels ? [] : null });
    for (const curve of centred(e)) f.path(kept.map(p => [place(p), curve[p]]), "line thin grey");
    f.path(kept.map(p => [place(p), e.mean[k][p]]), "line ours");
    const room = (f.X(1) - f.X(0)) / 6.6;
    e.mean[k].forEach((v, p) => {
      const name = e.labels ? e.labels[p] : p === gone ? "missing" : short(e.grid[p]);
      if (e.labels && (room > 3 || e.labels.length < 3)) f.text(f.X(p), f.bottom + 17, cut(name, Math.max(3, room)), "middle", "soft");
      f.point(p === gone ? "D" : "o", "ours", f.X(place(p)), f.Y(v), `${e.name} ${e.labels || p === gone ? "" : "= "}${name}\n${outputs[k]} ${short(v)} on average over ${e.rows} rows`);
    });
    if (gone >= 0) f.text(f.X(gap) + 8, f.Y(e.mean[k][gone]) + 18, "missing", "end", "soft");
  });
}
