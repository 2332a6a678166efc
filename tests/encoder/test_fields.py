import math
import re

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightrope.encoder import Encoder
from tightrope.encoder.fields import Category, Number, Vector
from tightrope.errors import InvalidInput

FIELDS = {
    "age": Number(0, 120),
    "ward": Category(["a", "b", "c"]),
    "stay": Number(-3.5, 14, "refuse"),
    "sex": Category(["f", "m"]),
}
GOOD = {"age": 30, "ward": "c", "stay": 14, "sex": "f"}


def test_the_vector_by_hand():
    features = Encoder.declared(FIELDS)
    assert features.names == ("one", "age", "ward=b", "ward=c", "stay", "sex=m")
    assert features.n_features == 6
    x = features.vector(GOOD)
    # Four fields and the constant: each entry is divided by √5.
    np.testing.assert_allclose(x * math.sqrt(5), [1, 0.25, 0, 1, 1, 0], atol=1e-14)
    assert x.dtype == np.float64
    assert x.flags.c_contiguous


def test_order_of_what_is_sent_does_not_matter():
    features = Encoder.declared(FIELDS)
    backwards = dict(reversed(GOOD.items()))
    np.testing.assert_array_equal(features.vector(GOOD), features.vector(backwards))


def test_each_vector_is_new():
    features = Encoder.declared(FIELDS)
    first = features.vector(GOOD)
    first[:] = 7
    assert features.vector(GOOD)[0] < 1


@st.composite
def maps(draw):
    numbers = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda p: Number(p[0], p[0] + p[1]))
    texts = st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=5, unique=True).map(Category)
    return draw(st.dictionaries(st.text(min_size=1, max_size=5), numbers | texts, max_size=6))


@settings(max_examples=150, deadline=None)
@given(maps(), st.data())
def test_norm_is_at_most_one_and_extremes_reach_it(fields, data):
    features = Encoder.declared(fields)
    context = {}
    for name, field in fields.items():
        if isinstance(field, Number):
            context[name] = data.draw(
                st.floats(field.min, field.max) | st.sampled_from([field.min, field.max])
            )
        else:
            context[name] = data.draw(st.sampled_from(field.values))
    x = features.vector(context)
    assert x.shape == (features.n_features,) == (len(features.names),)
    assert math.sqrt(math.fsum(x * x)) <= 1.0
    assert (x >= 0).all()
    largest = {n: f.max if isinstance(f, Number) else f.values[-1] for n, f in fields.items()}
    assert math.sqrt(math.fsum(features.vector(largest) ** 2)) == pytest.approx(1.0, abs=1e-12)


def test_a_category_of_one_value_adds_nothing():
    assert Encoder.declared({"only": Category(["x"])}).names == ("one",)
    assert Encoder.declared({}).vector({}) == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stay": 14.5}, r"context\.stay must lie in \[-3.5, 14\], but got 14.5"),
        ({"stay": -3.6}, r"context\.stay must lie in"),
        ({"stay": math.nan}, r"context\.stay is missing"),
        ({"age": math.nan}, r"context\.age is missing"),
        ({"age": math.inf}, r"context\.age must be finite"),
        ({"age": True}, r"context\.age must be a number, but got True"),
        ({"age": "30"}, r"context\.age must be a number, but got '30'"),
        ({"age": None}, r"context\.age is missing: give a number"),
        ({"age": [1]}, r"context\.age must be a number"),
        ({"stay": 10**400}, r"context\.stay must lie in"),
        ({"ward": "d"}, r"context\.ward must be one of 'a', 'b', 'c', but got 'd'"),
        ({"ward": 1}, r"context\.ward must be one of"),
        ({"ward": ["a"]}, r"context\.ward must be a text or a number"),
        ({"agee": 3}, r"context\.agee is not a declared field \(did you mean 'age'\?\); declared: age, ward"),
        ({1: 3}, r"context\.1 is not a declared field"),
    ],
)
def test_what_is_refused_names_the_field(change, message):
    with pytest.raises(InvalidInput, match=message):
        Encoder.declared(FIELDS).vector({**GOOD, **change})


@pytest.mark.parametrize("value", [121, 30_000.0, 1e308, -1e308, 10**400])
def test_a_number_outside_is_clipped_or_taken_within_reach_and_stays_small(value):
    clipped = Encoder.declared(FIELDS)
    end = 120 if value > 0 else 0
    assert clipped.vector({**GOOD, "age": value}).tolist() == clipped.vector({**GOOD, "age": end}).tolist()
    assert clipped.outside({**GOOD, "age": value}) == ["age"]
    assert clipped.outside(GOOD) == []
    taken = Encoder.declared({**FIELDS, "age": Number(0, 120, "take")})
    x = taken.vector({**GOOD, "age": value})
    assert x @ x <= 1.0
    far = max(min(value, 1320), -1200)
    assert x[1] / x[0] == pytest.approx(far / 120)


@pytest.mark.parametrize("name", list(FIELDS))
def test_a_missing_field_is_named(name):
    context = {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(InvalidInput, match=rf"context\.{name} is missing"):
        Encoder.declared(FIELDS).vector(context)


def test_a_missing_and_an_unknown_field_do_not_cancel():
    context = {**GOOD, "sx": "f"}
    del context["sex"]
    with pytest.raises(InvalidInput, match=r"context\.sx is not a declared field"):
        Encoder.declared(FIELDS).vector(context)


@pytest.mark.parametrize("context", [[1, 2], "age", None, 3])
def test_a_context_is_a_table(context):
    with pytest.raises(InvalidInput, match="must be a row by column names"):
        Encoder.declared(FIELDS).vector(context)


def test_numpy_scalars_are_numbers():
    context = {**GOOD, "age": np.int64(30), "stay": np.float64(14)}
    np.testing.assert_array_equal(
        Encoder.declared(FIELDS).vector(context), Encoder.declared(FIELDS).vector(GOOD)
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Number(1, 1), "min < max"),
        (lambda: Number(2, 1), "min < max"),
        (lambda: Number(-1e308, 1e308), "min < max"),
        (lambda: Number(math.nan, 1), "min must be finite"),
        (lambda: Number(True, 2), "min must be a number"),
        (lambda: Category([]), "at least one"),
        (lambda: Category(["a", "a"]), "differ"),
        (lambda: Category("ab"), "list of texts"),
        (lambda: Category([1]), "list of texts"),
        (lambda: Encoder.declared({"x": "number"}), r"context\.x must be a Number or a Category"),
    ],
)
def test_declarations_are_checked(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_fields_survive_json():
    for field in FIELDS.values():
        data = msgspec.json.encode(field)
        assert msgspec.json.decode(data, type=Number | Category) == field


def test_numbers_without_names():
    vector = Vector(count=2, min=-1, max=1)
    np.testing.assert_allclose(vector.rows([0, 1]) * 3**0.5, [1.0, 0.5, 1.0])
    with pytest.raises(InvalidInput, match=r"^features\[1\] must lie in \[-1, 1\], but got 1e\+20\.$"):
        vector.rows([0, 1e20])
    assert Category(["f", "m"]).values == ("f", "m")


def test_missing_and_undeclared_values_are_taken_as_declared():
    tolerant = {
        "age": Number(0, 100, missing=40),
        "weight": Number(0, 10, missing="indicator"),
        "sex": Category(["f", "m"], missing="m", other="f"),
        "device": Category(["ios", "android"], other="indicator", missing="indicator"),
    }
    features = Encoder.declared(tolerant)
    assert features.names == (
        *(
            "one",
            "age",
            "weight",
            "weight missing",
            "sex=m",
            "device=android",
            "device other",
            "device missing",
        ),
    )
    whole = {"age": 40, "weight": 0, "sex": "m", "device": "ios"}
    empty, odd = features.vector({}), features.vector({**whole, "sex": "x", "device": "web"})
    np.testing.assert_allclose(empty * features.norm, [1, 0.4, 0, 1, 1, 0, 0, 1], atol=1e-14)
    np.testing.assert_allclose(odd * features.norm, [1, 0.4, 0, 0, 0, 0, 1, 0], atol=1e-14)
    assert features.replaced({}) == [(name, "missing") for name in tolerant]
    assert features.replaced({**whole, "sex": "x", "device": None}) == [
        ("sex", "other"),
        ("device", "missing"),
    ]
    assert features.replaced(whole) == []
    assert features.taken_as == {
        "age": {"missing": "40"},
        "weight": {"missing": "missing"},
        "sex": {"missing": "m", "other": "f"},
        "device": {"missing": "missing", "other": "one value for all others"},
    }
    assert features.schema()["required"] == []
    assert np.linalg.norm(features.vector({**whole, "age": 100, "weight": 10, "device": "web"})) <= 1
    assert Encoder.from_dict(features.to_dict()) == features
    # A table read by an encoder that was declared in the same words.
    table = [{**whole, "sex": None}, {**whole, "sex": "x"}]
    np.testing.assert_array_equal(features.transform(table)[:, 4] > 0, [True, False])


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Number(0, 1, missing=2), "missing must lie in [0, 1], but got 2"),
        (lambda: Category(["a"], missing="b"), 'missing must be one of its values, or "indicator"'),
        (lambda: Category(["a"], other="b"), 'other must be one of its values, or "indicator"'),
    ],
)
def test_what_stands_in_must_be_declared(made, words):
    with pytest.raises(InvalidInput, match=re.escape(words)):
        made()


def test_what_is_not_tolerant_still_refuses():
    features = Encoder.declared({"age": Number(0, 1, missing=0.5), "sex": Category(["f", "m"], missing="f")})
    for context in ({"age": "old", "sex": "f"}, {"age": 1, "sex": "x"}, {"age": float("inf"), "sex": "f"}):
        with pytest.raises(InvalidInput):
            features.vector(context)
