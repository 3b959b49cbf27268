// Pictures of amounts: what is left of a keyspace, a pool, heartbeats.

// The shares of a keyspace, in the order in which they are drawn.
function sharesOf(space) {
  const capacity = Number(space.capacity) || 1;
  const leased = Number(space.leased), named = Number(space.named);
  return { leased, named, free: Math.max(0, Number(space.remaining)), capacity };
}
// Whether a kind counts keys, so that some are left.
const isCounted = kind => ["shuffled", "sequential", "pooled"].includes(kind);

// A bar of parts. What is there is seen, however small it is: it has at least a few units of the width.
function makeBar() {
  return shape("svg", { class: "parts", viewBox: "0 0 300 10", preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" },
    shape("rect", { class: "free", x: 0, y: 0, width: 300, height: 10 }), shape("rect", { class: "leased", y: 0, height: 10 }), shape("rect", { class: "named", y: 0, height: 10 }));
}
function updateBar(svg, { leased, named, capacity }) {
  const [, one, other] = svg.children;
  const width = value => (value > 0 ? Math.max(4, Math.min(300, (300 * value) / capacity)) : 0);
  const first = Math.min(width(leased), named > 0 ? 296 : 300), second = Math.min(width(named), 300 - first);
  setAttribute(one, "x", 0);
  setAttribute(one, "width", first.toFixed(2));
  setAttribute(other, "x", first.toFixed(2));
  setAttribute(other, "width", second.toFixed(2));
}

// A keyspace on a scale of powers of ten: every step to the right is a thousand times as many keys.
function drawScale(container, { leased, named, capacity }) {
  const width = Math.max(260, container.clientWidth), height = 86, left = 1, right = 1, top = 34, thick = 26;
  const exponent = Math.max(1, Math.log10(capacity));
  const x = value => left + (width - left - right) * (value > 1 ? Math.min(1, Math.log10(value) / exponent) : 0);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, class: "scale", role: "img", focusable: "false" },
    shape("title", { text: `${exact(leased)} leased and ${exact(named)} named of ${compact(capacity)} keys, on a logarithmic scale` }),
    shape("rect", { class: "free", x: left, y: top, width: width - left - right, height: thick, rx: 5 }));
  const used = leased + named;
  if (used > 0) svg.append(shape("rect", { class: "leased", x: left, y: top, width: Math.max(6, x(used) - left).toFixed(1), height: thick, rx: 5 }));
  if (named > 0) svg.append(shape("rect", { class: "named", x: left, y: top + thick - 7, width: Math.max(6, x(named) - left).toFixed(1), height: 7, rx: 3 }));
  const names = ["1", "1K", "1M", "1B", "1T", "10¹⁵", "10¹⁸", "10²¹", "10²⁴", "10²⁷", "10³⁰", "10³³"];
  const step = exponent > 18 && width < 600 ? 6 : 3;
  for (let power = 0; power <= exponent; power += step) {
    const at = x(10 ** power);
    if (power && width - right - at < 64) break;
    svg.append(shape("line", { class: "tick", x1: at.toFixed(1), x2: at.toFixed(1), y1: top + thick, y2: top + thick + 6 }),
      shape("text", { x: at.toFixed(1), y: top + thick + 20, "text-anchor": power ? "middle" : "start", text: names[power / 3] || `10^${power}` }));
  }
  svg.append(shape("text", { x: width - right, y: top + thick + 20, "text-anchor": "end", class: "strong", text: `${compact(capacity)} keys` }));
  if (used > 0) {
    const at = Math.max(6, x(used)), isRight = at > width - 190;
    svg.append(shape("line", { class: "pointer", x1: at.toFixed(1), x2: at.toFixed(1), y1: 20, y2: top + thick }),
      shape("text", { x: (isRight ? at - 6 : at + 6).toFixed(1), y: 26, "text-anchor": isRight ? "end" : "start", class: "strong", text: `${compact(used)} in use or leased` }));
  } else {
    svg.append(shape("text", { x: left, y: 26, text: "nothing leased yet" }));
  }
  container.replaceChildren(svg);
}

// A level between 0 and a maximum, with a mark.
function drawLevel(container, { value, max, mark, label }) {
  const width = Math.max(200, container.clientWidth), x = amount => (width * Math.min(1, amount / (max || 1)));
  const svg = shape("svg", { viewBox: `0 0 ${width} 18`, class: "level", role: "img", focusable: "false" }, shape("title", { text: label }),
    shape("rect", { class: "free", x: 0, y: 3, width, height: 12, rx: 6 }));
  if (value > 0) svg.append(shape("rect", { class: "leased", x: 0, y: 3, width: Math.max(12, x(value)).toFixed(1), height: 12, rx: 6 }));
  if (mark > 0) svg.append(shape("line", { class: "mark-line", x1: x(mark).toFixed(1), x2: x(mark).toFixed(1), y1: 0, y2: 18 }));
  container.replaceChildren(svg);
}

// The heartbeats of an instance over two minutes, each a tick.
const BEATS = { width: 120, height: 20, span: 120000 };
function makeBeats() {
  return shape("svg", { class: "beats", viewBox: `0 0 ${BEATS.width} ${BEATS.height}`, "aria-hidden": "true", focusable: "false" }, shape("path", { class: "base" }), shape("path", { class: "line" }));
}
function updateBeats(svg, beats) {
  const middle = BEATS.height / 2, x = at => BEATS.width * (1 - (serverNow() - at) / BEATS.span);
  const ticks = beats.filter(at => x(at) > 3 && x(at) < BEATS.width)
    .map(at => `M${(x(at) - 2.5).toFixed(1)} ${middle}l1.2 -6l1.6 11l1.2 -5`).join("");
  setAttribute(svg.children[0], "d", `M0 ${middle}H${BEATS.width}`);
  setAttribute(svg.children[1], "d", ticks);
}
