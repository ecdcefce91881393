"""The badge of a site: how many models fail, are slower or larger; else that all pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.formatting import printable
from harness.report.html.badge import Badge
from harness.report.summaries import counts_of_states
from harness.report.text import brief
from harness.site.documents import ModelOnUnit
from harness.site.news import NewsItem, NewsKind, state_of_model

_LONGEST_LABEL = 40


def badge_of(
    title: str,
    models: Sequence[ModelOnUnit],
    news: Mapping[NewsKind, Sequence[NewsItem]],
) -> Badge:
    """Return the badge; infrastructure failures are counted, and never make it red.

    Args:
        title: What it is about.
        models: Models on units.
        news: What is new of them.
    """
    label = printable(brief(title, _LONGEST_LABEL))
    counts = counts_of_states(state_of_model(model) for model in models)
    bad = {
        "failed": counts["failed"],
        "slower": len(news["slower"]),
        "larger": len(news["larger"]),
    }
    others = {"set-up error": counts["set-up"], "not reached": counts["infrastructure"]}
    parts = [f"{count:,} {word}" for word, count in (*bad.items(), *others.items()) if count]
    if any(bad.values()):
        return Badge(label, ", ".join(parts), "fail")
    if not counts["pass"]:
        return Badge(label, ", ".join(parts) or "no results", "unknown")
    return Badge(label, ", ".join([f"{counts['pass']:,} pass", *parts]), "pass")
