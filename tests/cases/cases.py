"""Small files that people really upload, each with what a right system makes of it.

A case is (content, extra parameters of POST /v1/batches, what to expect).  `MODEL` in a body stands
for the model that the test's server runs.  What to expect may hold
    upload   HTTP status of the upload, where it is not 200
    status   the batch's final status
    errors   [{code, line}] of `errors.data`, in line order
    counts   request_counts
    ids      custom_ids, in the order of the output file
    failed   {custom_id: status code} in the error file
"""

import json
from typing import Any

MODEL = "MODEL"


def body(text: str = "hi", **extra: Any) -> dict[str, Any]:
    return {
        "model": "MODEL",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 4,
        **extra,
    }


def row(
    custom_id: str,
    text: str = "hi",
    *,
    method: str = "POST",
    url: str = "/v1/chat/completions",
    **extra: Any,
) -> str:
    return json.dumps(
        {"custom_id": custom_id, "method": method, "url": url, "body": body(text, **extra)},
        ensure_ascii=False,
    )


def raw(line: dict[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False)


def ok(ids: list[str], failed: dict[str, int] | None = None) -> dict[str, Any]:
    failed = failed or {}
    counts = {"total": len(ids) + len(failed), "completed": len(ids), "failed": len(failed)}
    return {"status": "completed", "counts": counts, "ids": ids, "failed": failed}


def bad(*errors: tuple[str, int | None]) -> dict[str, Any]:
    return {"status": "failed", "errors": [{"code": code, "line": line} for code, line in errors]}


LF = "\n"
CASES: dict[str, tuple[str | bytes, dict[str, Any], dict[str, Any]]] = {
    # name: (bytes or text, extra params, expectation)
    "plain": (row("a") + LF + row("b") + LF, {}, ok(["a", "b"])),
    "no_final_newline": (row("a") + LF + row("b"), {}, ok(["a", "b"])),
    "blank_lines": (row("a") + "\n\n" + row("b") + "\n\n", {}, ok(["a", "b"])),
    "blank_lines_keep_physical_numbers": (
        "\n\n{bad\n" + row("a") + LF,
        {},
        bad(("invalid_json_line", 3)),
    ),
    "bom": (b"\xef\xbb\xbf" + (row("a") + LF + row("b") + LF).encode(), {}, ok(["a", "b"])),
    "crlf": ((row("a") + "\r\n" + row("b") + "\r\n").encode(), {}, ok(["a", "b"])),
    "line_separators_inside_strings": (
        row("a", "one\u2028two\u2029three\x85four") + LF + row("b") + LF,
        {},
        ok(["a", "b"]),
    ),
    # About 80 kB of four-byte characters: a 64 KiB read ends inside one; over any small context.
    "emoji_on_a_chunk_edge": (
        row("a", "\U0001f600" * 20000) + LF + row("b") + LF,
        {},
        ok(["b"], {"a": 400}),
    ),
    "utf16": ((row("a") + LF).encode("utf-16"), {}, {"upload": 400}),
    "latin1": (row("a", "caf\u00e9").encode("latin-1") + b"\n", {}, {"upload": 400}),
    "empty": (b"", {}, bad(("empty_file", None))),
    "only_blank_lines": (b"\n\n \n", {}, bad(("empty_file", None))),
    "duplicate_custom_id": (
        row("a") + LF + row("b") + LF + row("a") + LF,
        {},
        bad(("duplicate_custom_id", 3)),
    ),
    "every_bad_line_is_listed": (
        '[1,2,3]\nnull\n"hello"\n42\n{bad\n' + raw({"custom_id": "a"}) + LF + row("z") + LF,
        {},
        bad(
            ("invalid_request", 1),
            ("invalid_request", 2),
            ("invalid_request", 3),
            ("invalid_request", 4),
            ("invalid_json_line", 5),
            ("missing_required_parameter", 6),
        ),
    ),
    "skip_bad_lines_on_request": (
        row("a") + LF + "{bad\n" + row("b") + LF,
        {"on_invalid_line": "skip"},
        {
            "status": "completed",
            "counts": {"total": 3, "completed": 2, "failed": 1},
            "ids": ["a", "b"],
            "errors": [{"code": "invalid_json_line", "line": 2}],
        },
    ),
    "custom_id_missing_number_empty": (
        raw({"method": "POST", "url": "/v1/chat/completions", "body": body()})
        + LF
        + raw({"custom_id": 7, "method": "POST", "url": "/v1/chat/completions", "body": body()})
        + LF
        + row("")
        + LF,
        {},
        bad(("missing_required_parameter", 1), ("invalid_request", 2), ("invalid_request", 3)),
    ),
    "custom_id_long_and_unicode_is_fine": (
        row("\u00e9" * 300) + LF + row("\u0645\u0631\u062d\u0628\u0627 \U0001f600") + LF,
        {},
        ok(["\u00e9" * 300, "\u0645\u0631\u062d\u0628\u0627 \U0001f600"]),
    ),
    "wrong_method": (row("a", method="GET") + LF, {}, bad(("invalid_request", 1))),
    "wrong_url": (row("a", url="/v1/embeddings") + LF, {}, bad(("url_mismatch", 1))),
    "stream_true": (row("a", stream=True) + LF, {}, bad(("invalid_request", 1))),
    "unknown_model": (
        raw(
            {
                "custom_id": "a",
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": {**body(), "model": "no-such-model"},
            }
        )
        + LF,
        {},
        bad(("model_not_found", 1)),
    ),
    "nan_is_not_json": (
        row("a").replace('"max_tokens": 4', '"temperature": NaN') + LF,
        {},
        bad(("invalid_json_line", 1)),
    ),
    "body_is_a_string": (
        raw({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": "hi"}) + LF,
        {},
        bad(("invalid_request", 1)),
    ),
    "one_overlong_prompt_in_ten": (
        LF.join(row(f"r{i}", "word " * 200000 if i == 5 else "hi") for i in range(10)) + LF,
        {},
        ok([f"r{i}" for i in range(10) if i != 5], {"r5": 400}),
    ),
    "every_row_fails": (
        LF.join(row(i, temperature=999) for i in "abc") + LF,
        {},
        ok([], {i: 400 for i in "abc"}),
    ),
}
