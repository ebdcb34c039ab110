"""Precision and recall over thresholds, for TensorBoard's PR curves dashboard."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbhub.events import schema
from tbhub.writer.arrays import to_array
from tbhub.writer.summaries.tensor import shape_proto

MAX_THRESHOLDS = 127
"""The most the other libraries write; more thresholds are cut to this."""

_MINIMUM_COUNT = 1e-7  # keeps 0 / 0 at 0


def pr_curve(
    tag: str,
    labels: object,
    predictions: object,
    num_thresholds: int = MAX_THRESHOLDS,
    weights: object = None,
) -> Any:
    """A summary with the curve of ``predictions`` (0 to 1) against true ``labels`` (0 or 1)."""
    where = f"add_pr_curve({tag!r})"
    num_thresholds = min(num_thresholds, MAX_THRESHOLDS)
    curve = compute_curve(labels, predictions, num_thresholds, weights, where)
    return _summary(tag, curve, num_thresholds)


def pr_curve_raw(
    tag: str,
    tp: object,
    fp: object,
    tn: object,
    fn: object,
    precision: object,
    recall: object,
    num_thresholds: int = MAX_THRESHOLDS,
    weights: object = None,
) -> Any:
    """A summary with a curve computed elsewhere.

    ``weights`` is accepted because the other libraries' signature has it, and like there has
    no effect: the counts given already contain it.
    """
    where = f"add_pr_curve_raw({tag!r})"
    rows = [to_array(row, where).reshape(-1) for row in (tp, fp, tn, fn, precision, recall)]
    sizes = [row.size for row in rows]
    if len(set(sizes)) != 1:
        raise ValueError(f"{where}: the six rows must have one length, got {sizes}")
    return _summary(tag, np.stack(rows), min(num_thresholds, MAX_THRESHOLDS))


def compute_curve(
    labels: object,
    predictions: object,
    num_thresholds: int = MAX_THRESHOLDS,
    weights: object = None,
    where: str = "compute_curve",
) -> NDArray[np.float64]:
    """Rows tp, fp, tn, fn, precision, recall, with one column per threshold.

    Threshold ``i`` is ``i / (num_thresholds - 1)``: a prediction counts as positive at every
    threshold up to its own bucket, hence the sums from the right.
    """
    truth = to_array(labels, where).astype(np.float64).ravel()
    scores = to_array(predictions, where).ravel()
    if scores.size != truth.size:
        raise ValueError(f"{where}: got {truth.size} labels but {scores.size} predictions")
    if num_thresholds < 1:
        raise ValueError(f"{where}: num_thresholds must be at least 1, got {num_thresholds}")
    if not np.all((scores >= 0) & (scores <= 1)):
        raise ValueError(f"{where}: predictions must lie between 0 and 1")
    weight = np.float64(1) if weights is None else to_array(weights, where).ravel()
    if weight.size not in (1, truth.size):
        raise ValueError(f"{where}: got {truth.size} labels but {weight.size} weights")

    # The product keeps the predictions' own precision, which decides edge buckets.
    buckets = np.floor(scores * (num_thresholds - 1)).astype(np.intp)
    true_positives = np.bincount(buckets, weights=truth * weight, minlength=num_thresholds)
    false_positives = np.bincount(buckets, (1.0 - truth) * weight, minlength=num_thresholds)
    tp = np.cumsum(true_positives[::-1])[::-1]
    fp = np.cumsum(false_positives[::-1])[::-1]
    tn = fp[0] - fp
    fn = tp[0] - tp
    precision = tp / np.maximum(_MINIMUM_COUNT, tp + fp)
    recall = tp / np.maximum(_MINIMUM_COUNT, tp + fn)
    return np.stack((tp, fp, tn, fn, precision, recall))


def _summary(tag: str, curve: NDArray[Any], num_thresholds: int) -> Any:
    content = schema.PrCurvePluginData(version=0, num_thresholds=num_thresholds)
    metadata = schema.SummaryMetadata(
        plugin_data=schema.SummaryMetadata.PluginData(
            plugin_name="pr_curves", content=content.SerializeToString()
        )
    )
    tensor = schema.TensorProto(
        dtype="DT_FLOAT", float_val=curve.ravel().tolist(), tensor_shape=shape_proto(curve.shape)
    )
    return schema.Summary(value=[schema.Summary.Value(tag=tag, metadata=metadata, tensor=tensor)])
