"""Memory does not grow with the number of calls."""

import pytest

MEASURE = """
    import sys, warnings
    import numpy
    from tbhub import SummaryWriter

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    writer = SummaryWriter(sys.argv[1])

    def call(count):
        for step in range(count):
            {call}

    call({warm_up})
    writer.flush()
    before = resident()
    call({count})
    writer.flush()
    print(resident() - before)
"""

CALLS = {
    "add_scalar": ("writer.add_scalar('a', 1.5, step)", 3_000_000),
    "add_scalars": ("writer.add_scalars('a', {'left': 1.5, 'right': 2.5}, step)", 200_000),
    "add_text": ("writer.add_text('a', 'words', step)", 20_000),
    "add_histogram": ("writer.add_histogram('a', [1.0, 2.0], step)", 10_000),
    "add_hparams": ("writer.add_hparams({'lr': 1}, {'a': 1}, run_name='trial')", 1_000),
    "NaN": ("writer.add_scalar(str(step), float('nan'), step)", 50_000),
    "flush": ("writer.add_scalar('a', 1.5, step); writer.flush()", 50_000),
    "close": ("writer.add_scalar('a', 1.5, step); writer.close()", 2_000),
    "batches": ("writer.add_scalars_batch('a', numpy.zeros(100_000))", 50),
}


@pytest.mark.parametrize("name", CALLS)
def test_resident_memory_stays(run, logdir, name):
    call, count = CALLS[name]
    code = MEASURE.replace("{call}", call).replace("{count}", str(count))
    program = run(code.replace("{warm_up}", str(count // 10 + 10)), logdir, PYTHONWARNINGS="ignore")
    # A batch may fill the buffers to their bound when the disk is slow; 200 MB are logged.
    assert int(program.output()) < (64 if name == "batches" else 8) << 20
