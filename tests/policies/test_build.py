"""Policies from a spec: the default where no kind is named, settings that reach the constructor, errors that name the field."""

import pytest

import tightrope as tr
from tightrope.errors import InvalidInput
from tightrope.policies import POLICIES, register
from tightrope.policies.build import build_policy
from tightrope.problem import Problem, Vectors
from tightrope.spec import PolicySpec, SpecError, read_spec

PAPERS = "kind = 'pessimistic-optimistic'\n"


def built(policy="", **sizes):
    return build_policy(read_spec("[policy]\n" + policy).policies[0], problem(**sizes))


def problem(*, n_actions=3, n_features=0, disjoint=True, n_cost_features=None, constraints=0, **rest):
    vectors = [
        Vectors(n, per_action=not disjoint) if n else None
        for n in (n_features, n_features if n_cost_features is None else n_cost_features)
    ]
    counted = {"rules": constraints} if isinstance(constraints, tr.Rules) else {"n_constraints": constraints}
    return Problem(n_actions=n_actions, features=vectors[0], cost_features=vectors[1], **counted, **rest)


def papers(policy="", **sizes):
    return built(PAPERS + policy, **sizes)


@pytest.mark.parametrize(
    ("sizes", "model"),
    [
        ({}, "Standardised(3, 0)"),
        ({"n_features": 4}, "Standardised(3, 4)"),
        ({"n_features": 4, "disjoint": False}, "Standardised(n_features=4)"),
    ],
)
def test_the_default_is_shadow_price_with_the_model_that_fits(sizes, model):
    policy = built(constraints=2, **sizes)
    assert type(policy) is tr.ShadowPrice
    assert repr(policy.hooks.reward_model()) == model
    assert policy.hooks.cost_model() is None
    late = built(constraints=2, seen="after", **sizes)
    assert repr(late.hooks.cost_model()).startswith(model.removesuffix(")"))
    usual = tr.ShadowPrice(reward=tr.ArmMeans(3)).hooks.settings()
    for name in ("explore", "caution", "memory", "guard", "seed"):
        assert policy.hooks.settings()[name] == usual[name]


def test_settings_reach_the_default_policy():
    made = built(
        "explore = 0.5\ncaution = 4.0\nmemory = 64\nguard = true\nseed = 3", constraints=1
    ).hooks.settings()
    assert [made[name] for name in ("explore", "caution", "memory", "guard", "seed")] == [
        0.5,
        4.0,
        64,
        True,
        3,
    ]


def test_models_take_the_sizes_of_the_problem():
    assert repr(papers().hooks.reward_model()) == "ArmMeans(3, bonus=1)"
    assert repr(papers(n_features=4).hooks.reward_model()).startswith("DisjointRidge(3, 4,")
    assert repr(papers(n_features=4, disjoint=False).hooks.reward_model()).startswith("Ridge(4,")
    assert repr(papers("reward={model='ridge'}", n_features=4).hooks.reward_model()).startswith("Ridge(12,")
    wide = papers("reward={model='disjoint-ridge'}", n_features=4, disjoint=False)
    assert repr(wide.hooks.reward_model()).startswith("DisjointRidge(3, 4,")
    assert (
        repr(papers("reward={model='arm-means', bonus=0.5}", n_features=4).hooks.reward_model())
        == "ArmMeans(3, bonus=0.5)"
    )


def test_costs_seen_after_get_a_model_of_their_own():
    policy = papers(
        "slater = 0.1\ncost = { bonus = 0.3, m = 2.0 }",
        n_features=4,
        n_cost_features=2,
        constraints=2,
        seen="after",
    )
    assert repr(policy.hooks.cost_model()) == "DisjointRidge(3, 2, bonus=0.3, m=2, ridge=1)"
    assert papers("slater = 0.1", constraints=1).hooks.cost_model() is None


def test_settings_reach_the_policy():
    text = "slater = 0.2\nhorizon = 70\nV = { scale = 4, exponent = 0.5 }\nepsilon = { scale = 1, exponent = -0.5 }\nseed = 5"
    made = papers(text, constraints=2).hooks.settings()
    assert (made["slater"], made["horizon"], made["V"], made["epsilon"], made["seed"]) == (
        0.2,
        70,
        [4.0, 0.5],
        [1.0, -0.5],
        5,
    )
    assert papers("slater = 'measure'", constraints=2).hooks.settings()["slater"] is None


def test_rules_reach_the_policy():
    rules = tr.Rules([tr.Budget("h", at_most=0.25, range=(0, 0.5))], actions=3)
    policy = papers("slater = 0.1", constraints=rules)
    assert policy.rules is rules


@pytest.mark.parametrize(
    ("text", "sizes", "says"),
    [
        ("kind = 'magic'", {}, r"policy\.kind: must be one of .*'pessimistic-optimistic'.*, but got 'magic'"),
        (
            PAPERS + "slatr = 0.1",
            {},
            r"policy\.slatr: unknown field \(did you mean 'slater'\?\); allowed: .*horizon",
        ),
        ("caution = -1.0", {}, r"policy: caution must be finite and >= 0, but got -1"),
        (
            "cautoin = 1.0",
            {},
            r"policy\.cautoin: unknown field \(did you mean 'caution'\?\); allowed: .*explore",
        ),
        ("constraints = 3", {}, r"policy\.constraints: unknown field"),
        (PAPERS + "slater = 2.0", {"constraints": 1}, r"policy: slater must lie in \(0, 1\], but got 2"),
        (PAPERS + "horizon = 0", {}, r"policy: horizon must be a whole number >= 1"),
        (PAPERS + "V = { scale = -1, exponent = 0.5 }", {}, r"policy\.V: scale of a schedule must be >= 0"),
        (PAPERS + "reward = { bonus = -1.0 }", {}, r"policy\.reward: bonus must be finite and >= 0"),
        (
            "reward = { model = 'tree' }",
            {"n_features": 2},
            r"policy\.reward\.model: must be one of .*'disjoint-ridge'.*, but got 'tree'",
        ),
        (PAPERS + "reward = { m = 2.0 }", {}, r"policy\.reward: m: unknown field.*'arm-means'"),
        (
            "reward = { model = 'ridge' }",
            {},
            r"policy\.reward\.model: must be \"arm-means\" where there are no features",
        ),
        (
            PAPERS + "slater = 0.1\ncost = {}",
            {"constraints": 1},
            r"policy\.cost: is a model of costs that are seen after",
        ),
        ("costs_seen = 'after'", {"constraints": 1}, r'policy\.costs_seen: must be "before"'),
        (PAPERS, {"constraints": 1, "seen": "after"}, r"policy: Slater's constant is measured"),
    ],
)
def test_what_a_policy_refuses_names_the_field(text, sizes, says):
    with pytest.raises(SpecError, match=says):
        built(text, **sizes)


def test_what_is_known_is_asked_for_only_when_needed():
    calls = []

    def x():
        calls.append(1)
        return [[0.25, 0.75]]

    assert build_policy(PolicySpec(kind="uniform"), problem(n_actions=2, tells={"x": x})).hooks.n_actions == 2
    stated = PolicySpec(kind="oracle", settings={"x": [[1.0, 0.0]]})
    assert build_policy(stated, problem(n_actions=2, tells={"x": x})).x.tolist() == [[1.0, 0.0]]
    assert not calls
    assert build_policy(PolicySpec(kind="oracle"), problem(n_actions=2, tells={"x": x})).x.tolist() == [
        [0.25, 0.75]
    ]


def test_a_policy_of_ones_own_is_built_by_name():
    @register("test-own")
    class Own:
        def __init__(self, *, n_arms, threshold, horizon=None):
            if threshold > 1:
                raise InvalidInput(f"threshold must be at most 1, but got {threshold!r}.")
            self.made = (n_arms, threshold, horizon)

    try:
        assert built("kind = 'test-own'\nthreshold = 0.5\nhorizon = 9").made == (3, 0.5, 9)
        with pytest.raises(SpecError, match=r"policy\.threshold: is missing: 'test-own' needs it"):
            built("kind = 'test-own'")
        with pytest.raises(SpecError, match=r"policy\.treshold: unknown field \(did you mean 'threshold'"):
            built("kind = 'test-own'\ntreshold = 1")
        with pytest.raises(SpecError, match=r"policy\.reward: unknown field"):
            built("kind = 'test-own'\nthreshold = 0.5\nreward = {}")
        with pytest.raises(SpecError, match="policy: threshold must be at most 1, but got 2"):
            built("kind = 'test-own'\nthreshold = 2")
    finally:
        del POLICIES["test-own"]


def test_policy_spec_needs_no_file():
    assert type(build_policy(PolicySpec(), problem(n_actions=2, constraints=1))) is tr.ShadowPrice
    paper = PolicySpec(kind="pessimistic-optimistic", slater=0.5)
    assert build_policy(paper, problem(n_actions=2, constraints=1)).slater == 0.5
