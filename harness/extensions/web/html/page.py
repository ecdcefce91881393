"""Pages: of runs and nights, of two runs compared; templates, and a policy against all else.

Whatever the templates show is escaped and printable. Many runs are put together by what failed
alike, and in a matrix of models by boards.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from harness import __version__
from harness.analyze.compare import AllocatorChange, Change, Comparison, OperatorChange
from harness.check.history.comparison import CHANGE_WORDS, OTHER_WORDS, NumberKind, judgement_word
from harness.documentation import explain
from harness.errors import UsageError
from harness.extensions.web.html import svg
from harness.extensions.web.html.difference import difference_view
from harness.extensions.web.html.history import trend_line
from harness.extensions.web.html.run import SHOWN, beyond_limit, run_view
from harness.extensions.web.html.svg import Limits, View
from harness.formatting import operator_title, printable
from harness.inspector.values import HEADERS, NUMBERS, ValueComparison, gap_cells, verdict_lines
from harness.plugins import require
from harness.records.nightly import (
    NightCause,
    NightDocument,
    NightVerdict,
    StepOutcome,
    alike,
    state_counts,
)
from harness.records.trace import EXECUTION, is_wrapper
from harness.records.verdict import CODES, Code, Judgement
from harness.report.changes import LATEST
from harness.report.compare import SideDocument
from harness.report.description import Fact, RunDescription, describe_of_night
from harness.report.nightly import runs_text, tables
from harness.report.operators import ROOFLINE_HEADERS, instruction_text, operator_name
from harness.report.overview import Overview, RunSummary, describe_overview
from harness.report.words import (
    LONGEST_SENTENCE,
    OWNERS,
    STATES,
    STATISTIC_WORDS,
    URGENCY,
    RunState,
    brief,
    counted,
    counts_of_states,
    counts_text,
    left_out,
    number,
    short_size,
    short_time,
    verdict_word,
    with_delegate,
    with_unit,
    word_of,
)
from harness.runs.source import EvaluatedRun

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_PACKAGE: Final = "harness.extensions.web.html"

_LONGEST_LINE: Final = 500
"""Characters of a line of the console."""


def require_libraries() -> list[Any]:
    """Import Jinja2, MarkupSafe and markdown-it.

    Raises:
        UsageError: One of them is not installed.
    """
    return require("report", "an HTML report", "jinja2", "markupsafe", "markdown_it")


@cache
def environment() -> Environment:
    """Return the environment of the templates.

    Raises:
        UsageError: A library is not installed.
    """
    jinja2, *_ = require_libraries()
    found: Environment = jinja2.Environment(
        loader=jinja2.PackageLoader(_PACKAGE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
    )
    found.filters["beyond_limit"] = beyond_limit
    found.filters["breakable"] = _breakable
    found.filters["brief"] = brief
    found.filters["lines"] = _lines
    found.filters["number"] = number
    found.filters["sentence"] = lambda text: brief(text, LONGEST_SENTENCE)
    found.filters["with_unit"] = with_unit
    found.globals["counted"] = counted
    found.globals["left_out"] = left_out
    found.globals["runs_text"] = runs_text
    found.globals["ROOFLINE_HEADERS"] = ROOFLINE_HEADERS
    found.globals["svg"] = svg
    found.globals["operator_name"] = operator_name
    found.globals["instruction_text"] = instruction_text
    found.globals["STATES"] = STATES
    found.globals["URGENCY"] = URGENCY
    found.globals["word_of"] = word_of
    found.globals["LATEST"] = LATEST
    found.globals["trend_line"] = trend_line
    return found


def environment_with(package: str) -> Environment:
    """Return the environment with the templates of another package before those of reports.

    Raises:
        UsageError: A library is not installed.
    """
    jinja2, *_ = require_libraries()
    loaders = [jinja2.PackageLoader(name) for name in (package, _PACKAGE)]
    return environment().overlay(loader=jinja2.ChoiceLoader(loaders), cache_size=100)


def source(name: str) -> str:
    """A file beside the templates, as the content of an element."""
    from markupsafe import Markup

    loader = environment().loader
    assert loader is not None
    return Markup(loader.get_source(environment(), name)[0])


def _finalize(value: Any) -> Any:
    """Names may hold control characters and lone surrogates."""
    return printable(value) if type(value) is str else value


def _breakable(text: str) -> Any:
    """A name that breaks after an underscore rather than in a word, escaped."""
    from markupsafe import Markup, escape

    return Markup("_<wbr>").join(escape(part) for part in printable(text).split("_"))


def _lines(lines: tuple[str, ...]) -> Any:
    """Lines of text, escaped."""
    from markupsafe import Markup, escape

    return Markup("\n").join(escape(brief(line, _LONGEST_LINE)) for line in lines)


def matrix_link(state: RunState, text: str, href: str, about: str) -> View:
    """Return a run in a cell; ``about`` says which it is, ``href`` may be "" for nowhere."""
    return {"state": state, "text": text, "href": href, "about": about}


def matrix_cell(
    counts: Mapping[RunState, int],
    latest: RunSummary | None,
    links: Sequence[View],
) -> View:
    """Return the runs of a model on a type of board.

    Args:
        counts: How many ended in each state.
        latest: The latest run with numbers; None without one.
        links: Runs to look at, the most urgent first.
    """
    state: RunState = next((state for state in STATES if counts.get(state)), "not run")
    total, passed = sum(counts.values()), counts.get("pass", 0)
    parts = [f"{passed:,} of {total:,} passed"] if passed else []
    parts.append(counts_text({**counts, "pass": 0}))
    return {
        "state": state,  # the most urgent one
        "text": word_of(state) if total == 1 else ", ".join(filter(None, parts)),
        "counts": counts,
        "latest": latest,
        "links": links,
    }


def matrix_of(cells: Mapping[tuple[str, str], View]) -> View:
    """Arrange cells by model and board, with None where nothing was to run."""
    boards = sorted({board for _, board in cells})
    models = sorted({model for model, _ in cells})
    rows = [(model, [cells.get((model, board)) for board in boards]) for model in models]
    return {"boards": boards, "rows": rows}


def latest_with_numbers(runs: Sequence[RunSummary]) -> RunSummary | None:
    """Return the last of ``runs``, oldest first, whose execution was timed."""
    return next((run for run in reversed(runs) if run.execution is not None), None)


def run_groups(
    runs: Sequence[RunDescription], summaries: Sequence[RunSummary]
) -> dict[RunState, list[View]]:
    """Put runs together that failed alike, so that one cause is one line."""
    failed: dict[tuple[RunState, int, str], list[int]] = {}
    for place, (run, summary) in enumerate(zip(runs, summaries, strict=True)):
        if summary.state not in ("pass", "regression"):  # its nightly run names what got worse
            codes = ", ".join(dict.fromkeys(check.code for check in run.verdict.failed))
            kind = run.failure.kind if run.failure is not None else codes
            failed.setdefault((summary.state, run.exit_code, kind), []).append(place)
    found: dict[RunState, list[View]] = {state: [] for state in STATES}
    for (state, code, kind), same in failed.items():
        owner = OWNERS.get(code, "unknown")
        found[state].append({"exit_code": code, "owner": owner, "kind": kind, "runs": same})
    return {
        state: sorted(groups, key=lambda g: (-len(g["runs"]), g["exit_code"], g["kind"]))
        for state, groups in found.items()
        if groups
    }


def run_matrix(runs: Sequence[RunDescription], overview: Overview, anchors: Sequence[str]) -> View:
    """Arrange runs by model and board, with links to their anchors."""
    summaries = overview.summaries
    places: dict[tuple[str, str], list[int]] = {}
    for place in overview.order:
        run = summaries[place]
        places.setdefault((run.model, run.board), []).append(place)
    cells = {}
    for key, chosen in places.items():
        newest = sorted(chosen, key=lambda n: _started_utc(runs[n]), reverse=True)
        urgent = sorted(newest, key=lambda n: URGENCY.index(summaries[n].state))
        cells[key] = matrix_cell(
            counts=counts_of_states(summaries[n].state for n in chosen),
            latest=latest_with_numbers([summaries[n] for n in reversed(newest)]),
            links=[_run_link(summaries[n], anchors[n]) for n in urgent],
        )
    return matrix_of(cells)


def _run_link(run: RunSummary, anchor: str) -> View:
    about = f"{run.label}: {run.why}" if run.why else run.label
    return matrix_link(run.state, word_of(run.state), f"#{anchor}", about)


def _started_utc(run: RunDescription) -> str:
    return run.run.result.started_utc if run.run.result is not None else ""


def describe_night(
    night: NightDocument, runs: Mapping[str, RunSummary], anchors: Mapping[str, str]
) -> View:
    """Describe a nightly run: its counts, what did not pass, and models by boards.

    Args:
        night: The nightly run.
        runs: Runs of it with their numbers, by the ids of their results.
        anchors: Where these are shown, likewise.
    """
    states = [outcome.state for outcome in night.outcomes]
    return {
        "counts": state_counts(night.counts),
        "failures": failures_of(night, night.outcomes, anchors),
        "matrix": _night_matrix(night, states, runs, anchors),
    }


def minute_text(utc: str) -> str:
    """A time in ISO 8601, to the minute."""
    return utc[:16].replace("T", " ")


def failures_of(
    verdict: NightVerdict,
    outcomes: Iterable[StepOutcome] = (),
    anchors: Mapping[str, str] | None = None,
) -> dict[RunState, list[tuple[NightCause, list[View]]]]:
    """Return what did not pass, by state, the worst first: causes, with links to their runs.

    Args:
        verdict: The nightly run, as far as it is.
        outcomes: Its outcomes; without them there are no links.
        anchors: Where runs are shown, by the ids of their results.
    """
    runs = alike(outcome for outcome in outcomes if not outcome.pending)
    found: dict[RunState, list[tuple[NightCause, list[View]]]] = {}
    for cause in verdict.causes:
        same = runs.get((cause.state, str(cause.owner or ""), cause.why), []) if cause.runs else []
        links = [_step_link(outcome, cause.state, anchors or {}) for outcome in same]
        found.setdefault(cause.state, []).append((cause, links))
    return {state: found[state] for state in STATES if state in found}


def _step_link(outcome: StepOutcome, state: RunState, anchors: Mapping[str, str]) -> View:
    """Return a link to the last attempt at a step."""
    href = anchors.get(outcome.attempts[-1].result, "") if outcome.attempts else ""
    about = f"{outcome.step}: {outcome.told}"
    where = outcome.attempts[-1].directory if outcome.attempts else ""
    return matrix_link(state, str(outcome.step), href, f"{about} ({where})" if where else about)


def _night_matrix(
    night: NightDocument,
    states: Sequence[RunState],
    runs: Mapping[str, RunSummary],
    anchors: Mapping[str, str],
) -> View:
    places: dict[tuple[str, str], list[int]] = {}
    for place, outcome in enumerate(night.outcomes):
        places.setdefault((outcome.step.model, outcome.step.board), []).append(place)
    cells = {}
    for key, chosen in places.items():
        urgent = sorted(chosen, key=lambda n: URGENCY.index(states[n]))
        outcomes = [night.outcomes[n] for n in chosen]
        shown = [runs[a.result] for o in outcomes for a in o.attempts[-1:] if a.result in runs]
        cells[key] = matrix_cell(
            counts=counts_of_states(states[n] for n in chosen),
            latest=latest_with_numbers(shown),
            links=[_step_link(night.outcomes[n], states[n], anchors) for n in urgent],
        )
    return matrix_of(cells)


_MOST_ROWS: Final = 1_000


def night_content(
    night: NightDocument, views: Sequence[View], summaries: Sequence[RunSummary]
) -> dict[str, Any]:
    """Return what a page shows of a nightly run and the runs of it that the page shows."""
    runs: dict[str, RunSummary] = {}
    anchors: dict[str, str] = {}
    for view, summary in zip(views, summaries, strict=True):
        if (result := view["run"].run.result) is not None:
            runs[result.id], anchors[result.id] = summary, f"#{view['anchor']}"
    return {
        "night": night,
        "summary": describe_night(night, runs, anchors),
        "when": f"{minute_text(night.started_utc)} to {minute_text(night.ended_utc)} UTC",
        "tables": [*tables(night)],
        "most_rows": _MOST_ROWS,
    }


_DEEPER = 1
"""Levels that the headings of a page are moved down."""


def explanations(codes: Iterable[str]) -> list[tuple[str, Code | None, Markup | str]]:
    """Return each of ``codes`` once, in order, what is known of it, and its page as HTML."""
    return [
        (code, CODES.get(code), _page(code) if code in CODES else "") for code in sorted(set(codes))
    ]


@cache
def _page(code: str) -> Markup | str:
    """The page of a code without its title and without links, which would leave the report."""
    _, markupsafe, markdown_it = require_libraries()
    try:
        _, explained = explain(code)
    except UsageError:  # no such page
        return ""
    renderer = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = renderer.parse(explained.text)
    if tokens and tokens[0].type == "heading_open":
        del tokens[:3]
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1:]) + _DEEPER, 6)}"
        if token.children:
            token.children = [child for child in token.children if not _leads_out(child)]
    page: Markup = markupsafe.Markup(renderer.renderer.render(tokens, renderer.options, {}))
    return page


def _leads_out(token: Any) -> bool:
    return token.type in ("link_open", "link_close", "image")


def html_report(
    runs: Sequence[EvaluatedRun], night: NightDocument | None = None, top: int = 0
) -> bytes:
    """Return a page about ``runs``; the same bytes for the same runs.

    Args:
        runs: At least one, or none if there is a nightly run.
        night: The nightly run that they are of, for a page about it.
        top: How many operators of each run are shown at first; 0 for a few.

    Raises:
        UsageError: A library is not installed.
    """
    templates = environment()
    limits = Limits.of(len(runs))
    limits = replace(limits, rows=max(limits.rows, top))
    described = describe_of_night(runs, night)
    top = top or SHOWN
    views = [run_view(run, index, limits, top) for index, run in enumerate(described)]
    anchors = [view["anchor"] for view in views]
    overview = describe_overview([view["run"] for view in views])
    title = _title(views, overview.headline) if night is None else night.headline
    page = templates.get_template("page.html.j2").render(
        **(night_content(night, views, overview.summaries) if night else {"night": None}),
        runs=views,
        overview=overview if len(views) > 1 or night else None,
        groups=run_groups([view["run"] for view in views], overview.summaries),
        matrix=run_matrix([view["run"] for view in views], overview, anchors),
        codes=explanations(code for view in views for code in view["codes"]),
        **page_frame(title, *_styles(views)),
    )
    return page.encode()


def _styles(views: Sequence[View]) -> Iterator[str]:
    """Yield the further styles that the content of these runs needs."""
    if any(view["run"].counters for view in views):
        yield "counters.css"


def page_frame(title: str, *styles: str) -> dict[str, str]:
    """Return what every page needs besides its content; ``styles`` are added to the common one."""
    style = source("style.css")
    for name in styles:
        style += source(name)
    script = source("script.js")
    policy = _policy(style, script)
    return {
        "title": title,
        "style": style,
        "script": script,
        "policy": policy,
        "version": __version__,
    }


def _title(runs: Sequence[View], headline: str) -> str:
    if len(runs) > 1:
        return headline
    (view,) = runs
    word = verdict_word(view["run"].verdict.outcome == "pass")
    return f"{word}: {view['title']}"


def _policy(style: str, script: str) -> str:
    """A Content-Security-Policy: the page loads nothing, and only its own script runs."""
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_MOST_TENSORS: Final = 2_000


def values_report(found: ValueComparison, sources: Sequence[Fact]) -> bytes:
    """Return a page about a comparison; the same bytes for the same comparison.

    Args:
        found: The comparison.
        sources: What is compared.

    Raises:
        UsageError: A library is not installed.
    """
    *notes, headline = verdict_lines(found)
    page = (
        environment()
        .get_template("values.html.j2")
        .render(
            outcome="pass" if found.first_diverging is None else "fail",
            headline=headline,
            notes=notes,
            sources=sources,
            headers=HEADERS,
            numbers=NUMBERS,
            gaps=found.gaps[:_MOST_TENSORS],
            cells=gap_cells,
            more_gaps=left_out(len(found.gaps), _MOST_TENSORS),
            **page_frame(headline),
        )
    )
    return page.encode()


_MOST_CHANGES: Final = 500


def comparison_report(
    sides: Sequence[SideDocument],
    comparison: Comparison,
    warnings: Sequence[str] = (),
    why: Sequence[str] = (),
) -> bytes:
    """Return a page about a comparison; the same bytes for the same comparison.

    Args:
        sides: The two traces.
        comparison: Their differences.
        warnings: Why the two may not compare.
        why: What both take; what changed in the program and what each change cost, a line each.

    Raises:
        UsageError: A library is not installed.
    """
    view = comparison_view(sides, comparison, warnings) | {"why": [*map(printable, why)]}
    template = environment().get_template("comparison.html.j2")
    return template.render(view=view, **page_frame(view["headline"])).encode()


def comparison_view(
    sides: Sequence[SideDocument], comparison: Comparison, warnings: Sequence[str] = ()
) -> View:
    """Prepare a comparison for a page: changed operators with the largest difference first."""
    rows = [_row(change) for change in comparison.operators if not is_wrapper(change.name)]
    alone = [*comparison.appeared, *comparison.vanished]
    rows += [_row(change) for change in alone if not is_wrapper(change.name)]
    rows.sort(key=lambda row: row["title"] != EXECUTION)
    changed = [row for row in rows if row["kind"] != "same"]
    one_sided = {
        word: [row for row in changed if row["kind"] == kind][:_MOST_CHANGES]
        for kind, word in (("appeared", "new"), ("vanished", "gone"))
    }
    both = [row for row in changed if row["kind"] not in ("appeared", "vanished")]
    memory = [_allocator(change) for change in comparison.allocators]
    of = "" if comparison.executions == "all" else f" of {comparison.executions} executions"
    executed = next((c for c in comparison.operators if c.name == EXECUTION), None)
    return {
        "headline": _headline(executed, changed, len(rows)),
        "kind": "same" if executed is None else _row(executed)["kind"],
        "warnings": [*map(printable, warnings)],
        "sides": [
            (label, side.path, printable(side.kernels) or "unknown kernels")
            for label, side in zip(("before", "after"), sides, strict=True)
        ],
        "changed": both[:_MOST_CHANGES],
        "more": left_out(len(changed), _MOST_CHANGES),
        "one_sided": {word: rows for word, rows in one_sided.items() if rows},
        "same": [row for row in rows if row["kind"] == "same"][:_MOST_CHANGES],
        "memory": [row for row in memory if row["kind"] != "same"],
        "difference": difference_view(
            (*comparison.operators, *alone), Limits.of(1), lambda change: _row(change)["title"]
        ),
        "statistic": f"{STATISTIC_WORDS.get(comparison.statistic, comparison.statistic)}{of}",
    }


def _headline(executed: OperatorChange | None, changed: Sequence[View], operators: int) -> str:
    words = (*CHANGE_WORDS["time"], *OTHER_WORDS.values())
    counts = [(word, sum(row["word"] == word for row in changed)) for word in words]
    parts = [f"{count:,} {word}" for word, count in counts if count]
    same = operators - len(changed)
    parts += [f"{same:,} the same"] if same else []
    text = f"{counted(operators, 'event')}: {', '.join(parts)}" if parts else "no events"
    if executed is None or executed.time.before is None or executed.time.after is None:
        return text
    row = _row(executed)
    became = "as long as before" if row["kind"] == "same" else f"{row['percent']}, {row['word']}"
    return f"An execution takes {row['after']}, was {row['before']} ({became}). {text}."


def _row(change: OperatorChange) -> View:
    known = change.unit == "ns"

    def text(value: float) -> str:
        return short_time(value if known else None, value)

    full = f"{printable(change.block)}: {printable(with_delegate(change))}"
    instruction = change.instruction if change.chain != -1 else None
    name = operator_title(change.name, instruction) or full
    if change.delegate_str is not None or change.delegate_int != -1:
        name = printable(with_delegate(change))
    title, count = name, change.per_run
    if count.before != count.after and count.before is not None and count.after is not None:
        name = f"{name}, {count.before:g} times a run, now {count.after:g}"
    row = _difference(name, full, change.time, "time", text, change.unit) | {"title": title}
    if not change.judgement or row["kind"] == "same":
        return row
    certain = change.judgement in ("regression", "improvement")
    kind = change.judgement if certain else "changed"
    return row | {"kind": kind, "word": judgement_word(change.judgement, "time")}


def _allocator(change: AllocatorChange) -> View:
    name = printable(change.name)
    return _difference(name, f"peak of {name}", change.peak_bytes, "memory", short_size, "bytes")


def _difference(
    name: str,
    full: str,
    change: Change,
    what: NumberKind,
    text: Callable[[float], str],
    unit: str,
) -> View:
    """Return a number of two traces: ``kind`` is what became of it, ``word`` says it."""
    before, after, difference = change.before, change.after, change.difference
    kind, word = _kind(before, after, what)
    share = 0.0 if not before or difference is None else difference / before
    values = [f"{value:,.10g}" if value is not None else "-" for value in (before, after)]
    sign = "+" if difference is not None and difference > 0 else "-"
    return {
        "name": name,
        "exact": f"{full}: {values[0]} {unit} before, {values[1]} {unit} after",
        "kind": kind,
        "word": word,
        "before": "-" if before is None else text(before),
        "after": "-" if after is None else text(after),
        "difference": f"{sign}{text(abs(difference))}" if difference else "",
        "percent": f"{100 * share:+.1f} %" if share else "",
        "share": share,  # as a number, to sort by; 0 without one
    }


def _kind(before: float | None, after: float | None, what: NumberKind) -> tuple[str, str]:
    """Return what became of a number, and the word for it."""
    if before is None and after is None:
        return "same", "unknown"
    if before is None:
        return "appeared", "new"
    if after is None:
        return "vanished", "gone"
    if before == after:
        return "same", "same"
    kind: Judgement = "regression" if after > before else "improvement"
    return kind, judgement_word(kind, what)
