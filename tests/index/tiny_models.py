"""Transformer models of a few numbers, with random weights: real to the library, and quick."""

import importlib
from pathlib import Path
from typing import Any

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] a b c query passage : red green blue store budget".split()
MOST_TOKENS = 12


def _parts(folder: Path) -> tuple[Any, Any]:
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    folder.mkdir()
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = transformers.BertTokenizerFast(vocab=vocabulary, model_max_length=MOST_TOKENS)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=MOST_TOKENS,
    )
    return config, tokenizer


def tiny_embedder(folder: Path) -> Path:
    """Write a sentence-transformers model: 16 dimensions, 12 tokens."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    config, tokenizer = _parts(folder)
    bare = folder / "bare"
    importlib.import_module("transformers").BertModel(config).save_pretrained(bare)
    tokenizer.save_pretrained(bare)
    transformer = Transformer(str(bare), max_seq_length=MOST_TOKENS)
    SentenceTransformer(modules=[transformer, Pooling(16)], device="cpu").save(
        str(folder / "model")
    )
    return folder / "model"


def tiny_cross_encoder(folder: Path, labels: int = 1) -> Path:
    """Write a cross-encoder."""
    transformers: Any = importlib.import_module("transformers")
    config, tokenizer = _parts(folder)
    config.num_labels = labels
    transformers.BertForSequenceClassification(config).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    return folder / "model"
