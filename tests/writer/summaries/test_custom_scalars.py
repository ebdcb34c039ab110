import pytest
import tensorboardX.summary as tbx_summary
from tensorboard.compat.proto.summary_pb2 import Summary
from torch.utils.tensorboard import summary as torch_summary

from tbhub.writer.summaries.custom_scalars import custom_scalars

LAYOUT = {
    "Taiwan": {"twse": ["Multiline", ["twse/0050", "twse/2330"]]},
    "USA": {
        "dow": ["Margin", ["dow/aaa", "dow/bbb", "dow/ccc"]],
        "nasdaq": ("Multiline", ("nasdaq/.*",)),
    },
    "empty": {},
}


@pytest.mark.parametrize("layout", [LAYOUT, {}])
def test_as_both_libraries(layout):
    ours = Summary.FromString(custom_scalars(layout).SerializeToString())
    assert ours == torch_summary.custom_scalars(layout)
    assert ours == Summary.FromString(tbx_summary.custom_scalars(layout).SerializeToString())


@pytest.mark.parametrize("tags", [[], ["a", "b"], ["a", "b", "c", "d"]])
def test_a_margin_chart_takes_three_tags(tags):
    with pytest.raises(ValueError, match=rf"chart 'dow' .* expects 3 tags .* got {len(tags)}"):
        custom_scalars({"USA": {"dow": ["Margin", tags]}})


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (["USA"], "layout must be a dict, got list"),
        ({"USA": ["dow"]}, "category 'USA' must be a dict, got list"),
        ({"USA": {"dow": "Margin"}}, r"chart 'dow' expects \[kind, tags\]"),
        ({"USA": {"dow": ["Margin"]}}, r"chart 'dow' expects \[kind, tags\]"),
        ({"USA": {"dow": ["Multiline", "abc"]}}, "chart 'dow' expects a list of tags"),
        ({"USA": {"dow": ["Multiline", [1]]}}, "chart 'dow' expects a list of tags"),
    ],
)
def test_bad_layouts_are_refused(layout, message):
    with pytest.raises(TypeError, match=f"^add_custom_scalars: {message}"):
        custom_scalars(layout)
