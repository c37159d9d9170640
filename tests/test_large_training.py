"""Training and translating with data of every format, on one process and on two."""

import pytest
from conftest import DATA, ROOT, assert_same_run, read_records, run_python
from test_large_prepare import pairs, small_blocks, write_data  # noqa: F401 (fixtures)

import prepare
import train
import translate


@pytest.mark.parametrize("kind", ["several", "parquet"])
def test_data_train_and_translates(kind, pairs, tmp_path, capsys):  # noqa: F811
    data, run = tmp_path / "data", str(tmp_path / "run")
    data.mkdir()
    write_data(data, pairs, kind)
    options = "--config tiny --steps 4 --eval-steps 2 --run".split()
    assert train.main(["--data", str(data), *options, run]) == 0
    printed = capsys.readouterr()
    assert "140 pairs to train on" in printed.out
    assert "step/s" in printed.err
    assert translate.main(["--run", run, "--beam-size", "2", "He went home.", ""]) == 0
    assert capsys.readouterr().out.count("\n") == 2
    assert translate.main(["--run", run, "--score", str(data)]) == 0
    assert "20 sentences of test" in capsys.readouterr().out


def test_columns_the_wrong_way_round_are_refused(tmp_path, capsys):
    argv = ["--data", str(DATA), "--config", "tiny", "--run", str(tmp_path / "run")]
    assert train.main([*argv, "--src", "zh", "--tgt", "en"]) == 2
    message = "31907 of 31907 texts that should be zh have no letter of it"
    printed = capsys.readouterr().err
    assert printed.startswith(
        f"error: {DATA / 'train.tsv'}: {message}. It is read as source, tab, "
    )
    assert "--target-first" in printed and printed.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_prepared_data_give_the_run_of_plain_data(pairs, tmp_path, capsys):  # noqa: F811
    """On one process to the bit, and on two. Settings are those that were prepared with."""
    (tmp_path / "plain").mkdir()
    write_data(tmp_path / "plain", pairs, "csv")
    settings = "--config tiny --max-length 50 --dtype float32 --dropout 0 --steps 4".split()
    settings += ["--eval-steps", "2", "--bleu-sentences", "9"]
    prepared = ["--data", str(tmp_path / "prepared")]
    plain = ["--data", str(tmp_path / "plain"), *settings]
    assert prepare.main([*plain, "--out", prepared[1]]) == 0
    assert train.main([*plain, "--run", str(tmp_path / "one")]) == 0
    assert train.main([*prepared, "--dtype", "float32", "--run", str(tmp_path / "same")]) == 0
    assert_same_run(tmp_path / "one", tmp_path / "same")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2]
    options = [*prepared, "--dtype", "float32", "--run", tmp_path / "two"]
    two = run_python(*launch, ROOT / "train.py", "--", *options)
    assert two.returncode == 0, two.stderr
    for left, right in zip(*map(read_records, (tmp_path / "one", tmp_path / "two")), strict=True):
        for name in ("loss", "dev_loss"):
            assert left[name] == pytest.approx(right[name], rel=1e-5)
    assert translate.main(["--run", str(tmp_path / "same"), "--score", prepared[1]]) == 0
    assert "20 sentences of test" in capsys.readouterr().out
