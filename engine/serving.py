"""A Translator over HTTP, by the program that exported folders have: `translate.py --serve`."""

from engine.errors import InputError
from engine.export.shipped.serve import serve
from engine.languages import name_of


class Served:
    """A Translator as serve.py wants a model."""

    def __init__(self, translator, **options):
        self.translator = translator
        self.options = options
        config = translator.config
        languages = {code: name_of(code) for code in (config.src, config.tgt)}
        self.settings = {"languages": languages, "max_length": config.max_length}

    def length(self, text):
        return self.translator.source_length(text)

    def translate(self, texts):
        return self.translator.translate(texts, **self.options)


def serve_translator(translator, host, port, beam_size, alpha):
    """Answers until it is stopped. Raises InputError where a library for it is missing."""
    try:
        serve(Served(translator, beam_size=beam_size, alpha=alpha), host, port)
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed. Try: pip install {error.name}") from None
