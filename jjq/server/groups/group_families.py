"""Figures of worker groups as Prometheus has them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from hotstore.work.group_figures import BOUNDS, GroupFigures, TaskTimes

_BY: Final = ("queue", "group")
_LABELS: Final = (*map(str, BOUNDS), "+Inf")


def group_families(groups: Iterable[GroupFigures]) -> list[Metric]:
    """Tasks by state, transitions, ages and times of groups."""
    tasks = GaugeMetricFamily("jjq_tasks", "Tasks of a group by state", labels=(*_BY, "state"))
    transitions = CounterMetricFamily(
        "jjq_task_transitions", "What happened to tasks; put: they were pushed", labels=(*_BY, "event")
    )
    age = GaugeMetricFamily(
        "jjq_task_age_seconds",
        "How long ago the oldest ready task was pushed, and the oldest taken one was taken",
        labels=(*_BY, "state"),
    )
    waits = HistogramMetricFamily("jjq_task_wait_seconds", "From a push to the first take", labels=_BY)
    runs = HistogramMetricFamily("jjq_task_run_seconds", "From a take to its ack or nack", labels=_BY)
    for figures in groups:
        by = (figures.queue, figures.group)
        for state, count in figures.tasks.items():
            if state != "total":
                tasks.add_metric((*by, state), count)
        for event, count in figures.transitions.items():
            transitions.add_metric((*by, event), count)
        age.add_metric((*by, "ready"), figures.oldest_ready_seconds)
        age.add_metric((*by, "taken"), figures.oldest_taken_seconds)
        waits.add_metric(by, _buckets(figures.waits), figures.waits.seconds)
        runs.add_metric(by, _buckets(figures.runs), figures.runs.seconds)
    return [tasks, transitions, age, waits, runs]


def _buckets(times: TaskTimes) -> list[tuple[str, float]]:
    return [(bound, float(total)) for bound, total in zip(_LABELS, accumulate(times.counts), strict=True)]
