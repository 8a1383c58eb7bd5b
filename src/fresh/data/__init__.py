"""Reads texts, labels and rationales that people marked: files, tables, annotation tools, corpora."""
