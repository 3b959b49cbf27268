// Charts over time, drawn as SVG: an area for one line, lines for several.

const CHART_MARGIN = { left: 44, right: 8, top: 10, bottom: 20 };

// A round number at or above a value: 1, 2 or 5 times a power of ten.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const base = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map(step => step * base).find(step => step >= value * 0.999);
}

// A chart in a container. `lines` are fields of points with a class and a name; `format` writes their values.
function makeChart(id, { lines, format, unit, readout }) {
  const container = byId(id);
  const svg = shape("svg", { role: "img", class: "plot", focusable: "false" });
  const title = shape("title");
  const gradient = shape("linearGradient", { id: `${id}-fade`, x1: 0, x2: 0, y1: 0, y2: 1 },
    shape("stop", { offset: "0", class: "fade-top" }), shape("stop", { offset: "1", class: "fade-end" }));
  const grid = shape("g", { class: "grid" }), area = shape("path", { class: "area", fill: `url(#${id}-fade)` });
  const paths = lines.map(line => shape("path", { class: `line ${line.class}` }));
  const cursor = shape("g", { class: "cursor", visibility: "hidden" }, shape("line"), ...lines.map(line => shape("circle", { r: 3.5, class: line.class })));
  const empty = shape("text", { class: "empty", "text-anchor": "middle" });
  const last = shape("circle", { r: 3.5, class: `tip ${lines[0].class}`, visibility: "hidden" });
  svg.append(title, shape("defs", {}, gradient), grid, ...(lines.length === 1 ? [area] : []), ...paths, last, cursor, empty);
  container.append(svg);
  const chart = { points: [], place: null };

  function draw() {
    const width = Math.max(160, container.clientWidth), height = Math.max(90, container.clientHeight);
    setAttribute(svg, "viewBox", `0 0 ${width} ${height}`);
    const { left, right, top, bottom } = CHART_MARGIN;
    const now = Date.now(), points = chart.points;
    // It opens up from a few seconds to all of the time.
    const span = Math.min(SPAN_MS, Math.max(20000, points.length ? now - points[0].at : 0));
    const values = points.flatMap(point => lines.map(line => point[line.field] ?? 0));
    const max = roundUp(Math.max(0, ...values));
    const x = at => left + (width - left - right) * (1 - (now - at) / span);
    const y = value => height - bottom - (height - top - bottom) * (value / max);
    chart.place = { x, y, height };
    drawGrid(grid, { width, height, max, span, y, format });
    const known = points.filter(point => point.at >= now - span - 4000);
    lines.forEach((line, index) => {
      const there = known.filter(point => point[line.field] !== null && point[line.field] !== undefined);
      const d = there.map((point, at) => `${at ? "L" : "M"}${x(point.at).toFixed(1)} ${y(point[line.field]).toFixed(1)}`).join("");
      paths[index].setAttribute("d", d);
      if (lines.length > 1) return;
      const isThere = there.length > 1;
      area.setAttribute("d", isThere ? `${d}V${height - bottom}H${x(there[0].at).toFixed(1)}Z` : "");
      setAttribute(last, "visibility", isThere ? "visible" : "hidden");
      if (isThere) {
        last.setAttribute("cx", x(there.at(-1).at).toFixed(1));
        last.setAttribute("cy", y(there.at(-1)[line.field]).toFixed(1));
      }
    });
    const hasSome = known.some(point => lines.some(line => point[line.field] !== null && point[line.field] !== undefined));
    empty.setAttribute("x", (left + width) / 2);
    empty.setAttribute("y", height / 2);
    setText(empty, hasSome && known.length > 1 ? "" : chart.why || "Collecting the first figures…");
    const newest = points.at(-1), peak = Math.max(0, ...values);
    setText(title, newest ? `${lines.map(line => `${line.name} ${format(newest[line.field])}`).join(", ")} ${unit}; highest ${format(peak)} in the last ${durationText(span / 1000)}` : "no figures yet");
  }

  container.addEventListener("pointermove", event => {
    if (!chart.place || !chart.points.length) return;
    const left = svg.getBoundingClientRect().left;
    const near = chart.points.reduce((best, point) => (Math.abs(chart.place.x(point.at) - (event.clientX - left)) < Math.abs(chart.place.x(best.at) - (event.clientX - left)) ? point : best));
    const [line, ...dots] = cursor.children, at = chart.place.x(near.at).toFixed(1);
    furnish(line, { x1: at, x2: at, y1: CHART_MARGIN.top, y2: chart.place.height - CHART_MARGIN.bottom }, []);
    lines.forEach(({ field }, index) => furnish(dots[index], { cx: at, cy: chart.place.y(near[field] ?? 0).toFixed(1) }, []));
    cursor.setAttribute("visibility", "visible");
    setText(byId(readout), `${clockFormat.format(new Date(near.at))}: ${lines.map(({ field, name }) => `${lines.length > 1 ? `${name} ` : ""}${format(near[field])}`).join(", ")}`);
  });
  container.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    setText(byId(readout), "");
  });
  new ResizeObserver(draw).observe(container);
  return {
    // Shows points; `why` says what there is to say if there are none.
    show(points, why) {
      chart.points = points;
      chart.why = why;
      if (container.clientWidth) draw();
    },
  };
}

// Lines across with their values, and how long ago the ends are.
function drawGrid(grid, { width, height, max, span, y, format }) {
  const { left, right, bottom } = CHART_MARGIN;
  const across = [0, max / 2, max].flatMap(value => [
    shape("line", { x1: left, x2: width - right, y1: y(value).toFixed(1), y2: y(value).toFixed(1) }),
    shape("text", { x: left - 8, y: (y(value) + 3.5).toFixed(1), "text-anchor": "end", text: value ? format(value) : "0" }),
  ]);
  grid.replaceChildren(...across,
    shape("text", { x: left, y: height - bottom + 15, text: `${durationText(span / 1000)} ago` }),
    shape("text", { x: width - right, y: height - bottom + 15, "text-anchor": "end", text: "now" }));
}

// A line the size of a word.
const SPARK = { width: 96, height: 26 };
function makeSpark() {
  return shape("svg", { class: "spark", viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, "aria-hidden": "true", focusable: "false" },
    shape("path", { class: "area" }), shape("path", { class: "line" }));
}
function updateSpark(svg, points) {
  const [area, line] = svg.children;
  const some = points.slice(-60), max = Math.max(1e-9, ...some.map(point => point.rate));
  const y = rate => (SPARK.height - 2 - (SPARK.height - 5) * (rate / max)).toFixed(1);
  const step = SPARK.width / Math.max(9, some.length - 1), first = SPARK.width - step * (some.length - 1);
  const d = some.map((point, at) => `${at ? "L" : "M"}${(first + step * at).toFixed(1)} ${y(point.rate)}`).join("");
  setAttribute(line, "d", some.length > 1 ? d : "");
  setAttribute(area, "d", some.length > 1 ? `${d}V${SPARK.height}H${first.toFixed(1)}Z` : "");
}
