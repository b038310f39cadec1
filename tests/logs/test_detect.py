"""A log's first bytes tell its dialect; what is no firewall log has none."""

from __future__ import annotations

import pytest

from pier_node.logs import DIALECTS, detect, generate
from pier_node.logs.detect import DETECT_BYTES

START_US = 1_741_000_000_000_000


@pytest.mark.parametrize("name", DIALECTS)
def test_generated_logs_are_recognised(name: str) -> None:
    for count in (1, 2000):
        found = detect(generate(name, seed=5, start_us=START_US, count=count))
        assert (found.dialect, found.confidence) == (name, 1.0)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_log_cut_anywhere_and_among_other_lines(name: str) -> None:
    raw = generate(name, seed=5, start_us=START_US, count=50)
    other = b"Mar  7 04:05:06 gate sshd[77]: Invalid user bob from 198.51.100.7 port 33166\n"
    found = detect(other * 20 + raw[: len(raw) * 2 // 3])
    assert found.dialect == name
    assert 0 < found.confidence < 1


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n\n",
        b"Mar  7 04:05:06 gate sshd[77]: Invalid user bob from 198.51.100.7 port 33166\n",
        b"a,b,c\n1,2,3\n",
        b'{"level":"info"}\n',
        b"#fields\tts\tuid\tid.orig_h\n",
        b"\x00\xff" * 1000,
        b"x" * (DETECT_BYTES * 2),
    ],
)
def test_other_bytes_are_no_dialect(raw: bytes) -> None:
    assert detect(raw).dialect is None
