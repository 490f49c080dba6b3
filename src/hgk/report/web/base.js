const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");

// Tables: a click or a key on a heading sorts by it, again the other way; cells without a value stay last.
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const th = button.closest("th"), table = th.closest("table"), place = th.cellIndex;
  const down = th.getAttribute("aria-sort") === "ascending";
  for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", down ? "descending" : "ascending");
  const value = row => row.cells[place].dataset.value ?? "", isText = th.dataset.kind === "text";
  const compare = (a, b) => {
    const x = value(a), y = value(b);
    if (x === "" || y === "") return (x === "") - (y === "");
    return (isText ? x.localeCompare(y) : x - y) * (down ? -1 : 1);
  };
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
});

// Figures.
const make = (name, attributes = {}, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
};
const polygon = (n, turn, radius) => [...Array(n).keys()].map(i => {
  const angle = 2 * Math.PI * (i / n + turn), r = Array.isArray(radius) ? radius[i % radius.length] : radius;
  return `${(r * Math.sin(angle)).toFixed(2)},${(-r * Math.cos(angle)).toFixed(2)}`;
}).join(" L");
const cross = "-1.6,-5.5 L1.6,-5.5 L1.6,-1.6 L5.5,-1.6 L5.5,1.6 L1.6,1.6 L1.6,5.5 L-1.6,5.5 L-1.6,1.6 L-5.5,1.6 L-5.5,-1.6 L-1.6,-1.6";
const saltire = "0,-2.3 L3.2,-5.5 L5.5,-3.2 L2.3,0 L5.5,3.2 L3.2,5.5 L0,2.3 L-3.2,5.5 L-5.5,3.2 L-2.3,0 L-5.5,-3.2 L-3.2,-5.5";
const shapes = { o: polygon(24, 0, 5), s: polygon(4, .125, 6), "^": polygon(3, 0, 6.2), v: polygon(3, .5, 6.2), "<": polygon(3, .75, 6.2),
  ">": polygon(3, .25, 6.2), D: polygon(4, 0, 6.2), P: cross, X: saltire, h: polygon(6, 0, 5.5), "*": polygon(10, 0, [7, 3]),
  p: polygon(5, 0, 5.8), d: polygon(4, 0, [6.5, 3.8]), 8: polygon(8, 0, 5.3) };
const shape = (name, kind, x, y) => make("path", { d: `M${shapes[name]}Z`, transform: `translate(${x} ${y})`, class: `point ${kind}` });
const number = x => x.toPrecision(4);
const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

function show(point) {
  const svg = point.ownerSVGElement;
  svg.querySelector(".on")?.classList.remove("on");
  point.classList.add("on");
  tip.textContent = point.dataset.text;
  const at = point.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(at.right + 8, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(4, Math.min(at.bottom + 6, innerHeight - tip.offsetHeight - 8))}px`;
}
function hide() { tip.textContent = ""; document.querySelector("svg .on")?.classList.remove("on"); }

function watch(svg) {
  svg.addEventListener("pointerover", event => event.target.dataset.text ? show(event.target) : hide());
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    const points = [...svg.querySelectorAll("[data-text]")], place = points.findIndex(p => p.matches(".on"));
    if (points.length) show(points[place < 0 ? 0 : (place + step + points.length) % points.length]);
  });
}
function canvas(id, height, label) {
  const figure = document.getElementById(id), width = Math.max(280, figure.clientWidth - 24);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img", "aria-label": `${label} Arrow keys go from point to point.` });
  figure.querySelector("svg")?.remove();
  (figure.querySelector(".controls") ?? figure.querySelector("h3")).after(svg);
  watch(svg);
  return { svg, width, line: (x1, y1, x2, y2, kind) => svg.append(make("line", { x1, y1, x2, y2, class: kind })),
    text: (x, y, text, anchor = "start", kind = "") => svg.append(make("text", { x, y, "text-anchor": anchor, class: kind }, text)),
    point: (name, kind, x, y, text) => { const node = shape(name, kind, x, y); node.dataset.text = text; svg.append(node); return node; } };
}
function logTicks(low, high, room) {
  for (const digits of [[1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let e = Math.max(-324, Math.floor(Math.log10(low))); e <= Math.min(308, Math.ceil(Math.log10(high))); e++)
      for (const d of digits) if (d * 10 ** e >= low && d * 10 ** e <= high) ticks.push(+(d * 10 ** e).toPrecision(3));
    if (ticks.length <= room || digits.length === 1) return ticks;
  }
}
// ``draw`` now, and again whenever the window has another width.
function redraw(draw) {
  let width = innerWidth;
  draw(); // at once, so that a page that has loaded is drawn; the observer's first call comes a frame later
  new ResizeObserver(() => { if (innerWidth !== width) { width = innerWidth; hide(); draw(); } }).observe(document.body);
  addEventListener("scroll", hide, { passive: true });
}
