// The kernel as in the paper's Figure 1: columns at the left, then layer after layer, the top node at the right.
function drawTree(trees) {
  const t = trees[state.tree], columns = t.columns, first = t.layers[0], step = 27, layers = t.layers.length;
  const tallest = Math.max(columns.length, ...t.layers.map(l => l.length)), height = tallest * step + 44;
  const c = canvas("tree", height, "The kernel as a tree."), names = columns.map(col => col.name), room = labelRoom(c.width, names);
  const narrow = c.width < 520, half = narrow ? 20 : 48, start = room + 8, end = c.width - half - 8;
  const at = (place, many) => 34 + (height - 44) * (place + .5) / many;
  const x = layer => start + (end - start) * (layer + 1) / layers;
  const ys = t.layers.map(l => l.map((_, i) => at(i, l.length)));
  const value = e => e[state.by], widest = Math.max(...t.edges.map(value), 1e-300);
  const edge = (x1, y1, x2, y2, width, name, text) => c.svg.append(say(make("path", { d: `M${x1},${y1}C${(x1 + x2) / 2},${y1} ${(x1 + x2) / 2},${y2} ${x2},${y2}`, class: `edge ${name}`, "stroke-width": (.6 + 8 * width).toFixed(2) }), text));
  for (const e of [...t.edges].sort((a, b) => value(b) - value(a))) {
    const node = first[e.node], terms = e.features.map(([name, v]) => `${name}  ${short(v)}`).join("\n");
    edge(start, at(e.place, columns.length), x(0) - half, ys[0][e.node], value(e) / widest, node.look, `${columns[e.place].name} → ${node.name} (${node.kind})\nweight ${short(e.weight)}, ${percent(e.share)} of the exponent\n${terms}${e.more ? `\nand ${e.more} more` : ""}`);
  }
  t.layers.slice(0, -1).forEach((layer, l) => {
    const most = Math.max(...layer.map(n => state.by === "weight" ? n.weight : n.share), 1e-300), above = ys[l + 1];
    layer.forEach((node, i) => edge(x(l) + half, ys[l][i], x(l + 1) - half, above[node.parent], (state.by === "weight" ? node.weight : node.share) / most, node.look, `${node.name} (${node.kind}) → ${t.layers[l + 1][node.parent].name}\nweight ${short(node.weight)}, ${percent(node.share)} of the exponent`));
  });
  columns.forEach((col, i) => {
    const y = at(i, columns.length);
    c.text(room, y + 4, cut(col.name, room / 6.4), "end");
    c.svg.append(say(make("circle", { cx: start, cy: y, r: 4.5, class: "node grey" }), `${col.name}\n${percent(col.share)} of the exponent`));
  });
  const box = (cx, cy, name, label, text) => { c.svg.append(say(make("rect", { x: cx - half, y: cy - 10, width: 2 * half, height: 20, rx: 4, class: `node ${name}` }), text)); c.text(cx, cy + 4, cut(label, half / 3.1), "middle", "label"); };
  t.layers.slice(0, -1).forEach((layer, l) => layer.forEach((node, i) => box(x(l), ys[l][i], node.look, narrow ? String(i + 1) : node.name, `${node.name}, ${node.kind}\n${percent(node.share)} of the exponent`)));
  box(x(layers - 1), ys.at(-1)[0], "ours", narrow ? "k" : "kernel", `${t.name}\nγ ${short(t.gamma)}, λ ${short(t.lam)}, ${percent(t.share)} of the average`);
  c.text(room, 16, "columns", "end", "soft"); if (layers > 1) c.text(x(0), 16, narrow ? "nodes" : "first layer", "middle", "soft");
  c.text(x(layers - 1), 16, "top", "middle", "soft");
  key("tree", [...new Map(first.map(node => [node.look, node.family]))].map(([look, name]) => ["s", look, layers > 1 ? `${name} nodes` : `${name}, a single layer`]));
}
