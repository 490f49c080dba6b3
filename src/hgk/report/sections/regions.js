function drawRegions(regions) {
  const levels = Math.max(...regions.map(r => r.depth)) + 1, step = 46, c = canvas("regions", levels * step + 6, "Where which column matters.");
  const total = Math.max(...regions.map(r => r.stop), 1), x = v => 2 + (c.width - 4) * v / total;
  const top = Math.max(...regions.map(r => r.error ?? 0), 1e-300), list = pairs => pairs.map(([name, share]) => `${name} ${percent(share)}`).join(", ");
  for (const r of regions) {
    const y = r.depth * step + 3, width = Math.max(1, x(r.stop) - x(r.start) - 2), rows = r.stop - r.start;
    const text = [plural(rows, "row"), r.leaves > 1 ? plural(r.leaves, "leaf").replace("leafs", "leaves") : "one leaf"].join(", ") +
      (r.error === null ? "" : `\nmean squared error ${number(r.error)}`) + (r.columns.length ? `\nmatter: ${list(r.columns)}` : "") + (r.mixes.length ? `\nsplit by ${list(r.mixes)}` : "");
    c.svg.append(say(make("rect", { x: x(r.start) + 1, y, width, height: step - 6, rx: 3, class: "cell k0", "fill-opacity": (.12 + .6 * (r.error ?? 0) / top).toFixed(3) }), text));
    const room = Math.floor((width - 10) / 6.6);
    if (room > 3 && r.columns.length) {
      c.text(x(r.start) + 7, y + 16, cut(r.columns[0][0], room), "start", "label");
      if (r.columns.length > 1) c.text(x(r.start) + 7, y + 32, cut(r.columns[1][0], room), "start", "label soft");
    }
  }
}
