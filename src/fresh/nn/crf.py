"""A linear chain over the tags of neighbouring words: whether a word is kept depends on the words beside it (a CRF)."""

import torch
from torch import Tensor, nn

IMPOSSIBLE = -1e4
"""Logarithm of a probability that is 0 in effect; finite, so that gradients stay numbers."""


class LinearChainCRF(nn.Module):
    """Scores of two tags, 0 (dropped) and 1 (kept), side by side, at the beginning and at the end; all exact."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = nn.Parameter(torch.zeros(2))
        self.change = nn.Parameter(torch.zeros(2, 2))
        """What it speaks for the second tag (column) that the first one (row) stands before it."""
        self.end = nn.Parameter(torch.zeros(2))

    def log_likelihood(self, logits: Tensor, tags: Tensor, n_words: Tensor) -> Tensor:
        """Compute the log-probability of the tags of each text. Shape: (texts,).

        :param logits: What speaks for keeping each word, by itself. Shape: (texts, words).
        :param tags: 0 or 1 for each word; anything where there is none. Shape: (texts, words).
        """
        return self.score(logits, tags.long(), n_words) - self.log_total(logits, n_words)

    def score(self, logits: Tensor, tags: Tensor, n_words: Tensor) -> Tensor:
        """Add up what speaks for the tags of each text. Shape: (texts,)."""
        steps = torch.arange(logits.shape[1], device=logits.device)
        there = steps < n_words.unsqueeze(1)
        kept = torch.stack([1 - tags, tags], -1).to(logits.dtype)  # (texts, words, 2)
        own = (logits * tags * there).sum(1)
        beside = ((kept[:, :-1] @ self.change * kept[:, 1:]).sum(-1) * there[:, 1:]).sum(1)
        places = (n_words - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, 2)
        last = kept.gather(1, places).squeeze(1)
        return own + beside + kept[:, 0] @ self.begin + last @ self.end

    def log_total(self, logits: Tensor, n_words: Tensor) -> Tensor:
        """Sum up over all ways to tag each text, in as many steps as its length can be halved. Shape: (texts,)."""
        n_texts, n_steps = logits.shape[0], logits.shape[1] - 1
        there = torch.arange(1, n_steps + 1, device=logits.device) < n_words.unsqueeze(1)
        moves = self.change + _by_tag(logits[:, 1:]).unsqueeze(2)  # (texts, words - 1, 2, 2)
        nothing = IMPOSSIBLE * (1 - torch.eye(2, device=logits.device, dtype=logits.dtype))
        moves = torch.where(there[:, :, None, None], moves, nothing)
        while moves.shape[1] > 1:
            if moves.shape[1] % 2:
                moves = torch.cat([moves, nothing.expand(n_texts, 1, 2, 2)], 1)
            moves = _joined(moves[:, 0::2], moves[:, 1::2])
        first = (self.begin + _by_tag(logits[:, 0])).unsqueeze(1)  # (texts, 1, 2)
        reached = _joined(first, moves[:, 0]).squeeze(1) if n_steps else first.squeeze(1)
        return (reached + self.end).logsumexp(-1)

    def marginals(self, logits: Tensor, n_words: Tensor) -> Tensor:
        """Compute how probable it is that each word is kept. Shape: (texts, words)."""
        with torch.enable_grad():
            leaf = logits.detach().requires_grad_()
            [found] = torch.autograd.grad(self.log_total(leaf, n_words).sum(), leaf)
        return found.clamp(0, 1)  # sums may be off in their last digits


def _by_tag(logits: Tensor) -> Tensor:
    """Write logits as scores of both tags, of which dropping has none. Shape: (..., 2)."""
    return torch.stack([torch.zeros_like(logits), logits], -1)


def _joined(left: Tensor, right: Tensor) -> Tensor:
    """Multiply matrices whose entries are logarithms. Shape: (..., rows, columns)."""
    return (left.unsqueeze(-1) + right.unsqueeze(-3)).logsumexp(-2)
