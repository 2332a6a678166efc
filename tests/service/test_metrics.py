"""Metrics as Prometheus reads them."""

from __future__ import annotations

from tightrope.service.metrics import Metrics, Sample, Samples


def lines(text: str, name: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(name)]


def test_large_counts_keep_their_digits() -> None:
    metrics = Metrics()
    metrics.observe("batch_size", "ward", 1.0)
    counts, _ = metrics._buckets["batch_size", "ward", ""]
    counts[0] += 1_234_567
    text = metrics.text()
    assert lines(text, "tightrope_batch_size_count") == [
        'tightrope_batch_size_count{experiment="ward"} 1234568'
    ]
    assert 'tightrope_batch_size_bucket{experiment="ward",le="+Inf"} 1234568' in text


def test_histograms_add_up_by_route() -> None:
    metrics = Metrics()
    for seconds in (0.0005, 0.001, 0.02, 99.0):
        metrics.observe("request_seconds", "ward", seconds, "/v1/decisions")
    text = metrics.text()
    labels = 'experiment="ward",route="/v1/decisions"'
    assert f'tightrope_request_seconds_bucket{{{labels},le="0.001"}} 2' in text
    assert f'tightrope_request_seconds_bucket{{{labels},le="30.0"}} 3' in text
    assert f'tightrope_request_seconds_bucket{{{labels},le="+Inf"}} 4' in text
    assert f"tightrope_request_seconds_count{{{labels}}} 4" in text


def test_only_what_is_asked_for_is_shown() -> None:
    metrics = Metrics()
    metrics.answered("ward", "/v1/state", 200, 0.1)
    metrics.answered("", "other", 404, 0.1)
    assert metrics.text(experiments=frozenset({"arms"})).strip() == ""
    assert "other" not in metrics.text(experiments=frozenset({"ward"}))
    assert 'route="other",status="404"} 1' in metrics.text(experiments=frozenset({"ward", ""}))


def test_a_hard_cap_is_no_counter() -> None:
    state = {
        "position": 3,
        "outcomes": dict.fromkeys(("pending", "rewards", "complete", "missing", "late", "rejected"), 0)
        | {"mean_reward": None},
        "actions": [{"name": "a", "decisions": 2}],
        "constraints": [],
        "outside": [],
        "replaced": [],
        "repeats": 0,
        "hard_caps": [{"name": "vouchers", "used": 1.0, "total": 5.0}],
    }
    samples = Samples("ward")
    samples.add_state(state)
    text = Metrics().text(samples)
    types = dict(line.split()[2:] for line in lines(text, "# TYPE"))
    assert {name for name, kind in types.items() if kind == "counter"} == {
        "tightrope_decisions_total",
        "tightrope_outcomes_total",
        "tightrope_repeats_total",
    }
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in types.items())
    assert 'tightrope_hard_cap_limit{experiment="ward",cap="vouchers"} 5.0' in text


def test_labels_are_escaped() -> None:
    text = Metrics().text([Sample("role", {"role": 'a"b\\c\nd'}, 1.0)])
    assert 'role="a\\"b\\\\c\\nd"' in text
