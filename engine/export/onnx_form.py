"""A run for ONNX Runtime, and for every other program that reads ONNX: two graphs of tensors.

`encoder.onnx`: src (B, S) to memory (B, S, D). `decoder.onnx`: tgt (B, T), memory and src to the
logits of the next token, (B, vocabulary). It has no cache: a step reads all tokens again.
"""

import contextlib
import io
import logging
import warnings

import torch
from torch import nn
from torch.export import Dim

from engine.errors import InputError
from engine.export.proof import refuse_replaced
from notebooks.data_preparation import causal_mask, padding_mask


class Reading(nn.Module):
    """The encoder as one function of ids."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, src):
        return self.model.encode(src, padding_mask(src))


class Writing(nn.Module):
    """The decoder and the generator as one function of ids and memory."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tgt, memory, src):
        mask = causal_mask(tgt.shape[1], tgt.device)
        hidden = self.model.decode(tgt, memory, padding_mask(src), mask)
        return self.model.generator(hidden[:, -1])


@torch.no_grad()
def export_onnx(config, source, target, model, folder, int8=False):
    """Writes both graphs into a folder. `int8`: matrices as 8-bit integers."""
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
    import onnxscript  # noqa: F401  (which PyTorch would miss after half of the work)

    refuse_replaced("ONNX Runtime's program", followed=("ALPHA",))
    model = model.cpu().eval()
    # its table of positions becomes a constant: as long as any input or translation
    model.positions(torch.zeros(1, config.max_length + 2, config.d_model))
    src = torch.full((2, 7), 4)
    tgt = torch.full((2, 5), 4)
    batch = Dim("batch")
    reads = Dim("source")
    writes = Dim("target")
    read = {0: batch, 1: reads}
    both = {0: batch, 1: writes}
    reading = Reading(model).eval()
    write_graph(reading, [src], [read], ["src"], "memory", folder / "encoder.onnx")
    given = [tgt, model.encode(src, padding_mask(src)), src]
    names = ["tgt", "memory", "src"]
    writing = Writing(model).eval()
    write_graph(writing, given, [both, read, read], names, "logits", folder / "decoder.onnx")
    if int8:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        logging.disable(logging.WARNING)  # its advice to prepare the graph first is no error
        for part in ("encoder", "decoder"):
            path = folder / f"{part}.onnx"
            quantize_dynamic(path, path, weight_type=QuantType.QInt8)
        logging.disable(logging.NOTSET)


def write_graph(module, given, shapes, inputs, output, path):
    """One module as a graph for any batch and any lengths."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            program = torch.onnx.export(
                module,
                tuple(given),
                dynamo=True,
                verbose=False,
                input_names=inputs,
                output_names=[output],
                dynamic_shapes=tuple(shapes),
            )
        except torch.onnx.errors.OnnxExporterError as error:
            wrong = "a class was edited in a way that ONNX has no form for, perhaps a branch"
            reason = str(error.__cause__ or error).strip().splitlines()[0]
            raise InputError(f"{wrong} on numbers ({reason}). Use translate.py --serve") from None
        program.save(str(path))
