"""Models that a package of the user brings are found by imports."""

from pathlib import Path

from llmperf import Library, library
from llmperf_published.reading.document import import_document
from llmperf_published.reading.library_match import Known
from published_tables import MY_LLAMA


def own_library(folder: Path, **models: str) -> Library:
    (folder / "models").mkdir()
    for name, text in models.items():
        (folder / "models" / f"{name}.toml").write_text(text, encoding="utf-8")
    return Library([*library().folders, ("mine", folder)])


def models_of(known: Known, *names: str) -> list[str | None]:
    rows = "\n".join(f"| {name} | 8 | 3000 |" for name in names)
    text = f"# Results\n\n| model | GPUs | token/p/s |\n|---|---|---|\n{rows}\n"
    return [row.model for row in import_document(text.encode(), "t.md", known).rows]


def test_a_model_of_an_own_package_is_found_by_name_and_title(tmp_path):
    known = Known.of(own_library(tmp_path, my_llama=MY_LLAMA))
    assert models_of(known, "My Llama", "my-llama", "My Llama 2", "llama2_7b") == [
        "my_llama",
        "my_llama",
        None,
        "llama2_7b",
    ]


def test_a_broken_model_of_an_own_package_does_not_stop_an_import(tmp_path):
    known = Known.of(own_library(tmp_path, my_llama=MY_LLAMA, broken="title = ["))
    assert models_of(known, "My Llama", "broken") == ["my_llama", None]
