"""A run as a folder that translates text where neither this project nor PyTorch is installed.

It holds the model for CTranslate2, both tokenizers in the library `tokenizers`' form,
settings.json, and the programs of `shipped/`, run.py and serve.py.
"""

import shutil
from pathlib import Path

from engine.errors import InputError, what_to_do
from engine.export.ctranslate2_form import export_ctranslate2
from engine.export.tokenizer_files import export_tokenizer
from engine.files import check_folder, fresh_name, write_json, write_whole
from engine.languages import languages_of
from engine.lessons import refuse_edited
from engine.translator import Translator, has_spaces
from utils import ROOT

PROGRAMS = ROOT / "engine" / "export" / "shipped"


def write_settings(folder, translator):
    """Writes settings.json: what run.py asks of the model."""
    config = translator.config
    settings = {
        "languages": languages_of(config),
        "max_length": config.max_length,
        "join": "words" if has_spaces(translator.target.segmenter) else "tokens",
    }
    write_json(folder / "settings.json", settings)


def export(run, out, int8=False):
    """Writes a run into the new folder `out`, all or nothing.

    Raises InputError when it is there already, for what CTranslate2 cannot represent, and where
    lessons were edited.
    """
    refuse_edited()
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
        for name in ("plain_text.py", "typed_text.py"):
            shutil.copyfile(ROOT / "engine" / name, temporary / name)
        export_ctranslate2(config, *sides, translator.model, temporary, int8)
        write_settings(temporary, translator)
        temporary.rename(out)
    except OSError as error:
        raise OSError(f"{out}: could not be written ({error}). {what_to_do(error)}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
