function drawInteractions(found) {
  const rows = found.pairs.map(p => ({ ...p, more: `\nH ${p.H.toFixed(2)}` }));
  drawLosses("interactions", rows, "Interactions of columns.", "share of the loss of the best constant");
}
// Predictions by two columns: the first from left to right, the second from bottom to top.
function drawJoints(found) {
  const k = state.output ?? 0;
  found.joint.forEach((joint, i) => {
    const mean = joint.mean[k] ?? joint.mean[0], texts = joint.grids.map((grid, a) => grid.map((v, p) => joint.labels[a] ? joint.labels[a][p] : v === null ? "missing" : short(v)));
    const [across, up] = [mean.length, mean[0].length], id = `joint-${i}`, probe = Math.max(280, document.getElementById(id).clientWidth - 24);
    const room = Math.min(probe * .34, labelRoom(probe, texts[1])), side = (probe - room - 14) / across, high = Math.min(30, Math.max(18, side)), bottom = 24 + up * high;
    const c = canvas(id, bottom + 40, `Joint effect of ${joint.names[0]} and ${joint.names[1]}.`), [low, top] = span(mean.flat());
    c.text(4, 13, joint.names[1], "start", "soft"); c.text((room + c.width) / 2, bottom + 34, joint.names[0], "middle", "soft");
    let free = room;
    texts[0].forEach((text, p) => {
      const middle = room + 8 + (p + .5) * side, half = Math.min(text.length, 12) * 3.4;
      if (middle - half < free || middle + half > c.width) return;
      c.text(middle, bottom + 16, cut(text, 12), "middle", "soft"); free = middle + half + 6;
    });
    texts[1].forEach((text, q) => c.text(room, bottom - (q + .5) * high + 4, cut(text, room / 6.6), "end", "soft"));
    mean.forEach((line, p) => line.forEach((v, q) => c.svg.append(say(make("rect", { x: room + 8 + p * side, y: bottom - (q + 1) * high, width: Math.max(1, side - 1), height: high - 1,
      class: "cell ours", "fill-opacity": (.06 + .94 * (v - low) / (top - low)).toFixed(3) }), `${joint.names[0]} ${texts[0][p]}\n${joint.names[1]} ${texts[1][q]}\n${outputs[k]} ${short(v)} on average`))));
  });
}
