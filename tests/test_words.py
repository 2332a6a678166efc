"""No error on the command line speaks Python: options and fields of a spec, not arguments, classes and constants."""

from __future__ import annotations

import pickle
import re

import pytest

import tightrope as tr
from tightrope.cli import main
from tightrope.words import JSON, PYTHON, CommandLine, Either, Key, Place, Text, joined

SPEAKS_PYTHON = re.compile(
    r"(?<![\w?&])[A-Za-z_]\w*=(?!=)|\btr\.|\b(?:None|True|False)\b|(?<![:\w/])[A-Z]\w*\(|Traceback|Error\b"
    r"|(?<!:)\b(?:InvalidInput|ShadowPrice|PessimisticOptimistic|DisjointRidge|ArmMeans|Standardised|Tabular|Power|SparseCosts)\b"
)
BANDIT = '[environment]\nkind = "bandit"\n'
AFTER = '[environment]\nkind = "bandit"\ncosts_seen = "after"\n'
TWO = 'actions = ["a", "b"]\n'
LATE = '[[rule]]\nkind = "budget"\nname = "hours"\nat_most = 0.5\nseen = "after"\n'
EARLY = '[[rule]]\nkind = "capacity"\naction = "a"\nat_most = 0.5\n'
SERVED = TWO + EARLY
# Command, spec, options, and what the message must say.
BAD = [
    (
        "simulate",
        '[policy]\nkind = "lagrangian"\nguard = "yes"\n' + BANDIT,
        "",
        "guard must be true or false, but got 'yes'",
    ),
    ("simulate", '[policy]\nsampling = "dice"\n' + BANDIT, "", "normal, members, gaps, but got 'dice'"),
    ("simulate", '[policy]\nsampling = "members"\n' + BANDIT, "", "but standardised is one model"),
    ("simulate", '[policy]\nkind = "pessimistic-optimistic"\nhorizon = 9\n' + AFTER, "", "Give slater, or V"),
    (
        "simulate",
        '[policy]\nkind = "pessimistic-optimistic"\nV = { scale = -1.0, exponent = 0.5 }\n' + BANDIT,
        "",
        "policy.V: scale of a schedule must be >= 0",
    ),
    ("simulate", '[policy]\nkind = "shadowprice"\n' + BANDIT, "", "(did you mean 'shadow-price'?)"),
    ("simulate", '[policy]\nreward = { model = "rigde" }\n' + BANDIT, "", "(did you mean 'ridge'?)"),
    (
        "simulate",
        '[policy]\nreward = { model = "features" }\n[environment]\nkind = "synthetic"\n',
        "",
        "policy.reward.transformer: is missing",
    ),
    ("simulate", BANDIT, "--rounds 0", "--rounds must be a whole number"),
    ("simulate", BANDIT, "--rounds many", '--rounds must be a whole number, but got "many"'),
    ("simulate", BANDIT, "--seed -1", "--seed must be"),
    ("simulate", '[environment]\nkind = "bandt"\n', "", "(did you mean 'bandit'?)"),
    (
        "simulate",
        TWO + '[[rule]]\nkind = "mean"\nname = "m"\n',
        "",
        "rule[0]: at_most or at_least must be given",
    ),
    ("oracle", TWO + 'context = { age = { type = "number", min = 3, max = 1 } }\n', "", "min = 3, max = 1"),
    (
        "oracle",
        TWO + 'groups = ["A", "B"]\n' + EARLY + 'among = "a"\n',
        "",
        "rule[0].among: unknown group 'a' (did you mean 'A'?)",
    ),
    ("tune", BANDIT, "--target foo<=0", "foo"),
    ("sweep", BANDIT, "", "sweep: is missing"),
    ("compare", None, "--policy shadowprice", "shadowprice"),
    ("serve", SERVED, "--host 0.0.0.0 --database memory:", "use --keys, or listen on 127.0.0.1"),
    (
        "serve",
        SERVED + "hard = true\n",
        "--database memory:",
        "a hard cap needs both `hard = true` and `total`",
    ),
    (
        "serve",
        TWO
        + LATE
        + '[policy]\nkind = "pessimistic-optimistic"\nreward = { model = "arm-means" }\nslater = 0.1\n'
        'cost = { model = "ridge" }\n',
        "--database memory:",
        'must be "arm-means" where there are no features',
    ),
    ("serve", TWO + '[policy]\nkind = "oracle"\n', "--database memory:", "can't be served here"),
    ("serve", None, "none.toml", "none.toml: can't be read"),
    ("fit", None, "none.csv", "none.csv can't be read"),
    ("evaluate", None, "nowhere --policy none.toml", "none.toml: can't be read"),
    ("replay", None, "nowhere", "nowhere"),
    ("backup", None, "nowhere", "nowhere"),
    ("erase", None, "nowhere", "--event-id or --before"),
    ("keys", None, "create keys.json --days -3", "days"),
    ("reproduce", None, "nothing", "nothing"),
    ("bench", None, "nothing", "nothing"),
    ("evidence", None, "nothing", "nothing"),
]


@pytest.mark.parametrize(("command", "spec", "options", "says"), BAD, ids=lambda one: str(one)[:30])
def test_errors_speak_of_options_and_of_the_spec(tmp_path, monkeypatch, capsys, command, spec, options, says):
    monkeypatch.chdir(tmp_path)
    given = []
    if spec is not None:
        (tmp_path / "bad.toml").write_text(spec)
        given = ["bad.toml"]
    assert main([command, *given, *options.split()]) in (1, 2)
    told = capsys.readouterr().err
    assert says in told
    assert not (found := SPEAKS_PYTHON.search(told)), found


@pytest.mark.parametrize(
    ("said", "python", "command", "json"),
    [
        (Place("max_pending"), "max_pending", "--max-pending", "max_pending"),
        (Place("usage", Key("hours"), 2), "usage['hours'][2]", "usage.hours[2]", "usage.hours[2]"),
        (Place("rule", 1, "range", 0), "rule[1].range[0]", "rule[1].range[0]", "rule[1].range[0]"),
        (Place("costs", (0, 2)), "costs[0, 2]", "costs[0, 2]", "costs[0, 2]"),
        (Either("`tr.solve`", "`tightrope oracle`"), "`tr.solve`", "`tightrope oracle`", "`tr.solve`"),
        (Text("{it!r}", it=tr.ArmMeans(3)), "ArmMeans(3, bonus=1)", "arm-means", "ArmMeans(3, bonus=1)"),
        (Text("{it!r} {it}", it=None), "None None", "nothing None", "None None"),
        (
            joined("; ", ["a", Text("{b}", b=Either("trust=", "--trust"))]),
            "a; trust=",
            "a; --trust",
            "a; trust=",
        ),
        ("{plain}, as an author wrote it", *["{plain}, as an author wrote it"] * 3),
    ],
)
def test_languages(said, python, command, json):
    typed = CommandLine(["--max-pending", "--trust"])
    assert [one.say(said) for one in (PYTHON, typed, JSON)] == [python, command, json]


def test_errors_keep_their_data_from_process_to_process():
    said = Text("give {keys}", keys=Either("keys=", "--keys"))
    error = tr.InvalidInput(field="rounds", must=said, got=lambda: 0, remedy=said).inside("a.toml")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.said(CommandLine()).startswith("a.toml: rounds must give --keys, but got <function")
    assert (again.field, again.must, again.remedy, again.within) == (("rounds",), said, said, "a.toml")


def test_an_error_behind_another_is_said_in_the_same_language():
    inner = tr.InvalidInput(field=Place("usage", Key("hours")), must="be a number", got=True)
    outer = tr.InvalidInput(inner, within="a.toml")
    assert str(outer) == "a.toml: usage['hours'] must be a number, but got True."
    assert outer.said(CommandLine()) == "a.toml: usage.hours must be a number, but got true."
    assert outer.field == inner.field


def test_concerns_are_told_in_commands(tmp_path, capsys):
    """Of a world whose rule can't be kept: what helps is a command, not a method."""
    spec = tmp_path / "tight.toml"
    spec.write_text(
        TWO + '[[rule]]\nkind = "budget"\nname = "hours"\nat_most = 0.4\nusage = { a = 0.5, b = 0.9 }\n'
        '[policy]\nkind = "uniform"\n[environment]\nkind = "tabular"\nweights = [1.0]\nrewards = [[0.2, 0.8]]\n'
        "[simulation]\nrounds = 1100\nreplications = 1\n"
    )
    main(["simulate", str(spec)])
    told = capsys.readouterr()
    assert not SPEAKS_PYTHON.search(told.out + told.err)


def test_an_error_about_a_part_of_something_larger():
    inner = tr.InvalidInput(field="at_most", must="be a number", got="x")
    assert str(inner.inside("rules[0]")) == "rules[0]: at_most must be a number, but got 'x'."
