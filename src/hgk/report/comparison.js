// A line for each method: its mean with two standard errors, and its score on every fold.
function drawMethods({ methods, words }) {
  const shown = methods.filter(m => m.mean !== null), left = labelRoom(document.getElementById("methods").clientWidth, shown.map(m => m.name));
  const c = canvas("methods", 46 + 38 * shown.length, "Scores of methods."), right = 14, bottom = 10 + 38 * shown.length;
  const range = wider(span(shown.flatMap(m => [...m.scores, m.mean - 2 * (m.error ?? 0), m.mean + 2 * (m.error ?? 0)])));
  const X = v => left + (c.width - left - right) * (v - range[0]) / (range[1] - range[0]);
  for (const tick of ticks(range, (c.width - left) / 64)) { c.line(X(tick), 6, X(tick), bottom, "grid"); c.text(X(tick), bottom + 16, short(tick), "middle", "soft"); }
  c.text((left + c.width - right) / 2, bottom + 32, words, "middle", "soft");
  shown.forEach((m, i) => {
    const y = 26 + 38 * i, kind = m.name === "hgk" ? "ours" : "grey";
    c.text(left - 8, y + 4, cut(m.name, Math.floor(left / 6.6)), "end");
    m.scores.forEach((v, k) => { if (v !== null) c.point("o", `${kind} faint`, X(v), y, `${m.name}\nfold ${k + 1}: ${short(v)}`); });
    if (m.error !== null) c.line(X(m.mean - 2 * m.error), y, X(m.mean + 2 * m.error), y, `line ${kind}`);
    c.point("D", kind, X(m.mean), y, `${m.name}\nmean ${short(m.mean)}${m.error === null ? "" : ` ± ${short(m.error)}`}\n${short(m.seconds)} s a fold`);
  });
}
