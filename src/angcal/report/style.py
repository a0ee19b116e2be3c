"""The report's style sheet: light and dark, narrow and wide, screen and paper."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --panel: #f5f6f8; --ink: #1b1c20; --muted: #56585f; --rule: #d5d7dd;
  --link: #00558a;
  --blue: #0072b2; --vermilion: #c65300; --green: #00805d; --pink: #b2548a; --amber: #946600;
  --sky: #2a86bd;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #16171a; --panel: #202227; --ink: #e9eaee; --muted: #abaeb8; --rule: #3d4048;
    --link: #7cc4f2;
    --blue: #5cb3ea; --vermilion: #ff9457; --green: #35c69a; --pink: #e59cc6; --amber: #e8b13e;
    --sky: #9bd3f5;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main, footer { max-width: 62rem; margin: 0 auto; padding: 0 1.1rem; }
main { padding-top: 1.4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .2rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.4rem 0 .5rem; padding-top: .9rem;
  border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .3rem; }
h1, h2, h3, p, li, dd, dt, figcaption, th[scope="row"] { overflow-wrap: anywhere; }
p, ul { margin: .5rem 0; max-width: 46rem; }
a { color: var(--link); }
.subtitle, .note, figcaption, caption { color: var(--muted); }
.note, figcaption, caption { font-size: .92rem; }
.verdict { background: var(--panel); border-left: .3rem solid var(--blue); border-radius: .3rem;
  padding: .8rem 1.1rem; margin: 1rem 0; }
.verdict h2 { border: 0; margin: 0; padding: 0; font-size: 1rem; color: var(--muted); }
.verdict .headline { font-size: 1.25rem; line-height: 1.35; font-weight: 650;
  margin: .2rem 0 .6rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.2rem, 1fr)); gap: .7rem;
  margin: 1rem 0; }
.facts div { background: var(--panel); border-radius: .3rem; padding: .6rem .8rem; }
.facts dt { color: var(--muted); font-size: .88rem; line-height: 1.3; }
.facts dd { margin: .15rem 0 0; font-size: 1.15rem; font-weight: 600; line-height: 1.3; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 18rem), 1fr));
  gap: 1.2rem; align-items: start; }
figure { margin: .8rem 0; break-inside: avoid; }
figcaption { margin-top: .3rem; max-width: 46rem; }
svg.drawing { display: block; width: 100%; height: auto; overflow: visible; }
svg.drawing * { stroke-linejoin: round; stroke-linecap: butt; }
svg.drawing text { font-family: inherit; fill: var(--ink); }
.scroll { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .95rem; min-width: 100%; }
caption { text-align: left; padding-bottom: .4rem; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
th[scope="row"] { min-width: 14.5rem; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
pre { background: var(--panel); padding: .8rem 1rem; border-radius: .3rem; overflow-x: auto;
  font-size: .86rem; line-height: 1.45; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
footer { color: var(--muted); font-size: .9rem; padding-top: 1.5rem; padding-bottom: 2.5rem; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@media print {
  :root {
    color-scheme: light;
    --paper: #ffffff; --panel: #ffffff; --ink: #000000; --muted: #44464c; --rule: #b5b7bd;
    --link: #000000;
    --blue: #0072b2; --vermilion: #c65300; --green: #00805d; --pink: #b2548a; --amber: #946600;
    --sky: #2a86bd;
  }
  @page { margin: 16mm; }
  html { font-size: 9.5pt; }
  main, footer { max-width: none; padding-left: 0; padding-right: 0; }
  h2, h3 { break-after: avoid; }
  h2 { margin-top: 1.4rem; }
  figure, table, .verdict, .facts, pre { break-inside: avoid; }
  .pictures { grid-template-columns: 1fr 1fr; }
  .pictures.three { grid-template-columns: 1fr 1fr 1fr; }
  figure > svg.drawing { max-height: 7.4cm; }
  .scroll { overflow: visible; }
  .facts div, .verdict { border: 1px solid var(--rule); }
  .verdict { border-left: .3rem solid var(--blue); }
  pre { white-space: pre-wrap; border: 1px solid var(--rule); }
}
"""
