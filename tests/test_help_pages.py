"""The European pair that data_large/README.md measures, from pages made here."""

import sys

from utils import ROOT

sys.path.append(str(ROOT / "benchmarks"))

from help_pages import HELD_BACK, help_pairs, main, split


def write(folder, language, paragraphs):
    page = folder / language / "text" / "guide" / "page.html"
    page.parent.mkdir(parents=True)
    tags = [f'<p id="{name}" class="paragraph">{text}</p>' for name, text in paragraphs.items()]
    page.write_text(f"<html><body>{''.join(tags)}</body></html>", encoding="utf-8")


def test_paragraphs_of_the_same_name_are_pairs(tmp_path):
    write(
        tmp_path,
        "en-US",
        {
            "par_id1": "Choose <span>Insert</span>\n &amp; save  it.",
            "par_id2": "the same in both",
            "par_id3": "Two words",
            "par_id4": "only in English here",
            "other": "no name that counts",
            "par_id5": "Choose Insert & save it.",
            "hd_id6": "a heading of four " + "words " * 40,
            "par_id7": "nothing on the other side",
        },
    )
    write(
        tmp_path,
        "de",
        {
            "par_id1": "Wählen Sie <b>Einfügen</b> und speichern.",
            "par_id2": "the same in both",
            "par_id3": "Zwei Wörter",
            "other": "kein Name",
            "par_id5": "Noch einmal, anders.",
            "hd_id6": "zu lang",
            "par_id7": " ",
        },
    )
    assert help_pairs(tmp_path) == {
        "Choose Insert & save it.": "Wählen Sie Einfügen und speichern."
    }


def test_nothing_of_train_is_the_answer_in_dev_or_test():
    pairs = [(f"sentence {n}", f"Satz {n % 3000}") for n in range(4000)]
    found = split(pairs)
    assert found == split(pairs) and len(found["dev"]) == len(found["test"]) == HELD_BACK
    held = {german for _, german in found["dev"] + found["test"]}
    assert not held & {german for _, german in found["train"]}
    kept = {pair for part in found.values() for pair in part}
    assert all(german in held for _, german in set(pairs) - kept)


def test_three_files_are_written(tmp_path, capsys):
    write(tmp_path, "en-US", {f"par_id{n}": f"page number {n} of many" for n in range(1605)})
    write(tmp_path, "de", {f"par_id{n}": f"Seite {n} von vielen" for n in range(1605)})
    main(tmp_path, tmp_path / "pairs")
    assert "train.tsv: 5 pairs" in capsys.readouterr().out
    train = (tmp_path / "pairs" / "train.tsv").read_text(encoding="utf-8").splitlines()
    assert len(train) == 5 and train[0].startswith("page number ")
