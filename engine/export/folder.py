"""A run as a folder that translates text where neither this project nor PyTorch is installed.

It holds the model for another engine, both tokenizers in the library `tokenizers`' form,
settings.json, and the programs of `shipped/`: run.py with its engine, and serve.py.
"""

import shutil
from pathlib import Path

from engine.errors import InputError, what_to_do
from engine.export.ctranslate2_form import export_ctranslate2
from engine.export.onnx_form import export_onnx
from engine.export.proof import prove
from engine.export.tokenizer_files import export_tokenizer
from engine.files import check_folder, file_digest, fresh_name, write_json, write_whole
from engine.languages import languages_of
from engine.translator import Translator, has_spaces
from utils import ROOT

FORMS = {"ctranslate2": export_ctranslate2, "onnx": export_onnx}
# CTranslate2's beam has a penalty and a rule for stopping of its own
BEAM_SIZES = {"ctranslate2": (1,), "onnx": (1, 4)}
PROGRAMS = ROOT / "engine" / "export" / "shipped"


def write_settings(folder, form, translator):
    """Writes settings.json, with the digests of all files that are no programs."""
    config = translator.config
    files = [path for path in sorted(folder.iterdir()) if path.suffix != ".py" and path.is_file()]
    settings = {
        "form": form,
        "languages": languages_of(config),
        "max_length": config.max_length,
        "alpha": translator.alpha if form == "onnx" else None,
        "join": "words" if has_spaces(translator.target.segmenter) else "tokens",
        "files": {path.name: file_digest(path) for path in files if path.name != "settings.json"},
    }
    write_json(folder / "settings.json", settings)


def export(run, out, form, int8=False):
    """Writes a run into the new folder `out`, all or nothing.

    Raises InputError when it is there already, for what the form cannot represent, and where the
    folder translates otherwise than `run`.
    """
    out = Path(out)
    check_folder(out, "--out")
    if out.exists():
        raise InputError(f"{out}: is there already. Give a folder that does not exist yet")
    translator = Translator.load(run, device="cpu")
    config = translator.config
    sides = (translator.source, translator.target)
    temporary = fresh_name(out)
    try:
        temporary.mkdir(parents=True)
        for name, tokenizer in zip(("source", "target"), sides):
            exported = export_tokenizer(tokenizer, reads=name == "source")
            write_whole(temporary / f"{name}.json", exported.to_str())
        for name in ("run.py", "serve.py"):
            shutil.copyfile(PROGRAMS / name, temporary / name)
        shutil.copyfile(ROOT / "engine" / "plain_text.py", temporary / "plain_text.py")
        shutil.copyfile(PROGRAMS / f"{form}_runtime.py", temporary / "runtime.py")
        FORMS[form](config, *sides, translator.model, temporary)
        write_settings(temporary, form, translator)
        prove(translator, temporary, BEAM_SIZES[form])
        if int8:  # what was proved, rounded
            FORMS[form](config, *sides, translator.model, temporary, int8)
            write_settings(temporary, form, translator)
        shutil.rmtree(temporary / "__pycache__", ignore_errors=True)
        temporary.rename(out)
    except OSError as error:
        if out.exists():
            raise InputError(f"{out}: another export has written it meanwhile") from None
        raise OSError(f"{out}: could not be written ({error}). {what_to_do(error)}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
