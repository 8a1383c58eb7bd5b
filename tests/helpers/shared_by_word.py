"""What tests of by word share with others."""

from torch import nn

from fresh.nn.heads import RECURRENT, _Recurrent


def both_ways(given: _Recurrent) -> nn.LSTM:
    """Torch's own LSTM in both directions, with the same weights."""
    lstm = nn.LSTM(given.forwards.input_size, RECURRENT, batch_first=True, bidirectional=True)
    back = {f"{name}_reverse": weight for name, weight in given.backwards.state_dict().items()}
    lstm.to(next(given.parameters()).dtype).load_state_dict({**given.forwards.state_dict(), **back})
    return lstm
