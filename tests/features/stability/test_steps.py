"""Code read before it runs again: the frame and label that it is about, the cells it needs, its seeds."""

from __future__ import annotations

from cellwright.conversation.kernel_copies import Step
from cellwright.features.stability.steps import Frame, best_frame, best_label, needed_cells, with_hook, with_seed

DF = Frame("df", 100, ("age", "income", "churn"))
X = Frame("X", 100)
CELLS = [
    Step("c1", "cell [1]", "import pandas as pd\ndf = pd.read_csv('a.csv')"),
    Step("c2", "cell [2]", "y = df['churn']\nX = df[['age', 'income']].to_numpy()"),
    Step("c3", "cell [3]", "towns = ['a', 'b']"),
    Step("c4", "cell [4]", "model = Model()\nmodel.fit(X, y)"),
]


def test_the_cells_between_the_frame_and_the_call_are_needed_in_their_order() -> None:
    calls = [Step("1", "", "print(model.score(X, y), towns)")]
    assert [cell.id for cell in needed_cells(CELLS, calls, "df")] == ["c2", "c4"]
    assert [cell.id for cell in needed_cells(CELLS, calls, "X")] == ["c4"]


def test_a_call_that_makes_a_name_itself_needs_no_cell_for_it() -> None:
    calls = [Step("1", "", "y = df.age\nprint([n for n in y], df.mean())")]
    assert needed_cells(CELLS, calls, "df") == []


def test_the_frame_that_all_depends_on_comes_first() -> None:
    calls = [Step("1", "", "print(model.score(X, y))"), Step("2", "", "print(df.age.mean())")]
    assert [frame.name for frame in best_frame([X, DF], CELLS, calls)] == ["df", "X"]


def test_what_the_frame_was_made_of_and_what_the_call_makes_come_behind_it() -> None:
    cells = [Step("c1", "", "arm = draw()\ndf = DataFrame({'arm': arm})")]
    calls = [Step("1", "", "means = df.groupby('arm').mean()\nprint(means.a, means.b)")]
    frames = [Frame("means", 2, ("a", "b")), Frame("arm", 100), Frame("df", 100, ("arm", "a", "b"))]
    assert [frame.name for frame in best_frame(frames, cells, calls)] == ["df", "means", "arm"]


def test_the_label_is_what_the_code_explains() -> None:
    assert best_label(DF, [], [Step("1", "", "print(df.groupby('churn').age.mean())")]) == "churn"
    found = best_label(DF, [], [Step("1", "", "y = df.income; X = df[['age', 'churn']]")])
    assert found == "income"
    assert best_label(X, [Frame("y", 100), Frame("z", 100)], [Step("1", "", "fit(X, y, z)")]) == "y"
    assert best_label(X, [Frame("y", 40)], [Step("1", "", "fit(X, y)")]) == ""


def test_the_frame_is_perturbed_again_where_it_is_made_anew_and_code_that_is_no_python_stays() -> None:
    assert with_hook("df = read('é'); print(df)", "df") == "df = read('é'); __cellwright_perturb__(); print(df)"
    assert with_hook("df = df.dropna()\nother = read()", "df") == "df = df.dropna()\nother = read()"
    assert with_hook("%time df = read()", "df") == "%time df = read()"


def test_seeds_are_replaced_where_they_are_numbers() -> None:
    code = "np.random.seed(1)\nm = fit('é', random_state=42, n=42)\nr = default_rng(s)\nk = split(seed=None)"
    assert with_seed(code, 7) == code.replace("seed(1)", "seed(7)").replace("random_state=42", "random_state=7")
