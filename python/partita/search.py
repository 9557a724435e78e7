# SPDX-License-Identifier: Apache-2.0
"""plan(): the search, with the program's options as keyword arguments."""
from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable

from partita import _core


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float, os.PathLike)):
        return str(value)
    if isinstance(value, Iterable):
        return ",".join(_text(each) for each in value)
    return str(value)


def option_texts(options: dict[str, object]) -> dict[str, str]:
    """Options as the library takes them: micro_batches=8 is "micro-batches": "8"; None is left out."""
    return {name.replace("_", "-"): _text(value) for name, value in options.items()
            if value is not None}


def plan(model: _core.Model, machine: _core.Machine, *, start: _core.Plan | None = None,
         progress: Callable[[_core.Progress], object] | None = None,
         **options: object) -> _core.SearchResult:
    """Searches how `model` runs best on `machine`.

    The keywords are those of `partita plan`, with underscores: mode="training", optimizer="adam",
    micro_batches=8, strategy="tp=4,dp=2", searcher="mcmc", time_limit=10, seed=1, ...; options()
    lists them.

    start: the search begins with this plan. progress: called with each Progress; what it raises ends
    the search. Ctrl-C ends the search with the best plan so far, or raises KeyboardInterrupt where
    there is none.

    Raises UsageError for options that are unknown or do not fit together, InputError where model and
    machine cannot be planned. That no plan fits is said by the result (feasible, shortage).
    """
    result = _core.find_plan(model, machine, option_texts(options), start, progress)
    result._model = model
    return result


def _page(result: _core.SearchResult) -> str | None:
    """What notebooks show of a result: the report page; None, its repr, where nothing is found."""
    if not result.feasible or getattr(result, "_model", None) is None:
        return None
    page = html.escape(result.plan.report(result._model), quote=True)
    return f'<iframe srcdoc="{page}" style="width: 100%; height: 720px; border: 0"></iframe>'


_core.SearchResult._repr_html_ = _page


def price(model: _core.Model, machine: _core.Machine, ops: list[_core.OpPlan],
          **options: object) -> _core.Plan:
    """The plan that these decisions make, one for each op of the model, without any search.

    Plan.ops of a plan gives some to begin with. Of the keywords of plan() those count that say how an
    iteration goes (mode, micro_batches, schedule, optimizer, ...). The plan may need more memory than
    there is (Plan.devices). Raises InputError that names the op whose decision is illegal.
    """
    return _core.price(model, machine, ops, option_texts(options))


def import_times(model: _core.Model, machine: _core.Machine, file: str | os.PathLike,
                 database: str | os.PathLike, **options: object) -> _core.ImportReport:
    """Times that somebody else measured, as rows of a profile database: plan(profile=database) prices
    by them.

    file: a trace of torch.profiler with record_shapes=True, a table of nsys, or one of your own
    (docs/file-formats.md, "Times of operators"). The keywords are those of plan() that say how a step
    goes (mode, optimizer, loss, ...). Raises InputError for what is no such file, MismatchError when it
    has nothing of what the model does, before anything is written.
    """
    return _core.import_times(model, machine, os.fspath(file), os.fspath(database),
                              option_texts(options))


def write_costs(model: _core.Model, machine: _core.Machine,
                costs: Callable[[_core.Work], float | None], database: str | os.PathLike,
                **options: object) -> _core.ImportReport:
    """A cost model of your own, as rows of a profile database: plan(profile=database) prices by them.

    costs: seconds that a work takes on one device of the machine, > 0; None: as without it. It is asked
    once for each different work of all parts of ops that a search may propose; what plans do besides is
    priced by what is near. Keywords as import_times(). Raises UsageError for a time that is not > 0.
    """
    return _core.write_costs(model, machine, costs, os.fspath(database), option_texts(options))


def options() -> dict[str, str]:
    """What plan() takes beside start and progress: name and meaning."""
    return {each.name.replace("-", "_"): each.help for each in _core.plan_options()}
