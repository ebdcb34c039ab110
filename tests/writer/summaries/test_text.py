import numpy as np
import pytest
import tensorboardX.summary as tbx_summary
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.util.tensor_util import make_ndarray
from torch.utils.tensorboard import summary as torch_summary

from tbhub.writer.summaries.text import text


@pytest.mark.parametrize("words", ["hello", "", "# Grüße\n\n*世界* 🎉"])
def test_strings_as_both_libraries(words):
    ours = Summary.FromString(text("a/b", words).SerializeToString())
    assert ours == torch_summary.text("a/b", words)
    assert ours == Summary.FromString(tbx_summary.text("a/b", words).SerializeToString())


@pytest.mark.parametrize(
    ("words", "shape"),
    [
        (["a", "b", "c"], (3,)),
        (("a",), (1,)),
        ([], (0,)),
        (np.array([["a", "b"], ["c", "ü"]]), (2, 2)),
        (np.array("alone"), (1,)),
    ],
)
def test_lists_and_arrays_are_tables(words, shape):
    (value,) = Summary.FromString(text("t", words).SerializeToString()).value
    array = make_ndarray(value.tensor)
    assert array.shape == shape
    expected = [str(word).encode() for word in np.asarray(words, dtype=str).ravel()]
    assert array.ravel().tolist() == expected


@pytest.mark.parametrize("words", [None, 3, b"bytes", ["a", 1], {"a": "b"}, np.zeros(2)], ids=repr)
def test_what_is_no_text_is_refused(words):
    with pytest.raises(TypeError, match=r"^add_text\('t'\): expected str or a list of str, got "):
        text("t", words)
