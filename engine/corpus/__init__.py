"""Training data of any size: `engine.corpus.prepare` cleans, encodes and memory-maps it."""
