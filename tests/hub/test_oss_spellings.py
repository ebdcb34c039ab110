"""A bucket of OSS that is added by each of its spellings, to a real hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support import seaweedfs as weed
from support.hub import HubProcess, eventually
from support.seaweedfs import SeaweedFS, seaweedfs
from tbhub import SummaryWriter
from tbhub.storage.open import open_store

__all__ = ["seaweedfs"]

HOST = f"oss://{weed.BUCKET}.oss-cn-hangzhou.aliyuncs.com"
INTERNAL = f"oss://{weed.BUCKET}.oss-cn-hangzhou-internal.aliyuncs.com"


def test_runs_appear_once_however_their_bucket_is_spelled(
    tmp_path: Path, seaweedfs: SeaweedFS
) -> None:
    settings = {
        "endpoint": seaweedfs.url,
        "access_key_id": "everything",
        "secret_access_key": weed.SECRET,
    }
    short = f"oss://{weed.BUCKET}"
    store, top = open_store(f"{short}/{tmp_path.name}", settings)

    def send(run: str) -> None:
        with SummaryWriter(tmp_path / "logs" / run) as writer:
            writer.add_scalar("loss", 1.0, 1)
        for file in (tmp_path / "logs" / run).iterdir():
            store.put(f"{top}/{run}/{file.name}.000001", file.read_bytes())

    with HubProcess(tmp_path / "home", cache_dir=tmp_path / "cache") as hub:
        new = {"name": "weed", "uri": short, "settings": settings}
        hub.json("POST", "/api/v1/storage", json=new)

        def add(bucket: str, **more: Any) -> tuple[int, int]:
            logs = {"uri": f"{bucket}/{top}", **more}
            found = hub.json("POST", "/api/v1/runs/found", json=logs)
            return found["runs"], found["new"]

        def runs() -> dict[str, tuple[str, float | None]]:
            found = hub.json("GET", "/api/v1/runs?limit=1000")["runs"]
            assert len({run["path"] for run in found}) == len(found)
            assert not any(run["status"] == "lost" or run["problem"] for run in found)
            return {
                run["path"]: (run["location"], run["metrics"].get("loss", {}).get("last"))
                for run in found
            }

        send("a")
        assert add(HOST) == (1, 1)
        assert add(short) == (1, 0)
        assert add(INTERNAL) == (1, 0)
        assert add(short, watch=True) == (1, 0)
        expected = {"a": (f"{HOST}/{top}/a", 1.0)}
        eventually(lambda: runs() == expected)
        send("b")
        expected["b"] = (f"{short}/{top}/b", 1.0)
        eventually(lambda: runs() == expected)
        # All is read from the database again, and compared with the listing.
        assert add(INTERNAL, watch=True) == (2, 0)
        send("c")
        eventually(lambda: runs().keys() == {"a", "b", "c"} and runs()["c"][1] == 1.0)
        assert {path: runs()[path] for path in "ab"} == expected
    store.close()
