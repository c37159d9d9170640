"""Training data of any size: `data_large.prepare` cleans, encodes and memory-maps it."""
