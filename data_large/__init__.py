"""Training data of any size: `data_large.prepare` cleans it, encodes it once and reads it by memory map."""
