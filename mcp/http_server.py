"""An HTTP server made with the official Python SDK: `http_server.py PORT`."""
import asyncio
import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("http")


@server.tool()
def add(a: int, b: float = 0.5, note: str | None = None) -> dict:
    """Adds two numbers."""
    return {"sum": a + b, "note": note}


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Counts, and says how far it is."""
    for n in range(to):
        await ctx.report_progress(n + 1, to)
        await asyncio.sleep(0.05)
    return "counted"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("on purpose")


server.run(transport="streamable-http", port=int(sys.argv[1]))
