// Sliders and pictures of explore.html.
"use strict";

(() => {
  const SLIDERS = [
    { name: "ratio", text: "labels per feature, n/d", low: -3, high: 4, at: 0, step: 0.1,
      read: (v) => 2 ** v, show: (v) => v.toPrecision(2) },
    { name: "rho", text: "penalty, 1/(C·tr Σ)", low: -3, high: 1, at: -2, step: 0.1,
      read: (v) => 10 ** v, show: (v) => v.toPrecision(2) },
    { name: "kappa", text: "signal, sd of the true logit", low: 0.5, high: 10, at: 3, step: 0.1,
      read: Number, show: (v) => v.toFixed(1) },
    { name: "decay", text: "spectrum, variances ∝ 1/j^a", low: 0, high: 2, at: 0, step: 0.1,
      read: Number, show: (v) => `a = ${v.toFixed(1)}` },
    { name: "beta", text: "offset, true logit at the mean", low: -3, high: 3, at: 0, step: 0.1,
      read: Number, show: (v) => v.toFixed(1) },
  ];
  const RATIOS = Array.from({ length: 15 }, (_, k) => 2 ** (-3 + k / 2));
  const $ = (id) => document.getElementById(id);
  const inputs = {};

  for (const each of SLIDERS) {
    const box = document.createElement("div");
    box.innerHTML = `<label for="${each.name}"><span>${each.text}</span><output id="${each.name}-out"></output></label>
      <input type="range" id="${each.name}" min="${each.low}" max="${each.high}" step="${each.step}" value="${each.at}">`;
    $("controls").append(box);
    inputs[each.name] = box.querySelector("input");
    inputs[each.name].addEventListener("input", schedule);
  }
  $("controls").addEventListener("submit", (event) => event.preventDefault());

  function settings() {
    return Object.fromEntries(SLIDERS.map((each) => {
      const value = each.read(Number(inputs[each.name].value));
      $(`${each.name}-out`).textContent = each.show(value);
      inputs[each.name].setAttribute("aria-valuetext", each.show(value));
      return [each.name, value];
    }));
  }

  const line = (points, color, extra = "") =>
    `<polyline fill="none" stroke="var(--${color})" stroke-width="2.5" points="${points.map((p) => p.map((v) => v.toFixed(1)).join(",")).join(" ")}" ${extra}/>`;

  function axes(id, title, x, y, xTicks, yTicks, xName, yName) {
    const parts = [`<title id="${id}-t">${title}</title>`];
    for (const tick of yTicks) {
      parts.push(`<line x1="44" x2="310" y1="${y(tick)}" y2="${y(tick)}" stroke="var(--line)"/>`,
                 `<text x="38" y="${y(tick) + 4}" text-anchor="end">${+tick.toFixed(3)}</text>`);
    }
    for (const tick of xTicks) parts.push(`<text x="${x(tick)}" y="214" text-anchor="middle">${+tick.toFixed(3)}</text>`);
    parts.push(`<text x="177" y="232" text-anchor="middle">${xName}</text>`,
               `<text x="44" y="9">${yName}</text>`);
    return parts;
  }

  function drawReliability(given, found) {
    const x = (p) => 44 + 266 * p, y = (p) => 198 - 182 * p, ticks = [0, 0.25, 0.5, 0.75, 1];
    const parts = axes("reliability", `Share of class 1 against the plain probability; mean error ${found.ece.toFixed(3)}`,
                       x, y, ticks, ticks, "probability", "share of class 1");
    const points = theory.reliability(given, found);
    parts.push(line(points.map(([, f]) => [x(f), y(f)]), "calibrated", 'stroke-dasharray="5 4"'),
               line(points.map(([p, f]) => [x(p), y(f)]), "plain"));
    $("reliability").innerHTML = parts.join("");
  }

  function drawAgainst(id, title, found, given, curves, low, high, yName) {
    const span = Math.log2(RATIOS.at(-1) / RATIOS[0]);
    const x = (r) => 44 + 266 * Math.log2(r / RATIOS[0]) / span;
    const y = (v) => 198 - 182 * Math.min(Math.max((v - low) / (high - low), 0), 1);
    const ticks = [0, 1, 2, 3, 4].map((k) => low + (high - low) * k / 4);
    const parts = axes(id, title, x, y, [0.125, 0.5, 2, 8, 16], ticks, "n/d", yName);
    for (const [name, color] of curves) {
      parts.push(line(found.along.map((each) => [x(each.ratio), y(each[name])]), color),
                 `<circle cx="${x(given.ratio)}" cy="${y(found[name])}" r="4.5" fill="var(--${color})"/>`);
    }
    $(id).innerHTML = parts.join("");
  }

  function drawAngle(found) {
    const angle = Math.acos(found.cosine), [ox, oy, r] = [60, 205, 165];
    const tip = (a, length) => [ox + length * Math.cos(a), oy - length * Math.sin(a)];
    const arrow = (a, length, color) => {
      const [x, y] = tip(a, length), [lx, ly] = tip(a + 0.05, length - 12), [rx, ry] = tip(a - 0.05, length - 12);
      return `<line x1="${ox}" y1="${oy}" x2="${x}" y2="${y}" stroke="var(--${color})" stroke-width="3"/>
        <polygon points="${x},${y} ${lx},${ly} ${rx},${ry}" fill="var(--${color})"/>`;
    };
    const [ax, ay] = tip(angle, 52), [tx, ty] = tip(angle / 2, 72), [fx, fy] = tip(angle, r + 8);
    const degrees = (angle * 180 / Math.PI).toFixed(0);
    $("angle").innerHTML = `<title id="angle-t">Angle of ${degrees} degrees, cosine ${found.cosine.toFixed(2)}</title>
      <path d="M${ox + 52},${oy} A52,52 0 0 0 ${ax},${ay}" fill="none" stroke="var(--faint)" stroke-width="1.5"/>
      ${arrow(0, r + 40, "truth")}${arrow(angle, r, "plain")}
      <text x="${tx}" y="${ty + 4}">${degrees}°</text>
      <text x="${ox + r + 42}" y="${oy - 8}" text-anchor="end">true weights</text>
      <text x="${Math.max(fx, 60)}" y="${Math.max(fy, 14)}" text-anchor="middle">fitted</text>
      <text x="310" y="20" text-anchor="end">cosine ${found.cosine.toFixed(3)}</text>`;
  }

  function fillNumbers(found) {
    const rows = [["log-loss", "log_loss", 3], ["accuracy", "accuracy", 3]].map(([text, name, digits]) =>
      [text, ...["", "calibrated_", "bayes_"].map((kind) => found[kind + name].toFixed(digits))]);
    rows.push(["calibration error", found.ece.toFixed(3), "0", "0"],
              ["training log-loss", found.training_loss.toFixed(3), "", ""],
              ["degrees of freedom", found.df.toFixed(1), "", ""],
              ["spread of scores", found.norm.toFixed(2), "", ""]);
    $("numbers").innerHTML = rows.map(([first, ...rest]) =>
      `<tr><th scope="row">${first}</th>${rest.map((each) => `<td>${each}</td>`).join("")}</tr>`).join("");
  }

  function say(given, found) {
    const slope = found.norm > 0 && found.ece > 0.01 ? overconfident(given, found) : "about right";
    $("sentence").textContent = found.converged
      ? `With ${found.n.toFixed(0)} labels of ${theory.D} features the plain model is ${slope}: its probabilities are off by ${(100 * found.ece).toFixed(1)} points on average. Calibration brings the log-loss from ${found.log_loss.toFixed(3)} to ${found.calibrated_log_loss.toFixed(3)}; unlimited labels would have ${found.bayes_log_loss.toFixed(3)}.`
      : "The equations could not be solved here: so weak a penalty leaves nearly separable rows without a finite fit.";
  }

  // Whether plain probabilities are further from one half than the shares they stand for.
  function overconfident(given, found) {
    const points = theory.reliability(given, found);
    const wide = points.reduce((sum, [p, f]) => sum + Math.abs(p - 0.5) - Math.abs(f - 0.5), 0);
    return wide > 0 ? "overconfident" : "underconfident";
  }

  let waiting = false;
  function schedule() {
    if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); }
  }

  function draw() {
    const given = settings(), found = theory.state(given);
    let start = null;
    found.along = RATIOS.map((ratio) => {
      const each = theory.state({ ...given, ratio }, start);
      start = each.converged ? each.x : null;
      return { ratio, ...each };
    });
    fillNumbers(found); say(given, found); drawAngle(found); drawReliability(given, found);
    const top = Math.ceil(10 * Math.min(Math.max(...found.along.map((each) => each.log_loss)), 1.6)) / 10;
    drawAgainst("losses", `Log-loss against n/d; here plain ${found.log_loss.toFixed(3)}, calibrated ${found.calibrated_log_loss.toFixed(3)}`,
                found, given, [["bayes_log_loss", "truth"], ["log_loss", "plain"], ["calibrated_log_loss", "calibrated"]], 0, top, "log-loss");
    drawAgainst("cosine", `Cosine against n/d; here ${found.cosine.toFixed(3)}`, found, given, [["cosine", "calibrated"]], 0, 1, "cosine");
  }

  draw();
})();
