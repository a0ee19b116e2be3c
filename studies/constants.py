"""What each number of the core steers: every one is set to a third and to three times its value.

    python -m studies.constants [NAME ...]

For each numeric constant, as `studies.house` counts them, a process imports the library with that
number changed, and all that derives from it, and fits the golden designs and some larger ones. Of a
number between a half and one it is the distance to one that changes. Seconds are those of the CPU
beside those of the library as it is, and noisy to some per cent.
"""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import numpy as np

FACTORS = (1 / 3, 3.0)
# All processes start with these, and without the library.
SHARED = ["scipy.optimize", "scipy.stats", "scipy.sparse.linalg", "sklearn.linear_model", "torch"]
Outputs = dict[str, np.ndarray]
Found = dict[str, tuple[Outputs, list[str], float]]


def changed(value: Any, factor: float) -> Any:
    """A number, or each of several, times a factor; what is no number stays as it is."""
    if isinstance(value, tuple):
        return tuple(changed(part, factor) for part in value)
    if isinstance(value, dict):
        return {key: changed(part, factor) for key, part in value.items()}
    if isinstance(value, int):
        return max(1, round(value * factor))
    if isinstance(value, float) and 0.5 <= value < 1.0:
        return 1.0 - (1.0 - value) * min(factor, 1.9)
    return value * factor if isinstance(value, float | np.ndarray) else value


def with_change(source: str, name: str, factor: float) -> ast.Module:
    """The module, with a line that changes a constant below the one that assigns it."""
    tree = ast.parse(source)
    line = f"from studies.constants import changed as _; {name} = _({name}, {factor!r})"
    for at, node in enumerate(tree.body):
        names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
        stored = {part.id for part in names if isinstance(part.ctx, ast.Store)}
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in stored:
            tree.body[at + 1 : at + 1] = ast.parse(line).body
            break
    return ast.fix_missing_locations(tree)


def designs() -> Iterator[tuple[str, Callable[[], Outputs]]]:
    """The golden ones but for the slowest, and some of which size or kind are new."""
    from angcal import AngularCalibratedClassifier, AngularLogisticRegressionCV
    from studies.golden import DESIGNS, Draw, design, fitted, logistic, one

    def more(model: Any, n: int, d: int, classes: int, how: str) -> Outputs:
        draw: Any = Draw(n, d, classes)
        draw.X = np.array_split(draw.X, 4) if how == "blocks" else draw.X
        found = fitted(model, draw, **({"groups": np.arange(n) // 4} if how == "groups" else {}))
        if how == "plan":
            plan = model.plan([2 * n, 8 * n])
            return {"plan": np.array([plan.log_loss, plan.cosine])}
        ends = [model.predict_interval(draw.fresh, kind) for kind in ("curve", "row")]
        return {**found, "ends": np.stack(ends)}

    yield from ((name, make) for name, make in DESIGNS.items() if name != "tensor float64")
    path, weak = AngularLogisticRegressionCV, logistic(C=0.01)
    for shape in ((3000, 300), (300, 3000), (40, 20)):
        yield "{} x {}".format(*shape), design(AngularCalibratedClassifier(), *shape)
        yield "{} x {}, path".format(*shape), design(path(), *shape)
    yield "large sparse", design(one(weak), 3000, 400, how="sparse")
    yield "12 classes", design(one(weak), 1500, 200, 12)
    yield "large pool", design(one(weak, pool=Draw(1, 1200).pool[:1500]), 200, 1200)
    for given in (
        *((one(), 200, 60, 2, "intervals"), (path(5), 600, 40, 8, "intervals")),
        *((one(), 400, 60, 3, "groups"), (path(), 400, 60, 2, "groups")),
        *((one(), 1200, 80, 2, "blocks"), (path(), 1200, 80, 2, "blocks")),
        *((path(4), 900, 600, 2, "blocks"), (path(), 200, 40, 2, "plan")),
    ):
        yield f"{given[4]}: {given[:4]}", partial(more, *given)


def run(path: str = "", name: str = "", factor: float = 1.0) -> Found:
    """(outputs, warnings, CPU seconds) of each design, in a process without the library so far."""
    read = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, module: str) -> Any:
        if loader.path != path:
            return read(loader, module)
        return compile(with_change(Path(path).read_text("utf-8"), name, factor), path, "exec")

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
    found: Found = {}
    for each, make in designs():
        began = time.process_time()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                outputs = make()
            except Exception as error:  # which is what the number steers, too
                outputs = {repr(error): np.zeros(0)}
        said = sorted(str(warning.message)[:60] for warning in told)
        found[each] = outputs, said, time.process_time() - began
    return found


def row(before: Found, after: Found) -> str:
    """What a change did to the outputs, the warnings and the time."""
    from studies.golden import TOLERANCE, differences

    gaps = {name: differences(before[name][0], after[name][0]) for name in before}
    most = {name: max(each.values(), default=0.0) for name, each in gaps.items()}
    moved, worst = sum(gap > TOLERANCE for gap in most.values()), max(most, key=most.__getitem__)
    warned = sum(before[name][1] != after[name][1] for name in before)
    ratio = sum(each[2] for each in after.values()) / sum(each[2] for each in before.values())
    said = f"{moved} fits moved, by up to {most[worst]:.0e} ({worst})"
    return f"{said}; {warned} warn otherwise; time {ratio:.2f}"


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each constant and factor."""
    from studies.house import LIBRARY, sources

    parser = argparse.ArgumentParser(prog="python -m studies.constants", description=__doc__)
    parser.add_argument("names", nargs="*", help="constants; all by default")
    chosen = parser.parse_args(arguments).names
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(SHARED)
    with context.Pool(1, maxtasksperchild=1) as pool:
        before = pool.apply(run)
        for source in (each for each in sources(LIBRARY) if each.in_core):
            for name in (each for each in source.numbers if not chosen or each in chosen):
                for factor in FACTORS:
                    after = pool.apply(run, (str(LIBRARY / source.name), name, factor))
                    print(f"{source.name} {name} x{factor:.2g}: {row(before, after)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
