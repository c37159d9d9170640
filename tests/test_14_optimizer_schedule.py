import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.run_config import RunConfig
from notebooks.make_model import make_model
from notebooks.optimizer_schedule import linear_rate, make_optimizer, noam_rate
from notebooks.setup import replace


@given(step=st.integers(1, 10**6), d_model=st.integers(1, 2048), warmup=st.integers(1, 10**5))
def test_noam_is_the_formula_and_peaks_at_the_end_of_the_warm_up(step, d_model, warmup):
    rate = noam_rate(step, d_model, warmup)
    formula = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    assert rate == pytest.approx(formula, rel=1e-9, abs=0)
    assert rate <= noam_rate(warmup, d_model, warmup) * (1 + 1e-12)


@given(total=st.integers(2, 5000), data=st.data())
def test_linear_rises_to_its_peak_then_falls_to_nothing_behind_the_last_step(total, data):
    warmup = data.draw(st.integers(1, total))
    rates = [linear_rate(step, 1.0, warmup, total) for step in range(1, total + 2)]
    up, down = rates[:warmup], rates[warmup - 1 :]
    assert up == sorted(up)
    assert down == sorted(down, reverse=True)
    assert (rates[warmup - 1], rates[-1]) == (1, 0)
    assert min(rates[:-1]) > 0


@pytest.mark.parametrize("schedule", ["linear", "noam"])
def test_the_optimizer_is_torchs_adam_with_the_papers_numbers(schedule):
    config = replace(RunConfig.preset("tiny"), schedule=schedule)
    torch.manual_seed(0)
    ours, theirs = make_model(config, 9, 9), make_model(config, 9, 9)
    theirs.load_state_dict(ours.state_dict())
    optimizer, scheduler = make_optimizer(ours, replace(config, steps=30))
    plain = torch.optim.Adam(theirs.parameters(), lr=1, betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, 31):
        rate = linear_rate(step, config.learning_rate, 10, 30)
        if schedule == "noam":
            rate = noam_rate(step, 32, 10)
        assert scheduler.get_last_lr() == pytest.approx([rate], rel=1e-9)
        plain.param_groups[0]["lr"] = rate
        for mine, yours in zip(ours.parameters(), theirs.parameters()):
            mine.grad = torch.randn_like(mine)
            yours.grad = mine.grad.clone()
        optimizer.step()
        plain.step()
        scheduler.step()
    torch.testing.assert_close(list(ours.parameters()), list(theirs.parameters()))


def test_a_short_run_comes_down_again():
    config = RunConfig.preset("tiny")
    longer = replace(config, warmup_steps=100, steps=5)
    _, scheduler = make_optimizer(make_model(config, 9, 9), longer)
    rates = [scheduler.lr_lambdas[0](step) for step in range(5)]
    assert max(rates) == rates[2] == config.learning_rate
    assert rates[2] > rates[3] > rates[4]
