function drawRuns({ runs, label }) {
  const kinds = [...new Set(runs.map(r => r.kind))], all = runs.flatMap(r => [...r.criterion, ...r.watched]);
  const f = frame("runs", 300, "Training curves.", wider(span(runs.flatMap(r => r.steps))), wider(span(all)), { xLabel: "step", yLabel: label });
  for (const r of runs) {
    const look = series(kinds.indexOf(r.kind));
    f.path(r.steps.map((s, i) => [s, r.criterion[i]]), `line run ${look}`);
    r.watched.forEach((v, i) => f.point("D", look, f.X(r.watched_steps[i]), f.Y(v), `${r.name}, step ${r.watched_steps[i]}\n${short(v)} on rows no gradient has seen`));
    if (r.criterion.length) f.point("o", look, f.X(r.steps.at(-1)), f.Y(r.criterion.at(-1)), `${r.name}, ${plural(r.steps.at(-1), "step")}\n${short(r.criterion[0])} at first, ${short(r.criterion.at(-1))} at the end`);
  }
  key("runs", kinds.map((name, i) => ["o", series(i), name]));
}

function drawOptimism({ kinds: rows }) {
  const step = 30, height = rows.length * step + 48, names = rows.map(r => r.chosen ? `${r.name} (chosen)` : r.name);
  const c = canvas("optimism", height, "Optimism of the criterion."), room = labelRoom(c.width, names);
  const range = wider(span(rows.flatMap(r => [r.criterion, r.honest])), .08), x = v => room + 12 + (c.width - room - 28) * (v - range[0]) / (range[1] - range[0]);
  for (const tick of ticks(range, (c.width - room) / 64)) { c.line(x(tick), 4, x(tick), height - 40, "grid"); c.text(x(tick), height - 24, short(tick), "middle", "soft"); }
  c.text(c.width - 16, height - 5, "mean squared error, labels in [-1, 1]", "end", "soft");
  rows.forEach((r, i) => {
    const y = i * step + 18, gap = r.criterion === null ? "" : `\noptimism ${short(r.optimism)}`, look = r.chosen ? "ours" : "grey";
    c.text(room, y + 4, cut(names[i], room / 6.4), "end");
    if (r.criterion !== null) { c.line(x(r.criterion), y, x(r.honest), y, `line ${look}`); c.point("o", `${look} hollow`, x(r.criterion), y, `${names[i]}\ncriterion ${short(r.criterion)}${gap}`); }
    c.point("o", look, x(r.honest), y, `${names[i]}\n${short(r.honest)} on rows set aside${gap}`);
  });
}
