"""Makes the inputs that the fuzzers start from: `python tests/fuzz/make_corpus.py`.

Small files as tbhub writes them, one per kind of summary, and the same files damaged in each of
the ways that files get damaged. Run it again when a fuzzer is added or the writer changes.
"""

import random
import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tbhub import SummaryWriter
from tbhub._kernel import masked_crc32c

CORPUS = Path(__file__).parent / "corpus"
HEADER = struct.Struct("<QI")
BETWEEN_EVENTS = b"|EV|"
WALL_TIME = 1.7e9


def frame(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return (
        length
        + struct.pack("<I", masked_crc32c(length))
        + data
        + struct.pack("<I", masked_crc32c(data))
    )


def events_in(file: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(file):
        length, _ = HEADER.unpack_from(file, at)
        yield file[at + HEADER.size : at + HEADER.size + length]
        at += HEADER.size + length + 4


def with_fixed_time(event: bytes) -> bytes:
    """The event with a wall time of its own replaced, so that the corpus is the same each time."""
    return event[:1] + struct.pack("<d", WALL_TIME) + event[9:] if event[:1] == b"\x09" else event


def written(write) -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        with SummaryWriter(folder) as writer:
            write(writer)
        files = sorted(Path(folder).rglob("*tfevents*"))
        return [with_fixed_time(event) for file in files for event in events_in(file.read_bytes())]


def scalars(writer: SummaryWriter) -> None:
    for step in range(6):
        writer.add_scalar("loss", 1 / (step + 1), step)
        writer.add_scalar("accuracy", step / 10, step)


def odd_scalars(writer: SummaryWriter) -> None:
    for step in (0, 5, -1, 2**40, 3):
        writer.add_scalar("größe", float("nan"), step)
        writer.add_scalar("", float("inf"), step)


def new_style(writer: SummaryWriter) -> None:
    for step in range(4):
        writer.add_scalar("loss", step, step, new_style=True)
        writer.add_scalar("loss64", step, step, new_style=True, double_precision=True)


def blobs(writer: SummaryWriter) -> None:
    writer.add_histogram("weights", np.array([1.0, 2.0, 2.5]), 1)
    writer.add_image("image", np.zeros((3, 2, 2), np.uint8), 1)
    writer.add_text("text", "hello", 1)
    writer.add_pr_curve("curve", np.array([0, 1]), np.array([0.1, 0.9]), 1, num_thresholds=3)


def hparams(writer: SummaryWriter) -> None:
    writer.add_hparams({"lr": 0.1, "kind": "sgd"}, {"final": 1.0})


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor_event(step: int, tensor: bytes, tag: bytes = b"t", more: bytes = b"") -> bytes:
    value = field(1, tag) + field(8, tensor) + more
    front = b"\x09" + struct.pack("<d", WALL_TIME) + b"\x10" + varint(step)
    return front + field(5, field(1, value))


def tensors() -> list[bytes]:
    """A tensor of one element in every type and encoding that there is."""
    content = {1: "<f", 2: "<d", 3: "<i", 4: "<B", 5: "<h", 6: "<b", 9: "<q", 10: "<?"}
    content |= {14: "<H", 17: "<H", 19: "<e", 22: "<I", 23: "<Q"}
    lists = {3: 7, 4: 7, 5: 7, 6: 7, 9: 10, 10: 11, 14: 13, 17: 7, 19: 13, 22: 16, 23: 17}
    made = []
    for kind, layout in content.items():
        head = b"\x08" + varint(kind) + field(2, b"")
        made.append(tensor_event(1, head + field(4, struct.pack(layout, 1))))
    for kind, number in lists.items():
        head = b"\x08" + varint(kind) + field(2, b"")
        made.append(tensor_event(2, head + field(number, varint(1))))
        made.append(tensor_event(3, head + varint(number << 3) + varint(1)))
    made.append(tensor_event(4, b"\x08\x01" + field(5, struct.pack("<f", 1))))
    made.append(tensor_event(4, b"\x08\x01\x2d" + struct.pack("<f", 1)))
    made.append(tensor_event(4, b"\x08\x02" + field(6, struct.pack("<d", 1))))
    made.append(tensor_event(4, b"\x08\x02\x31" + struct.pack("<d", 1)))
    made.append(tensor_event(5, b"\x08\x01" + field(2, field(2, b"\x08\x01")) + field(4, b"1234")))
    return made


def restarts() -> list[bytes]:
    """A session that starts anew, in a file of today and in an old one."""
    loss = [tensor_event(step, b"\x08\x01" + field(5, b"1234"), b"loss") for step in range(5)]
    start = b"\x10\x03" + field(7, b"\x08\x01")
    again = [*loss, start, *loss[2:]]
    return [field(3, b"brain.Event:2"), *again, field(3, b"brain.Event:1"), *again]


def others() -> list[bytes]:
    """Payloads beside summaries, unknown fields and groups, and messages that are none."""
    return [
        field(4, b"graph"),
        field(9, b"meta graph"),
        field(6, field(2, b"log")),
        field(8, field(1, b"step 1") + field(2, b"stats")),
        b"\x93\x03\x08\x01\x94\x03" + field(99, b"unknown"),
        field(5, field(1, field(1, b"bare") + field(9, field(1, field(1, b"hparams"))))),
        field(5, field(1, field(1, b"late") + b"\x15\x00\x00\x80\x3f") * 3),
        field(5, field(1, field(1, b"\xff not text"))),
        b"\x10" + b"\xff" * 10,
        b"",
    ]


def damaged(file: bytes) -> dict[str, bytes]:
    """The file after each kind of accident."""
    middle = len(file) // 2
    flipped = bytearray(file)
    for _ in range(3):
        flipped[random.randrange(len(file))] ^= 1 << random.randrange(8)
    bad_header = bytearray(file)
    bad_header[9] ^= 1
    return {
        "flipped": bytes(flipped),
        "bad-header": bytes(bad_header),
        "truncated": file[: middle + 5],
        "missing": file[:middle] + file[middle + 7 :],
        "added": file[:middle] + b"noise" + file[middle:],
        "zeros": file[:middle] + bytes(40) + file[middle + 40 :] + bytes(30),
        "enormous": header(2**40) + file,
        "longer-than-the-file": file + header(10**6) + frame(b""),
    }


def header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", masked_crc32c(packed))


def main() -> None:
    random.seed(1)
    kinds = {
        "scalars": written(scalars),
        "odd-scalars": written(odd_scalars),
        "new-style": written(new_style),
        "blobs": written(blobs),
        "hparams": written(hparams),
        "tensors": tensors(),
        "restarts": restarts(),
        "others": others(),
    }
    files = {name: b"".join(map(frame, events)) for name, events in kinds.items()}
    for name in ("scalars", "others"):
        files |= {f"{name}-{how}": file for how, file in damaged(files[name]).items()}
    files |= {"not-records": b"#!/bin/sh\necho not events\n", "all-zeros": bytes(200)}

    shutil.rmtree(CORPUS, ignore_errors=True)
    for target in ("record_fuzz", "inspect_fuzz", "decoder_fuzz", "event_fuzz"):
        (CORPUS / target).mkdir(parents=True)
    for number, (name, file) in enumerate(files.items()):
        (CORPUS / "record_fuzz" / name).write_bytes(file)
        (CORPUS / "inspect_fuzz" / name).write_bytes(file)
        (CORPUS / "decoder_fuzz" / name).write_bytes(struct.pack("<I", number) + file)
    for name, events in kinds.items():
        (CORPUS / "event_fuzz" / name).write_bytes(BETWEEN_EVENTS.join(events))


if __name__ == "__main__":
    main()
