function drawPairs(p) {
  const n = p.columns.length, names = p.columns.map(j => columnNames[j]);
  const probe = document.getElementById("pairs").clientWidth - 24, room = labelRoom(probe, names), top = Math.min(110, room * .8) + 8, size = Math.min(34, (Math.max(280, probe) - room - top) / n);
  const c = canvas("pairs", top + n * size + 8, "Pairs of columns that share nodes."), most = Math.max(...p.share.flatMap((row, a) => row.filter((_, b) => a !== b)), 1e-300);
  names.forEach((name, a) => {
    c.text(room, top + (a + .5) * size + 4, cut(name, room / 6.4), "end");
    c.svg.append(make("text", { transform: `translate(${room + 12 + (a + .5) * size} ${top - 6}) rotate(-45)` }, cut(name, top / 5.4)));
    names.forEach((other, b) => {
      if (a === b) return;
      const v = p.share[a][b], ratio = p.ratio[a][b];
      c.svg.append(say(make("rect", { x: room + 8 + b * size, y: top + a * size, width: size - 1, height: size - 1, class: "cell ours", "fill-opacity": (v / most).toFixed(3) }), `${name} and ${other}\n${percent(2 * v)} of the exponent together${ratio === null ? "" : `\n${ratio.toFixed(2)} × what chance would give`}`));
    });
  });
}
