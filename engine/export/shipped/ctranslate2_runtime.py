"""CTranslate2 as the engine of run.py."""

import ctranslate2


class Engine:
    """The search is CTranslate2's own, its length penalty and its rule for stopping too."""

    def __init__(self, folder, source, target):
        self.engine = ctranslate2.Translator(str(folder))
        self.source = source
        self.target = target

    def search(self, rows, limits, beam_size, alpha):
        """The ids of a translation for each row of ids, without EOS. It uses no alpha."""
        names = [[self.source.id_to_token(number) for number in row] for row in rows]
        results = self.engine.translate_batch(
            names,
            beam_size=beam_size,
            min_decoding_length=0,  # a translation may be empty
            max_decoding_length=max(limits),
        )
        return [[*map(self.target.token_to_id, result.hypotheses[0])] for result in results]
