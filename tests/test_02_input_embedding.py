import pytest
import torch

from notebooks.data_preparation import PAD
from notebooks.input_embedding import InputEmbedding


def test_lookup_is_a_one_hot_product_times_the_root():
    embedding = InputEmbedding(9, 16).double()
    ids = torch.tensor([[1, 8, PAD]])
    product = torch.nn.functional.one_hot(ids, 9).double() @ embedding.lookup.weight * 4
    torch.testing.assert_close(embedding(ids), product)


def test_padding_is_zero_and_gets_no_gradient():
    embedding = InputEmbedding(9, 4)
    embedding(torch.tensor([[3, PAD]])).sum().backward()
    assert embedding(torch.tensor([[PAD]])).tolist() == [[[0] * 4]]
    assert embedding.lookup.weight.grad[[PAD, 3]].tolist() == [[0] * 4, [2] * 4]  # 2 is sqrt(4)


def test_an_id_outside_the_vocabulary_is_an_error():
    with pytest.raises(IndexError):
        InputEmbedding(9, 4)(torch.tensor([[9]]))
