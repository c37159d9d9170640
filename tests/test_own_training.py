"""What edited lessons draw and keep: a resumed run goes on with it, or one line says so."""

import random
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import TINY, read_records
from torch import nn

import train
from engine import (
    definitions,
    loading,
    options,
    pretrained,
    run_config,
    run_folder,
    scoring,
    training_run,
    wrapped_loss,
)
from engine.checkpoints import (
    Progress,
    check_schedule,
    load_checkpoint,
    save_checkpoint,
)
from engine.definitions import code_digest, lesson_digests, lessons
from engine.errors import InputError
from engine.loading import endless_batches
from engine.model_files import check_storable, read_tensors, weights_digest
from engine.options import check_effects
from engine.pretrained import BOX, tell_edited
from engine.run_folder import RunFolder, search_digest
from engine.scoring import made_with
from engine.training_run import run_training
from engine.wrapped_loss import WrappedLoss, forward_is_ours
from notebooks import label_smoothing
from notebooks.data_preparation import (
    CharacterSegmenter,
    TokenBatchSampler,
    Tokenizer,
    TranslationDataset,
    Vocabulary,
)
from notebooks.label_smoothing import LabelSmoothing
from notebooks.layer_norm import LayerNorm
from notebooks.loss import BatchLoss
from notebooks.make_model import make_model
from notebooks.setup import replace
from notebooks.training import train_step

SHORT = replace(TINY, steps=6, eval_steps=3, warmup_steps=2, batch_tokens=200)
DRAWS = {  # numbers from 0 to 1, by any library
    "PyTorch": lambda: torch.rand(1).item(),
    "NumPy": lambda: np.random.random(),  # noqa: NPY002
    "Python": random.random,
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_sampler_and_a_data_set_that_draw_do_the_same_when_resumed(monkeypatch, draw):
    class Sampler(TokenBatchSampler):
        def __iter__(self):
            for rows in sorted(super().__iter__(), key=lambda _: draw()):
                yield rows[: 1 + int(9 * draw())]  # in each batch, too

    class Data(TranslationDataset):
        def __getitem__(self, number):
            source, target = super().__getitem__(number)
            return [token if draw() > 0.5 else 1 for token in source], target

    monkeypatch.setattr(loading, "TokenBatchSampler", Sampler)
    tokenizer = Tokenizer(CharacterSegmenter(), Vocabulary("abcdefgh"))
    pairs = [("abcdefgh"[row % 5 :] * 3, "abc") for row in range(40)]
    data = Data(pairs, tokenizer, tokenizer, 60)
    straight = endless_batches(data, SHORT, Progress())
    for _ in range(3):
        _, position = next(straight)
    epoch, used = position
    resumed = endless_batches(data, SHORT, Progress(epoch=epoch, batch=used))
    for _ in range(6):  # into the next epochs
        draw()  # a step draws, too
        (one, _), (other, _) = next(straight), next(resumed)
        assert torch.equal(one.src, other.src)


class Counting(torch.optim.SGD):
    """Counts its steps in its group, and keeps a moment in another type."""

    def step(self, closure=None):
        super().step(closure)
        for group in self.param_groups:
            group["count"] = group.get("count", 0) + 1
            for parameter in group["params"]:
                self.state[parameter]["kept"] = torch.ones(1, dtype=torch.float64) / 3


DIGESTS = {"lesson": "of this week"}


def counting(model):
    """A new one with its schedule, noted as `train_in` does."""
    optimizer = Counting(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1)
    check_schedule(model, optimizer, scheduler)
    return optimizer, scheduler


@pytest.mark.parametrize("value", [[torch.ones(2)] * 2, "matrix"])
def test_an_optimizer_whose_state_cannot_be_stored_is_refused(tmp_path, value):
    model = make_model(TINY, 30, 30)
    optimizer, scheduler = counting(model)
    optimizer.state[next(model.parameters())]["own"] = value
    with pytest.raises(InputError, match="cannot store 'own', a (list|str) of the optimizer"):
        save_checkpoint(tmp_path, model, optimizer, scheduler, Progress(step=1), "x", DIGESTS)


def test_an_optimizer_that_counts_in_its_groups_goes_on(tmp_path):
    model = make_model(TINY, 30, 30)
    optimizer, scheduler = counting(model)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    save_checkpoint(tmp_path, model, optimizer, scheduler, Progress(step=1), "x", DIGESTS)
    resumed, schedule = counting(model)
    load_checkpoint(tmp_path / "step-1", model, resumed, schedule, "x", DIGESTS)
    assert resumed.param_groups[0]["count"] == 1
    for parameter in model.parameters():
        state = resumed.state[parameter]["kept"]
        assert state.dtype == torch.float64 and torch.equal(
            state, optimizer.state[parameter]["kept"]
        )


def test_the_optimizer_s_state_is_each_parameter_s_own_in_any_order(tmp_path):
    """A class whose lines are exchanged has another order, and so has a set."""
    model = make_model(TINY, 30, 30)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for number, parameter in enumerate(model.parameters()):
        parameter.grad = torch.full_like(parameter, float(number))
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1)
    save_checkpoint(tmp_path, model, optimizer, scheduler, Progress(step=1), "x", DIGESTS)
    other = torch.optim.Adam(list(model.parameters())[::-1], lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(other, lambda step: 1)
    load_checkpoint(tmp_path / "step-1", model, other, scheduler, "x", DIGESTS)
    for parameter in model.parameters():
        assert torch.equal(other.state[parameter]["exp_avg"], optimizer.state[parameter]["exp_avg"])
    foreign = torch.optim.Adam([*model.parameters(), nn.Parameter(torch.ones(1))])
    with pytest.raises(InputError, match="a parameter that the model lacks"):
        check_schedule(model, foreign, scheduler)


def test_what_no_checkpoint_could_hold_is_refused_before_it_trains():
    model = make_model(TINY, 30, 30)
    optimizer, scheduler = counting(model)
    scheduler.lr_lambdas = []
    scheduler.state_dict = lambda: {"rate": torch.ones(1)}
    with pytest.raises(InputError, match="cannot store the optimizer and the schedule"):
        check_schedule(model, optimizer, scheduler)
    with pytest.raises(InputError, match="Give both, of functions and numbers"):
        check_schedule(model, optimizer, None)


def test_parameters_that_no_optimizer_trains_have_to_be_frozen():
    """Else their gradients, which `optimizer.zero_grad()` leaves, add up and count in the norm."""
    model = make_model(TINY, 30, 30)
    optimizer = torch.optim.SGD(model.decoder.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1)
    with pytest.raises(InputError, match="leaves src_embedding.* out. Give it all"):
        check_schedule(model.requires_grad_(True), optimizer, scheduler)
    model.requires_grad_(False).decoder.requires_grad_(True)
    check_schedule(model, optimizer, scheduler)


def test_a_loss_with_state_is_refused(monkeypatch, small_data, tmp_path):
    class Learned(LabelSmoothing):
        def __init__(self, smoothing):
            super().__init__(smoothing)
            self.weight = nn.Parameter(torch.ones(1))

    monkeypatch.setattr(training_run, "LabelSmoothing", Learned)
    with pytest.raises(InputError, match="has parameters or buffers"):
        run_training(small_data, SHORT, tmp_path / "learned")


def loop(evaluate_at, log_at=()):
    """An edited `train` that evaluates after these steps, and logs after those."""

    def train(run, batch_loss, optimizer, scheduler, config):
        if 0 in evaluate_at:
            run.evaluate()
        for step, batch in run.batches():
            loss, count, norm = train_step(batch_loss, batch, optimizer, 1.0)
            run.add(loss, count, norm, 0.1)
            if step in evaluate_at:
                run.evaluate()
                run.save()
            if step in log_at:
                run.log()

    return train


def test_the_mean_is_of_the_checkpoints_that_were_evaluated(monkeypatch, small_data, tmp_path):
    monkeypatch.setattr(training_run, "train", loop((2, 4, 6)))
    config = replace(SHORT, keep="average", checkpoints=3)
    run_training(small_data, config, tmp_path)
    names = [path.name for path in RunFolder(tmp_path).checkpoints()]
    assert names == ["step-2", "step-4", "step-6"]


def test_evaluating_before_the_first_step_and_logging_twice_is_no_error(
    monkeypatch, small_data, tmp_path
):
    monkeypatch.setattr(training_run, "train", loop((0, 3, 6), log_at=(3,)))
    run_training(small_data, SHORT, tmp_path)
    assert [record["step"] for record in read_records(tmp_path)] == [0, 3, 6]


def test_a_loss_that_is_edited_gets_whole_batches(monkeypatch):
    model = make_model(TINY, 30, 30)
    assert forward_is_ours(model)
    monkeypatch.setattr(label_smoothing.LabelSmoothing, "forward", lambda *_: None)
    assert not forward_is_ours(model)


EDITS = {
    "another forward": lambda model: setattr(model, "forward", lambda *_: None),
    "a hook": lambda model: model.register_forward_hook(lambda *_: None),
    "another generator": lambda model: setattr(model, "generator", nn.Linear(32, 30)),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_model_that_is_edited_when_it_is_made_gets_whole_batches(edit):
    model = make_model(TINY, 30, 30)
    edit(model)
    assert not forward_is_ours(model)


def test_digests_follow_what_lesson_00_gives_others_but_no_setting(monkeypatch):
    setup, others = definitions.lessons(["00"])[0], definitions.lessons(["01"])
    ours = definitions.notebook_source

    def digest_with(old, new):
        text = ours(setup).replace(old, new)
        assert text != ours(setup)
        monkeypatch.setattr(
            definitions, "notebook_source", lambda path: text if path == setup else ours(path)
        )
        return code_digest(*others), lesson_digests()

    before = code_digest(*others), lesson_digests()
    assert digest_with("batch_tokens=1024, steps=40", "batch_tokens=99, steps=40") == before
    assert digest_with("min_freq: int = 2", "min_freq: int = 3") == before
    assert digest_with("self.d_model % 2:", "self.d_model % 4:") != before
    assert digest_with("PRESETS = {", "SHORT = 3\nPRESETS = {") != before
    assert digest_with("    min_freq: int", "    NAMES: ClassVar = 3\n    min_freq: int") != before


def test_what_lesson_15_writes_and_an_optimizer_of_ones_own_change_no_lesson(tmp_path, monkeypatch):
    """Whether or not lesson 14 is imported, as it is in a training and not in a translation."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_optimizer.py").write_text("def make_optimizer(model, config): ...")
    ours = definitions.notebook_source
    added = {
        "14": "from own_optimizer import make_optimizer",
        "15": "log = open('losses.csv', 'a')",
    }
    monkeypatch.setattr(
        definitions, "notebook_source", lambda path: f"{ours(path)}\n{added.get(path.name[:2], '')}"
    )
    before = lesson_digests()
    assert len(set(before.values())) == 3
    (tmp_path / "losses.csv").write_text("4.5")
    from own_optimizer import make_optimizer

    monkeypatch.setattr("notebooks.optimizer_schedule.make_optimizer", make_optimizer)
    assert lesson_digests() == before


def test_scores_and_alphas_belong_to_settings_and_searches(
    monkeypatch, finished_run, tmp_path, capsys
):
    before = made_with(finished_run)
    config = RunFolder(finished_run).read_config()
    monkeypatch.setattr(RunFolder, "read_config", lambda _: replace(config, label_smoothing=0.3))
    assert made_with(finished_run) != before
    search = tmp_path / "search.json"
    search.write_text(f'{{"alpha": 0.6, "search": "{search_digest()}"}}')
    assert RunFolder(tmp_path).alpha(1.4) == 0.6
    monkeypatch.setattr(run_folder, "search_digest", lambda: "another")
    assert RunFolder(tmp_path).alpha(1.4) == 1.4
    assert "Choose again: --alpha auto" in capsys.readouterr().err


def test_an_alpha_that_was_chosen_for_weights_of_before_is_not_kept(
    monkeypatch, finished_run, small_data, tmp_path, capsys
):
    run = shutil.copytree(finished_run, tmp_path / "run")
    made = iter(["before", "after"])
    monkeypatch.setattr(scoring, "made_with", lambda _: next(made))
    monkeypatch.setattr(scoring, "choose_alpha", lambda *_: 0.6)
    scoring.score(run, small_data, "test", 2, "auto")
    assert not (run / "search.json").exists()
    assert "0.6 is used now and not kept" in capsys.readouterr().err


def test_the_length_penalty_stays_where_no_other_is_better(monkeypatch):
    text = "他每天晚上弹钢琴。"
    for better, chosen in ((None, scoring.ALPHA), (0.6, 0.6)):

        def translate(sentences, beam_size, alpha, better=better):
            return [text if alpha == better else "不"]

        translator = SimpleNamespace(translate=translate, config=SimpleNamespace(tgt="zh"))
        assert scoring.choose_alpha(translator, [("He plays the piano.", text)], 4) == chosen


def test_what_only_training_uses_is_not_said_to_be_used(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(pretrained, "edited_names", lambda: ["Batch", "LayerNorm"])
    tell_edited(BOX)
    message = capsys.readouterr().err
    assert "your version of LayerNorm is used" in message
    assert "used in training only: Batch" in message
    tell_edited(tmp_path)  # a run of one's own: the first is no news
    assert capsys.readouterr().err == "edited, and used in training only: Batch\n"


def test_complex_and_single_numbers_of_an_edited_class_are_stored(
    small_data, tmp_path, monkeypatch
):
    init = LayerNorm.__init__

    def with_numbers(self, *options):
        init(self, *options)
        self.alpha = nn.Parameter(torch.tensor(0.0))
        self.register_buffer("turn", torch.polar(torch.ones(2), torch.ones(2)))

    monkeypatch.setattr(LayerNorm, "__init__", with_numbers)
    config = replace(SHORT, keep="average", checkpoints=2, eval_steps=1)
    run_training(small_data, config, tmp_path / "run")
    tensors = read_tensors(tmp_path / "run" / "model.safetensors")
    turns = [tensor for name, tensor in tensors.items() if name.endswith("turn")]
    assert turns and all((turn.imag != 0).all() for turn in turns)
    assert weights_digest(tmp_path / "run" / "model.safetensors")


def test_a_criterion_is_measured_as_in_evaluation(small_data, tmp_path, monkeypatch):
    class Dearer(LabelSmoothing):
        def forward(self, logits, targets):
            return super().forward(logits, targets) + 1e6 * self.training

    monkeypatch.setattr(training_run, "LabelSmoothing", Dearer)
    records = run_training(small_data, SHORT, tmp_path / "run")
    assert records[-1]["dev_loss"] < 20


def test_sides_turned_in_one_split_alone(tmp_path, monkeypatch):
    (tmp_path / "train.jsonl").write_text('{"en": "a", "zh": "b"}')
    (tmp_path / "dev.tsv").write_text("b\ta")
    turned = replace(SHORT, target_first=True)
    check_effects(turned, SHORT, data=tmp_path)
    (tmp_path / "dev.tsv").rename(tmp_path / "dev.jsonl")
    with pytest.raises(InputError, match="have names"):
        check_effects(turned, SHORT, data=tmp_path)


def test_a_preset_may_set_what_a_run_has_and_nothing_else(monkeypatch):
    presets = {"tiny": dict(eval_steps=5), "mine": dict(heads=4)}
    monkeypatch.setattr(run_config, "PRESETS", presets)
    assert run_config.RunConfig.preset("tiny").eval_steps == 5
    with pytest.raises(InputError, match="preset mine of notebook 00 sets heads"):
        run_config.RunConfig.preset("mine")


def test_a_preset_whose_rate_has_no_effect_is_refused(monkeypatch, capsys):
    preset = {"mine": dict(schedule="noam", learning_rate=1e-9)}
    for module in (run_config, options):
        monkeypatch.setattr(module, "PRESETS", preset)
    assert train.main(["--config", "mine", "--run", "nowhere"]) == 2
    assert "preset mine of notebook 00 sets learning_rate" in capsys.readouterr().err


def test_a_loop_that_counts_no_step_ends(small_data, tmp_path, monkeypatch):
    monkeypatch.setattr(training_run, "train", lambda run, *_: list(run.batches()))
    with pytest.raises(InputError, match="15's loop went .* made no step: run.add counts them"):
        run_training(small_data, SHORT, tmp_path / "run")


@pytest.mark.parametrize("edit", ["a class below", "layers for a projection"])
def test_a_loss_of_parts_is_that_of_the_edited_class(monkeypatch, edit):
    model = make_model(TINY, 30, 30)
    if edit == "a class below":
        monkeypatch.setattr(wrapped_loss, "BatchLoss", type("BatchLoss", (BatchLoss,), {}))
        with pytest.raises(InputError, match="notebook 13: BatchLossInParts inherits"):
            WrappedLoss(model, LabelSmoothing(0), TINY)
    else:
        model.generator.projection = nn.Sequential(model.generator.projection)
        assert not forward_is_ours(model)


@pytest.mark.parametrize("calls", ["", "evaluate", "save", "save, evaluate", "evaluate, save"])
def test_a_run_that_is_finished_has_a_checkpoint_that_says_so(
    calls, small_data, tmp_path, monkeypatch
):
    """Whatever an edited loop calls at its evaluations, and in which order."""

    def train(run, batch_loss, optimizer, scheduler, config):
        for step, batch in run.batches():
            run.add(*train_step(batch_loss, batch, optimizer, 1.0), 0.1)
            if step % 3 == 0:
                for call in calls.split(", ") if calls else []:
                    getattr(run, call)()

    monkeypatch.setattr(training_run, "train", train)
    run_training(small_data, SHORT, tmp_path)
    last = RunFolder(tmp_path).progress()
    losses = [one["dev_loss"] for one in read_records(tmp_path) if "dev_loss" in one]
    assert (last.step, last.finished, last.best_loss) == (6, True, min(losses))
    run_training(small_data, SHORT, tmp_path)  # nothing is measured again
    assert len(losses) == len([one for one in read_records(tmp_path) if "dev_loss" in one])


def test_a_measure_below_zero_is_read_again(small_data, tmp_path, monkeypatch, capsys):
    """As that of an edited `evaluate` in which higher is better."""
    measure = training_run.evaluate
    monkeypatch.setattr(training_run, "evaluate", lambda *given: -measure(*given))
    run_training(small_data, SHORT, tmp_path)
    assert RunFolder(tmp_path).progress().best_loss < 0
    run_training(small_data, SHORT, tmp_path)
    assert "finished already" in capsys.readouterr().out


def test_a_loop_that_ends_early_says_so(small_data, tmp_path, monkeypatch, capsys):
    def train_two(run, batch_loss, optimizer, scheduler, config):
        for step, batch in run.batches():
            run.add(*train_step(batch_loss, batch, optimizer, 1.0), 0.1)
            if step == 2:
                run.evaluate()
                return

    monkeypatch.setattr(training_run, "train", train_two)
    options = ["--config", "tiny", "--steps", "4", "--warmup-steps", "2", "--bleu-sentences", "0"]
    data = ["--data", str(small_data), "--run", str(tmp_path / "run")]
    assert train.main([*options, *data]) == 0
    printed = capsys.readouterr()
    assert "loop ended at step 2 of 4: the same command goes on" in printed.err
    assert "stopped at step 2" in printed.out and "finished" not in printed.out


def test_what_a_model_draws_and_no_file_holds_is_drawn_alike(small_data, tmp_path, monkeypatch):
    """A buffer that is not stored: the run is translated with the one it was trained with."""

    def drawing(*arguments):
        model = make_model(*arguments)
        model.register_buffer("noise", torch.randn(3), persistent=False)
        drawn.append(model.noise)
        return model

    drawn = []
    for module in (training_run, run_folder):
        monkeypatch.setattr(module, "make_model", drawing)
    run_training(small_data, SHORT, tmp_path / "run")
    before = torch.get_rng_state()
    for _ in range(2):
        RunFolder(tmp_path / "run").load()
    assert all(torch.equal(one, drawn[0]) for one in drawn) and len(drawn) == 3
    assert torch.equal(before, torch.get_rng_state())


def test_a_vocabulary_that_holds_a_token_twice_is_refused():
    tokenizer = Tokenizer(CharacterSegmenter(), Vocabulary(["a", "b", "a"]))
    with pytest.raises(InputError, match="holds 'a' twice"):
        check_storable(tokenizer)


def test_a_plot_takes_no_data(finished_run, tmp_path, capsys):
    options = ["--run", str(finished_run), "--plot", str(tmp_path / "p.png")]
    assert train.main([*options, "--data", "/nowhere"]) == 2
    assert "leave the training's options out" in capsys.readouterr().err


def test_a_run_that_goes_on_tells_what_begins_anew(small_data, tmp_path, monkeypatch, capsys):
    config = replace(SHORT, steps=4, eval_steps=2)
    run_training(small_data, config, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-4")
    monkeypatch.setattr(training_run, "edited_names", lambda numbers: ["TokenBatchSampler"])
    run_training(small_data, config, tmp_path / "run")
    assert "your version of TokenBatchSampler goes on" in capsys.readouterr().err


def test_files_and_modules_that_a_lesson_reads_count(tmp_path, monkeypatch):
    lesson, words = tmp_path / "01_data_preparation.ipynb", tmp_path / "words.txt"
    code = f"#| export\\nfrom outside_module import cut\\nwords = open('{words.as_posix()}')"
    lesson.write_text(f'{{"cells": [{{"cell_type": "code", "source": "{code}"}}]}}')
    monkeypatch.syspath_prepend(tmp_path)
    digests = set()
    for text, cut in (("a", "1"), ("b", "1"), ("b", "2")):
        words.write_text(text)
        (tmp_path / "outside_module.py").write_text(f"cut = {cut}")
        digests.add(code_digest(lesson))
    assert len(digests) == 3
    (tmp_path / "outside_module.py").write_text("cut = open('near.txt')")  # beside the module
    for text in "ab":
        (tmp_path / "near.txt").write_text(text)
        digests.add(code_digest(lesson))
    assert len(digests) == 5


def test_a_file_that_is_called_like_a_word_of_the_code_is_no_part_of_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = code_digest(*lessons())
    for name in ("zh", "words", "sum", "noam"):
        (tmp_path / name).write_text("a text")
    assert code_digest(*lessons()) == before


def test_a_module_of_ones_own_is_read_as_python_reads_it(tmp_path, monkeypatch):
    lesson = tmp_path / "01_data_preparation.ipynb"
    code = "#| export\\nimport marked_module, latin_module"
    lesson.write_text(f'{{"cells": [{{"cell_type": "code", "source": "{code}"}}]}}')
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "marked_module.py").write_text("é = 1", encoding="utf-8-sig")
    latin = tmp_path / "latin_module.py"
    latin.write_bytes("# coding: latin-1\né = 1".encode("latin-1"))
    before = code_digest(lesson)
    latin.write_bytes("# coding: latin-1\né = 2".encode("latin-1"))
    assert code_digest(lesson) != before


def test_a_log_that_is_emptied_in_a_training_is_whole_in_the_end(small_data, tmp_path):
    log = tmp_path / "run" / "log.jsonl"
    config = replace(SHORT, steps=4, eval_steps=1)

    def empty(records):
        if len(records) == 2:
            log.write_text("")

    run_training(small_data, config, tmp_path / "run", on_log=empty)
    assert [record["step"] for record in read_records(tmp_path / "run")] == [1, 2, 3, 4]
