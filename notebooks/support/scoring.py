"""What is printed of translations and their scores."""

import sacrebleu
from tqdm import tqdm

from notebooks.support.run_folder import RunFolder
from notebooks.support.text_files import one_line


def print_samples(records):
    """Prints the translations in a run's newest record, above the progress bar."""
    for sentence, translation in records[-1].get("samples", ()):
        tqdm.write(f"  {one_line(sentence)} → {one_line(translation)}")


def print_scores(command, scores, pairs, translations):
    """Ten translations at even distances, then BLEU and chrF of both searches."""
    for number in range(0, len(pairs), -(-len(pairs) // 10)):
        source, reference = pairs[number]
        print(f"\n  {source}")
        for name, written in translations.items():
            chrf = sacrebleu.sentence_chrf(written[number], [reference]).score
            print(f"  {name:9}  {one_line(written[number])}  (chrF {chrf:.0f})")
        print(f"  reference  {reference}")
    print(f"\n{len(pairs):,} sentences of {command.split}, {command.run}")
    for name, row in scores.items():
        speed = f"{row['sentences_per_second']} sentences/s"
        print(f"{name:6}  BLEU {row['bleu']:5.2f}  chrF {row['chrf']:5.2f}  {speed}")
    if command.alpha == "auto":
        print(f"alpha {RunFolder(command.run).alpha(None)}: chosen on dev, kept in {command.run}")
    print(f"BLEU {row['bleu_signature']}\nchrF {row['chrf_signature']}")
