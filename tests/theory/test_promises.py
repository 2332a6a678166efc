"""Every promise at once."""

from tightrope import theory


class TestGuarantees:
    def test_hospital_is_promised_nothing(self):
        table = theory.guarantees(K=18, delta=0.00625, d=20, T=62_500)
        assert table.violation > 18 * 62_500
        assert table.regret > 62_500
        assert table.regret_linear is None
        lines = str(table).splitlines()
        assert len(lines) == 10
        assert all(line.endswith("no") for line in lines[2:])

    def test_bandit_is_promised_an_end_of_violations_within_the_run(self):
        table = theory.guarantees(K=1, delta=0.5, d=4, T=10_000)
        assert table.violation_ends > 10_000 > table.violation_ends_sharp
        assert sum(line.endswith("yes") for line in str(table).splitlines()) == 4

    def test_the_best_end_is_the_earliest_and_the_old_ones_stay(self):
        table = theory.guarantees(K=1, delta=0.5, d=4, T=10_000)
        assert (table.violation_ends, table.violation_ends_sharp) == (246_722, 2_615)
        assert table.violation_ends_best == 588 < table.paths_end == 1_100
