function drawRelevance(relevance) {
  const rows = relevance.order.map(j => ({ name: columnNames[j], mean: relevance.mean[j], sd: relevance.deviation[j], own: relevance.kernels.map(m => m[j]) }));
  const step = 24, height = rows.length * step + 40, c = canvas("relevance", height, "Importance of columns."), room = labelRoom(c.width, rows.map(r => r.name));
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
