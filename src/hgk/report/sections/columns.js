function drawImportance(found) {
  const rows = found.order.map(j => ({ name: columnNames[j], shown: found.shown[j], mean: found.mean[j], error: found.error[j], own: found.repeats.map(r => r[j]) }));
  drawLosses("importance", rows, "Importance of columns.", "share of the loss of the best constant");
}
// Bars of what predictions lose, with two standard errors; "none" where that is noise.
function drawLosses(id, rows, label, axis) {
  const step = 24, height = rows.length * step + 40, c = canvas(id, height, label), room = labelRoom(c.width, rows.map(r => r.name));
  const top = Math.max(...rows.map(r => r.shown ? r.mean + 2 * r.error : 0), 1e-300) * 1.04, x = v => room + 8 + (c.width - room - 24) * Math.min(Math.max(v, 0), top) / top;
  for (const tick of ticks([0, top], (c.width - room) / 60)) { c.line(x(tick), 4, x(tick), height - 34, "grid"); c.text(x(tick), height - 19, short(tick), "middle", "soft"); }
  c.text(x(0), height - 3, axis, "start", "soft");
  rows.forEach((r, i) => {
    const y = i * step + 16, measured = `${short(r.mean)} ± ${short(r.error)}`;
    c.text(room, y + 4, cut(r.name, room / 6.4), "end");
    const text = `${r.name}\n${r.shown ? measured : `none (${measured} is within noise)`}${r.more ?? ""}`;
    c.svg.append(say(make("rect", { x: x(0), y: y - 7, width: Math.max(1, x(r.shown) - x(0)), height: 14, class: "bar ours" }), text));
    if (!r.shown) { c.text(x(0) + 6, y + 4, "none", "start", "soft"); return; }
    c.line(x(r.mean - 2 * r.error), y, x(r.mean + 2 * r.error), y, "rule");
    for (const v of r.own ?? []) c.line(x(v), y - 4, x(v), y + 4, "rule");
  });
}
