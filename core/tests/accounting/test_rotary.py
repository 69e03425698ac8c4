"""Frequencies of rotary positions."""

import numpy as np
import pytest
from llmperf import library, rotary_frequencies


def test_windows_without_a_base_of_their_own_change_nothing():
    model = library().model("gpt_oss_tiny")
    same, scale = rotary_frequencies(model, windowed=True)
    np.testing.assert_array_equal(same, rotary_frequencies(model)[0])
    assert scale == pytest.approx(0.1 * np.log(8) + 1)
