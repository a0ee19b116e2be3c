// The fixed point of angcal.theory for the logistic loss and link, with an intercept.
// Unknowns x = (log q, artanh c, log gamma, b); see src/angcal/theory/solve.py for the equations.
"use strict";

const theory = (() => {
  const D = 200;
  const expit = (t) => (t >= 0 ? 1 / (1 + Math.exp(-t)) : 1 - 1 / (1 + Math.exp(t)));
  const softplus = (t) => (t > 0 ? t + Math.log1p(Math.exp(-t)) : Math.log1p(Math.exp(t)));
  const xlogx = (p) => (p > 1e-300 ? -p * Math.log(p) : 0);

  function normalGrid(step, width = 7) {
    const half = Math.ceil(width / step);
    const s = [], w = [];
    let total = 0;
    for (let k = -half; k <= half; k++) {
      s.push(k * step);
      w.push(Math.exp(-0.5 * (k * step) ** 2));
      total += w[w.length - 1];
    }
    return { s, w: w.map((each) => each / total) };
  }

  // Eigenvalues 1/j^decay, a signal that prefers no direction: shares of it as of the variance.
  function spectrum(decay) {
    const values = Array.from({ length: D }, (_, j) => (j + 1) ** -decay);
    const trace = values.reduce((a, b) => a + b, 0);
    return { values, trace, shares: values.map((v) => v / trace) };
  }

  function ridge({ values, shares }, mu) {
    let df1 = 0, df2 = 0, A = 0, B = 0;
    for (let j = 0; j < D; j++) {
      const kept = values[j] / (values[j] + mu);
      df1 += kept; df2 += kept * kept; A += shares[j] * kept; B += shares[j] * kept * kept;
    }
    return { df1, df2, A, B };
  }

  // F(s) = P(y = 1 | s), and G(s), its slope in the unseen part of the signal.
  function curve(kappa, beta, c, nodes) {
    const spread = kappa * Math.sqrt(Math.max(1 - c * c, 0));
    const z = normalGrid(Math.min(0.4, 0.9 / Math.max(spread, 1e-9)), 6.5);
    const F = new Float64Array(nodes.length), G = new Float64Array(nodes.length);
    nodes.forEach((s, i) => {
      const center = kappa * c * s + beta;
      let f = 0, g = 0;
      for (let k = 0; k < z.s.length; k++) {
        const p = expit(center + spread * z.s[k]);
        f += z.w[k] * p; g += z.w[k] * p * (1 - p);
      }
      F[i] = f; G[i] = kappa * g;
    });
    return { F, G };
  }

  // u with u = score + gamma·(y − expit(u)), by Newton's method inside its bracket.
  function moved(score, y, gamma) {
    let low = score + Math.min(0, gamma * (2 * y - 1)), high = score + Math.max(0, gamma * (2 * y - 1));
    let p = expit(score), u = score + gamma * (y - p) / (1 + gamma * p * (1 - p));
    let last = Infinity;
    for (let round = 0; round < 80; round++) {
      p = expit(u);
      const gap = u - score - gamma * (y - p);
      if (gap < 0) low = u; else high = u;
      let next = u - gap / (1 + gamma * p * (1 - p));
      // Steps that gain little go to and fro between the ends, but for rounding.
      const idle = Math.abs(gap) > 0.5 * last && Math.abs(gap) > 1e-10 * (1 + Math.abs(score));
      if (idle || next < low || next > high) next = 0.5 * (low + high);
      last = Math.abs(gap);
      if (Math.abs(next - u) < 1e-11 * (1 + Math.abs(u))) return next;
      u = next;
    }
    return u;
  }

  function channel(kappa, beta, q, c, gamma, b) {
    const steep = kappa * Math.abs(c) / Math.sqrt(1 + Math.PI / 8 * kappa ** 2 * (1 - c * c));
    const { s, w } = normalGrid(Math.max(Math.min(0.4, 1.1 / Math.max(q, steep)), 0.01));
    const { F, G } = curve(kappa, beta, c, s);
    let v = 0, r2 = 0, t = 0, mean = 0, loss = 0;
    for (let i = 0; i < s.length; i++) {
      const u1 = moved(b + q * s[i], 1, gamma), u0 = moved(b + q * s[i], 0, gamma);
      const p1 = expit(u1), p0 = expit(u0), psi1 = 1 - p1, psi0 = -p0;
      const D1 = p1 * (1 - p1), D0 = p0 * (1 - p0);
      v += w[i] * (F[i] * D1 / (1 + gamma * D1) + (1 - F[i]) * D0 / (1 + gamma * D0));
      r2 += w[i] * (F[i] * psi1 * psi1 + (1 - F[i]) * psi0 * psi0);
      t += w[i] * G[i] * (psi1 - psi0);
      mean += w[i] * (F[i] * psi1 + (1 - F[i]) * psi0);
      loss += w[i] * (F[i] * softplus(-u1) + (1 - F[i]) * softplus(u0));
    }
    return { v: Math.max(v, 1e-12), r2, t, mean, loss };
  }

  function gaps(problem, x) {
    const { n, lambda, spec, kappa, beta } = problem;
    const found = channel(kappa, beta, Math.exp(x[0]), Math.tanh(x[1]), Math.exp(x[2]), x[3]);
    const { df1, df2, A, B } = ridge(spec, lambda / found.v);
    const ratio = found.t / found.v;
    const q = Math.sqrt(ratio ** 2 * B + found.r2 * (df2 + 1) / (n * found.v ** 2));
    const c = Math.min(Math.max(ratio * A / q, -1 + 1e-12), 1 - 1e-12);
    return [Math.log(q) - x[0], Math.atanh(c) - x[1], Math.log((df1 + 1) / (n * found.v)) - x[2],
            found.mean / found.v];
  }

  const size = (x, g) => Math.max(Math.abs(g[0]), Math.abs(g[1]), Math.abs(g[2]),
                                  Math.abs(g[3]) / (1 + Math.exp(x[0])));

  function solveLinear(M, right) {
    const a = M.map((row, i) => [...row, right[i]]);
    for (let k = 0; k < 4; k++) {
      let best = k;
      for (let i = k + 1; i < 4; i++) if (Math.abs(a[i][k]) > Math.abs(a[best][k])) best = i;
      [a[k], a[best]] = [a[best], a[k]];
      for (let i = k + 1; i < 4; i++) {
        const f = a[i][k] / a[k][k];
        for (let j = k; j < 5; j++) a[i][j] -= f * a[k][j];
      }
    }
    const x = [0, 0, 0, 0];
    for (let k = 3; k >= 0; k--) {
      x[k] = a[k][4];
      for (let j = k + 1; j < 4; j++) x[k] -= a[k][j] * x[j];
      x[k] /= a[k][k];
    }
    return x;
  }

  const plainStep = (problem, x) =>
    gaps(problem, x).map((g, i) => x[i] + Math.min(Math.max(g, -1.5), 1.5));

  function solve(problem, start) {
    let x = start ? [...start] : [Math.log(0.5), Math.atanh(0.5),
      Math.log(Math.min(5 * ridge(problem.spec, 5 * problem.lambda).df1 / problem.n, 20)), 0];
    for (let k = 0; k < (start ? 1 : 6); k++) x = plainStep(problem, x);
    let g = gaps(problem, x), now = size(x, g);
    for (let round = 0; round < 40 && now > 1e-9; round++) {
      const h = 1e-5;
      const columns = [0, 1, 2, 3].map((k) => gaps(problem, x.map((v, i) => v + (i === k ? h : 0))));
      const J = [0, 1, 2, 3].map((i) => columns.map((column) => (column[i] - g[i]) / h));
      let step = solveLinear(J, g.map((each) => -each));
      const longest = Math.max(...step.slice(0, 3).map(Math.abs));
      if (longest > 2) step = step.map((each) => each * 2 / longest);
      let length = 1, done = false;
      for (let k = 0; k < 6 && !done; k++, length *= 0.35) {
        const trial = x.map((v, i) => v + length * step[i]), other = gaps(problem, trial);
        if (size(trial, other) < now) { x = trial; g = other; now = size(trial, other); done = true; }
      }
      if (!done) {
        for (let k = 0; k < 4; k++) x = plainStep(problem, x);
        g = gaps(problem, x); now = size(x, g);
      }
    }
    return { x, residual: now };
  }

  // Everything the page shows; rho = 1/(C·trace) is the penalty in natural units.
  function state({ ratio, rho, kappa, beta, decay }, start) {
    const spec = spectrum(decay), n = ratio * D;
    const problem = { n, lambda: rho * spec.trace / n, spec, kappa, beta };
    const { x, residual } = solve(problem, start);
    const wide = [Math.exp(x[0]), Math.tanh(x[1]), Math.exp(x[2]), x[3]];
    const found = channel(kappa, beta, ...wide);
    const { df1, df2, A, B } = ridge(spec, problem.lambda / found.v);
    const t = found.t / found.v;
    const norm = Math.sqrt(t * t * B + found.r2 * df2 / (n * found.v ** 2));
    const cosine = Math.min(t * A / norm, 1);
    const sd = Math.sqrt(found.r2 / n) / found.v;
    return { n, x, residual, converged: residual < 1e-6, cosine, norm, intercept: x[3], df: df1,
             training_loss: found.loss, ...onNewRows(kappa, beta, cosine, norm, x[3], sd) };
  }

  function onNewRows(kappa, beta, cosine, norm, b, sd) {
    const { s, w } = normalGrid(0.04), F = curve(kappa, beta, cosine, s).F;
    const z = normalGrid(0.75, 4);
    const out = { log_loss: 0, accuracy: 0, ece: 0, calibrated_log_loss: 0, calibrated_accuracy: 0,
                  bayes_log_loss: 0, bayes_accuracy: 0 };
    s.forEach((place, i) => {
      const f = F[i], truth = expit(kappa * place + beta);
      out.calibrated_log_loss += w[i] * (xlogx(f) + xlogx(1 - f));
      out.calibrated_accuracy += w[i] * Math.max(f, 1 - f);
      out.bayes_log_loss += w[i] * (xlogx(truth) + xlogx(1 - truth));
      out.bayes_accuracy += w[i] * Math.max(truth, 1 - truth);
      z.s.forEach((shift, k) => {
        const u = b + sd * shift + norm * place, weight = w[i] * z.w[k];
        const above = Math.min(Math.max(0.5 + u / (norm * 0.04), 0), 1);
        out.log_loss += weight * (softplus(u) - f * u);
        out.accuracy += weight * (f * above + (1 - f) * (1 - above));
        out.ece += weight * Math.abs(expit(u) - f);
      });
    });
    return out;
  }

  // Points (plain probability, share of class 1) along the scores that occur.
  function reliability({ kappa, beta }, { cosine, norm, intercept }) {
    const s = Array.from({ length: 51 }, (_, k) => -2.6 + 5.2 * k / 50);
    const { F } = curve(kappa, beta, cosine, s);
    return s.map((place, i) => [expit(intercept + norm * place), F[i]]);
  }

  return { D, state, reliability };
})();
