"""Encoders that are built otherwise than most: what can be had of them, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from transformers import AlbertConfig, AlbertModel, DebertaV2Config, DebertaV2Model, PreTrainedModel

from fresh.errors import EncoderError
from fresh.methods.config import FreshConfig
from fresh.methods.fresh import check_ready
from fresh.nn.classifier import Classifier
from fresh.nn.config import NetworkConfig
from fresh.nn.encoder import load_encoder
from shared_halves import texts
from tiny import SHAPE, bert_tokenizer


def unusual(model: PreTrainedModel, folder: Path, layers: int | Literal["all"]) -> Classifier:
    """Put a network on top of an encoder that is none of the usual."""
    model.save_pretrained(folder)
    bert_tokenizer().save_pretrained(folder)
    return Classifier(load_encoder(str(folder)), ("neg", "pos"), NetworkConfig(str(folder), layers=layers))


@pytest.mark.parametrize("layers", [0, 1, "all"])
def test_deberta_is_cut_only_where_there_are_layers_on_both_sides(layers: int | Literal["all"], tmp_path: Path) -> None:
    own: dict[str, Any] = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
    model = DebertaV2Model(DebertaV2Config(vocab_size=len(bert_tokenizer()), **SHAPE, **own))
    classifier = unusual(model, tmp_path, layers)
    assert (classifier.halves is not None) == (layers == 1)
    assert classifier.probabilities(texts(3, 9)).shape == (2, 2)


def test_an_encoder_whose_layers_are_one_is_trained_whole_or_not_at_all(tmp_path: Path) -> None:
    model = AlbertModel(AlbertConfig(vocab_size=len(bert_tokenizer()), embedding_size=8, **SHAPE))
    classifier = unusual(model, tmp_path, "all")
    assert classifier.halves is None
    batch = classifier.collate(classifier.words(texts(3, 9)))
    with torch.inference_mode():
        out = model.eval()(batch.ids, attention_mask=batch.mask, token_type_ids=batch.types)
        torch.testing.assert_close(classifier(batch).logits, classifier.head(out.pooler_output))
    with pytest.raises(EncoderError, match=r"^The layers of .+ could not be told apart\. ") as caught:
        unusual(model, tmp_path, 1)
    assert str(caught.value) == (
        f"The layers of {tmp_path} could not be told apart. Train all of it (layers=all), and choose a scorer that "
        "asks no layer, such as integrated_gradients."
    )
    config = FreshConfig(network=NetworkConfig(str(tmp_path)))
    with pytest.raises(EncoderError, match=r"could not be told apart"):
        check_ready(config)
    check_ready(replace(config, scorer="gradient"))
