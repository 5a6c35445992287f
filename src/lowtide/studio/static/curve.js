// The trade-off as a chart one drags along. The slider below it is the same control, for a keyboard and a screen reader.

import { drawing, h, s, unbroken, unique } from "./dom.js";

/** Where the points of a chart are: percentages of the width, pixels from above. */
function places(svg, mark) {
  return [...svg.querySelectorAll(`.${mark}`)].map((found) => {
    const source = found.tagName === "circle" ? found : found.parentElement;
    const [x, y] = found.tagName === "circle" ? ["cx", "cy"] : ["x", "y"];
    return { x: parseFloat(source.getAttribute(x)), y: parseFloat(source.getAttribute(y)) };
  });
}

/**
 * A chart with a handle and a slider.
 *
 * @param curve chart, `mark` (the class of its points), points, and which of them is `chosen`.
 * @param moved is called with the place of the point that the handle stands on, at first and at every move.
 */
export function draggable(curve, moved) {
  const [svg] = drawing(curve.chart.svg);
  const spots = places(svg, curve.mark);
  const last = curve.points.length - 1;
  const label = unique("slider");
  let at = curve.chosen ?? last;

  const line = s("line", { class: "handle-line", y1: 20 });
  const handle = s("circle", { class: "handle", r: 11 });
  svg.append(line, handle);
  svg.classList.add("dragged");

  const slider = h("input", { type: "range", min: 0, max: last, step: 1, id: label, class: "along" });
  slider.value = at;

  const show = () => {
    const { x, y } = spots[at];
    handle.setAttribute("cx", `${x}%`);
    handle.setAttribute("cy", y);
    line.setAttribute("x1", `${x}%`);
    line.setAttribute("x2", `${x}%`);
    line.setAttribute("y2", svg.getAttribute("height") - 42);
    slider.value = at;
    slider.setAttribute("aria-valuetext", unbroken(curve.points[at].words.join(" ")));
    moved(at, curve.points[at]);
  };
  const move = (next) => {
    const bounded = Math.max(0, Math.min(last, next));
    if (bounded === at) return;
    at = bounded;
    show();
  };
  const nearest = (event) => {
    const box = svg.getBoundingClientRect();
    const x = (100 * (event.clientX - box.left)) / box.width;
    let best = 0;
    spots.forEach((spot, place) => { if (Math.abs(spot.x - x) < Math.abs(spots[best].x - x)) best = place; });
    return best;
  };
  let dragging = false;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    dragging = true;
    svg.setPointerCapture(event.pointerId);
    move(nearest(event));
    event.preventDefault();
    slider.focus({ preventScroll: true });
  });
  svg.addEventListener("pointermove", (event) => { if (dragging) move(nearest(event)); });
  ["pointerup", "pointercancel"].forEach((name) => svg.addEventListener(name, () => { dragging = false; }));
  slider.addEventListener("input", () => move(Number(slider.value)));

  const element = h("div", { class: "curve-box" },
    h("figure", { class: "drawn" },
      h("figcaption", {}, curve.chart.title),
      curve.chart.key ? drawing(curve.chart.key) : null,
      svg),
    h("div", { class: "slide" },
      h("label", { for: label, class: "unseen" }, "Drag along the trade-off"),
      slider,
      h("div", { class: "ends", "aria-hidden": "true" }, h("span", {}, "more private"), h("span", {}, "more useful"))));
  return { element, start: show, get at() { return at; } };
}
