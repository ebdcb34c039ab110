import enum
import functools
import json
from pathlib import Path

import numpy as np
import pytest
import tensorboardX.summary as tbx_summary
import torch
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import plugin_data_pb2
from torch.utils.tensorboard import summary as torch_summary

from tbhub.events import schema
from tbhub.writer.summaries.hparams import experiment, hparams, session_end, session_start


class Color(enum.Enum):
    RED = 1


class Size(enum.IntEnum):
    LARGE = 3


def parse(summary):
    """The tag and the plugin's message, as TensorBoard reads them."""
    (value,) = Summary.FromString(summary.SerializeToString()).value
    data = value.metadata.plugin_data
    assert data.plugin_name == "hparams"
    return value.tag, plugin_data_pb2.HParamsPluginData.FromString(data.content)


def stored(value):
    """One hyperparameter's value after writing and reading, and the type declared for it."""
    infos = parse(experiment({"h": value}, []))[1].experiment.hparam_infos
    read = parse(session_start({"h": value}))[1].session_start_info.hparams["h"]
    return getattr(read, read.WhichOneof("kind")), infos[0].type


def test_numbers_and_strings_as_both_libraries():
    values = {"lr": 0.1, "layers": 3, "name": "adam", "none": None}
    metrics = {"loss": 1.0, "accuracy/top1": 2}
    ours = [parse(each) for each in hparams(values, metrics)]
    assert ours == [parse(each) for each in torch_summary.hparams(values, metrics)]
    assert ours == [parse(each) for each in tbx_summary.hparams(values, metrics)]


def test_bools_and_callables_as_tensorboardx():
    values = {"flag": True, "other": False, "act": torch.relu, "kind": torch.nn.ReLU}
    ours = [parse(each) for each in hparams(values, {})]
    assert ours == [parse(each) for each in tbx_summary.hparams(values, {})]


def test_domains_as_torch():
    values = {"lr": 0.1, "name": "adam", "n": 3}
    domains = {"lr": [0.1, 0.2], "name": ["adam", "sgd"], "n": []}
    ours = [parse(each) for each in hparams(values, {}, domains)]
    assert ours == [parse(each) for each in torch_summary.hparams(values, {}, domains)]


def test_domains_of_bools_and_of_mixed_numbers():
    _, data = parse(
        experiment({"flag": True, "lr": 0.1}, [], {"flag": [True, False], "lr": [1, 2]})
    )
    flag, lr = data.experiment.hparam_infos
    assert [value.bool_value for value in flag.domain_discrete.values] == [True, False]
    assert [value.number_value for value in lr.domain_discrete.values] == [1, 2]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.int64(3), 3.0),
        (torch.tensor([2.5], requires_grad=True), 2.5),
        (torch.tensor(1.5, dtype=torch.bfloat16), 1.5),
        (Size.LARGE, 3.0),
        (np.True_, True),
        (torch.tensor(False), False),
        ([1, 2, "a"], '[1, 2, "a"]'),
        ((0.9, 0.99), "[0.9, 0.99]"),
        ({"a": [1]}, '{"a": [1]}'),
        ([torch.relu], str([torch.relu])),
        (np.arange(3), "[0, 1, 2]"),
        (np.array(["a", "b"]), str(np.array(["a", "b"]))),
        (np.str_("x"), "x"),
        (Path("/data"), "/data"),
        (Color.RED, "Color.RED"),
        (torch.float32, "torch.float32"),
        (torch.device("cpu"), "cpu"),
        (functools.partial(int, base=2), "functools.partial(<class 'int'>, base=2)"),
        (1 + 2j, "(1+2j)"),
        (np.complex64(1j), str(np.array(1j, dtype=np.complex64))),
        (10**400, str(10**400)),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_every_value_becomes_number_bool_or_text(value, expected):
    kinds = {bool: "DATA_TYPE_BOOL", float: "DATA_TYPE_FLOAT64", str: "DATA_TYPE_STRING"}
    read, kind = stored(value)
    assert read == expected
    assert type(read) is type(expected)
    assert kind == schema.HParamType.Value(kinds[type(expected)])


def test_lists_can_be_read_back():
    assert json.loads(stored([0.9, None, {"b": True}])[0]) == [0.9, None, {"b": True}]


def test_sessions_carry_times_groups_and_statuses():
    tag, data = parse(session_start({"lr": 1}, group_name="g", start_time_secs=5.0))
    assert tag == "_hparams_/session_start_info"
    assert data.session_start_info.group_name == "g"
    assert data.session_start_info.start_time_secs == 5.0
    tag, data = parse(session_end("STATUS_FAILURE", end_time_secs=9.0))
    assert tag == "_hparams_/session_end_info"
    assert data.session_end_info.status == 2
    assert data.session_end_info.end_time_secs == 9.0
    assert parse(session_end(1)) == parse(session_end())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["lr"], {}), "hparam_dict must be a dict, got list"),
        (({}, ["loss"]), "metric_dict must be a dict, got list"),
        ((None, {}), "hparam_dict must be a dict, got NoneType"),
        (({1: 2}, {}), "hparam_dict must have str keys, got 1"),
        (({}, {1: 2}), "metric_dict must have str keys, got 1"),
        (({"lr": 1}, {}, ["lr"]), "hparam_domain_discrete must be a dict"),
        (({"lr": 1}, {}, {"mu": [1]}), "hparam_domain_discrete names 'mu'"),
        (({"lr": 1}, {}, {"lr": 1}), r"hparam_domain_discrete\['lr'\] must be a list"),
        (({"lr": 1}, {}, {"lr": ["a"]}), r"hparam_domain_discrete\['lr'\] must hold"),
    ],
)
def test_bad_dicts_are_refused(arguments, message):
    with pytest.raises(TypeError, match=f"^add_hparams: {message}"):
        hparams(*arguments)
