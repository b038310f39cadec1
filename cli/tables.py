"""`pier tables`: the tables a node knows."""

from __future__ import annotations

import argparse
from typing import Any

from cli.options import add_command, add_format_option, add_node_options


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "tables",
        "List the tables of the ring: sources of nodes and what was published. Rows and bytes are estimates.",
        "pier tables",
    )
    add_node_options(parser)
    add_format_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import trio

    from cli.output import print_rows
    from cli.reach import reach

    async def tables() -> int:
        async with reach(args) as conn:
            found = await conn.tables()
        rows = (
            {
                "table": entry.name,
                "kind": entry.kind,
                "key": ", ".join(entry.keys),
                "nodes": entry.nodes,
                "rows": entry.rows,
                "bytes": entry.bytes,
                "columns": ", ".join(
                    f"{name} {kind}" for name, kind in zip(entry.columns, entry.types, strict=False)
                ),
            }
            for entry in found
        )
        print_rows(rows, args.format, ("table", "kind", "key", "nodes", "rows", "bytes", "columns"))
        return 0

    return trio.run(tables)
