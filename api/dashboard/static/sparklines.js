// The last minutes of each gauge, remembered by this browser tab.

const WINDOW = 5 * 60 * 1000;
const SHORTEST = 60 * 1000; // a young history is not stretched further than this
const GAP = 10 * 1000; // a longer silence breaks the line
const STORE = "gristmill-history";
const WIDTH = 300;
const HEIGHT = 40;
const SVG = "http://www.w3.org/2000/svg";

const history = JSON.parse(sessionStorage.getItem(STORE) ?? "{}");

export function remember(elements) {
  const now = Date.now();
  for (const { dataset } of elements) {
    const points = (history[dataset.series] ?? []).filter(([at]) => at > now - WINDOW);
    if (dataset.value !== "") {
      points.push([now, Number(dataset.value)]);
    }
    history[dataset.series] = points;
  }
  sessionStorage.setItem(STORE, JSON.stringify(history));
}

export function draw(elements) {
  const now = Date.now();
  const oldest = Math.min(now, ...Object.values(history).map(([first]) => first?.[0] ?? now));
  const span = Math.max(SHORTEST, now - oldest);
  for (const svg of elements) {
    const points = history[svg.dataset.spark] ?? [];
    const top = Math.max(1e-9, ...points.map(([, value]) => value));
    // Time runs to the right edge, which is now; zero is the bottom.
    const placed = points.map(([at, value]) => ({
      at,
      x: WIDTH * (1 - (now - at) / span),
      y: HEIGHT - (HEIGHT - 2) * (value / top),
    }));
    const runs = unbroken(placed);
    path(svg, "area").setAttribute("d", runs.map(area).join(""));
    path(svg, "line").setAttribute("d", runs.map(line).join(""));
  }
}

function path(svg, name) {
  const found = svg.querySelector(`.${name}`);
  if (found) {
    return found;
  }
  const made = svg.appendChild(document.createElementNS(SVG, "path"));
  made.setAttribute("class", name);
  return made;
}

function unbroken(points) {
  const runs = [];
  points.forEach((point, index) => {
    if (index === 0 || point.at - points[index - 1].at > GAP) {
      runs.push([]);
    }
    runs.at(-1).push(point);
  });
  return runs;
}

function line(run) {
  return "M" + run.map(({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
}

function area(run) {
  return `${line(run)}L${run.at(-1).x.toFixed(1)} ${HEIGHT}L${run[0].x.toFixed(1)} ${HEIGHT}Z`;
}
