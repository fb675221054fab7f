"""A real editor: Neovim without a window, with the settings that docs/editors.md gives for it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.required import missing
from unit.folders import write
from unit.lsp.conftest import FILES

ROOT = Path(__file__).resolve().parents[2]
# What a person does: each step waits until the server has answered, and its result is a line of JSON.
STEPS = """
local bad, good = "models/marts/totals.sql", "models/staging/stg_orders.sql"
local done = {}
local function ask(method, line, character, more)
  local params = vim.tbl_extend("force", {
    textDocument = vim.lsp.util.make_text_document_params(0),
    position = { line = line, character = character },
  }, more or {})
  local answers = vim.lsp.buf_request_sync(0, method, params, 60000)
  for _, answer in pairs(answers or {}) do
    return answer.result
  end
end
local function list_mistakes(count)
  vim.wait(60000, function() return #vim.diagnostic.get(0) == count end, 50)
  return vim.tbl_map(function(d) return { d.code, d.lnum, d.col, d.message } end, vim.diagnostic.get(0))
end

vim.cmd("edit " .. bad)
vim.wait(60000, function() return #(vim.lsp.get_clients or vim.lsp.get_active_clients)() == 1 end, 50)
done.clean = list_mistakes(0)
vim.api.nvim_buf_set_lines(0, 8, 9, true, { "SELECT b.custmer, b.total, upper('x') AS label FROM by_customer b" })
done.mistakes = list_mistakes(1)
vim.cmd("undo")
done.mended = list_mistakes(0)
done.hover = ask("textDocument/hover", 6, 13)
done.completion = ask("textDocument/completion", 4, 22)
done.definition = ask("textDocument/definition", 5, 8)
vim.cmd("edit " .. good)
vim.api.nvim_win_set_cursor(0, { 9, 13 })
vim.lsp.buf.rename("order_key")
vim.wait(60000, function() return vim.api.nvim_buf_get_lines(0, 8, 9, true)[1]:find("order_key") ~= nil end, 50)
vim.cmd("wall")
local file = io.open("done.json", "w")
file:write(vim.fn.json_encode(done))
file:close()
vim.cmd("qall!")
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The shop after the steps, and what the editor knew at each."""
    neovim = shutil.which("nvim")
    if neovim is None:
        missing("no Neovim on this machine: install neovim")
    root = write(tmp_path_factory.mktemp("shop"), FILES)
    texts = re.findall(r"```lua\n(.*?)```", (ROOT / "docs/editors.md").read_text(encoding="utf-8"), re.DOTALL)
    settings = next(text for text in texts if "start_client" in text)
    (root / "init.lua").write_text(f"vim.cmd('filetype on')\n{settings}", encoding="utf-8")
    (root / "steps.lua").write_text(STEPS, encoding="utf-8")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(root)}
    command = [neovim, "--headless", "-n", "-i", "NONE", "-u", "init.lua", "-c", "luafile steps.lua", "-c", "cquit"]
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=240)
    assert (root / "done.json").exists(), run.stdout + run.stderr
    return root, json.loads((root / "done.json").read_text(encoding="utf-8"))


def test_mistakes_show_while_typing_and_go_when_they_are_mended(session: tuple[Path, dict[str, Any]]) -> None:
    _, done = session
    assert (done["clean"], done["mended"]) == ([], [])
    assert [m[:3] for m in done["mistakes"]] == [["SQB-S006", 8, 7]]
    assert 'unknown column "b.custmer"' in done["mistakes"][0][3]


def test_hover_completion_and_definition_answer(session: tuple[Path, dict[str, Any]]) -> None:
    _, done = session
    assert "stg_orders" in json.dumps(done["definition"])
    assert "customer" in json.dumps(done["hover"])
    items = done["completion"]["items"] if isinstance(done["completion"], dict) else done["completion"]
    assert {"amount", "customer", "placed_on"} <= {item["label"] for item in items}


def test_a_column_is_renamed_through_the_project(session: tuple[Path, dict[str, Any]]) -> None:
    root, _ = session
    text = (root / "models/staging/stg_orders.sql").read_text(encoding="utf-8")
    assert "unique_key order_key" in text
    assert "id AS order_key" in text
