"""What tests of ragged share with others."""

import torch
from torch import Tensor


def filled_up(lengths: list[int], width: int) -> Tensor:
    return (torch.arange(width) < torch.tensor(lengths).unsqueeze(1)).long()
