"""Every kernel compiles for CUDA without a GPU, without stack and local memory."""

from __future__ import annotations

import pytest

from cubins import ARCHITECTURES, kernel_modules, resource_usage


def test_cubins_have_no_stack_and_no_local_memory(capsys):
    pytest.importorskip("nvidia", reason="cuobjdump comes with the dev extra")
    rows = resource_usage()
    with capsys.disabled():
        print()
        for row in rows:
            place = f"{row['module']}.{row['kernel']}"
            print(f"  sm_{row['arch']} {row['registers']:4d} registers  {place}")
    assert {row["module"] for row in rows} == set(kernel_modules())
    assert {row["arch"] for row in rows} == set(ARCHITECTURES)
    for row in rows:
        assert row["stack"] == 0 and row["local"] == 0, row
        assert row["registers"] <= 200, row
