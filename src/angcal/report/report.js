(() => {
  "use strict";
  // Everything shown is computed already; this only looks it up and moves a line.
  const panel = document.getElementById("acting");
  if (!panel) return;
  const classes = JSON.parse(panel.dataset.classes);
  const slider = panel.querySelector("input[type=range]");
  const choice = panel.querySelector("select");
  const pictures = [...document.querySelectorAll("[data-decision]")];
  const mark = (svg, share) => {
    const line = svg.querySelector("[data-part=line] path");
    const corners = svg.querySelector("[data-part=frame] path").getAttribute("d");
    const [left, bottom, right, top] = corners.match(/-?[\d.]+/g).map(Number);
    const x = left + share * (right - left);
    line.setAttribute("d", `M ${x} ${bottom} L ${x} ${top}`);
  };
  const show = () => {
    const place = choice ? Number(choice.value) : 0;
    const points = classes[place];
    const point = points[Math.min(Number(slider.value), points.length - 1)];
    for (const cell of panel.querySelectorAll("[data-cell]")) {
      cell.textContent = point[Number(cell.dataset.cell)];
    }
    if (choice) {
      const name = choice.selectedOptions[0].textContent;
      for (const cell of panel.querySelectorAll("[data-name]")) cell.textContent = name;
    }
    slider.setAttribute("aria-valuetext", point[1]);
    const drawn = pictures.some(figure => Number(figure.dataset.decision) === place);
    for (const figure of pictures) {
      const own = Number(figure.dataset.decision) === place;
      figure.hidden = drawn && !own;
      mark(figure.querySelector("svg"), point[0]);
    }
  };
  slider.addEventListener("input", show);
  if (choice) choice.addEventListener("change", show);
  for (const control of panel.querySelectorAll(".control")) control.hidden = false;
  show();
})();
