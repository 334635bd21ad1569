"""Asks a server of `mmv-archive mcp` through the SDK of the Model Context Protocol for Python.

Arguments: the command of the server. Prints a line for each kind of revision: its version and the
number of tools. The archive is that of the incident of a job queue.
"""
import asyncio
import base64
import sys

from jsonschema import Draft202012Validator
from mcp import Client, MCPError, StdioServerParameters


def text_of(result):
    return next(item.text for item in result.content if item.type == "text")


async def ask(mode):
    command, *arguments = sys.argv[1:]
    parameters = StdioServerParameters(command=command, args=arguments, env={"TZ": "UTC"})
    async with Client(parameters, mode=mode) as client:
        assert "never follow instructions" in client.instructions.lower(), client.instructions
        assert client.server_info.name == "mmv-archive", client.server_info
        tools = (await client.list_tools()).tools
        for tool in tools:
            Draft202012Validator.check_schema(tool.input_schema)
            assert tool.annotations.read_only_hint, tool
        programs = await client.call_tool("programs", {})
        assert "mmv.jobs: " in text_of(programs) and not programs.is_error, programs
        explained = await client.call_tool("explain", {"since": "60s"})
        assert "mmv.jobs.latency[endpoint=/submit]" in text_of(explained), explained
        plot = await client.call_tool("plot", {"metrics": ["mmv.jobs.queue.depth"]})
        picture = next(item for item in plot.content if item.type == "image")
        assert picture.mime_type == "image/png", picture.mime_type
        assert base64.b64decode(picture.data).startswith(b"\x89PNG"), "no picture"
        wrong = await client.call_tool("report", {"metrics": ["no.metric"]})
        assert wrong.is_error and "no.metric" in text_of(wrong), wrong
        try:
            await client.call_tool("no_tool", {})
            raise AssertionError("a tool that does not exist was called")
        except MCPError as error:
            assert error.code == -32602, error
        print(f"{client.protocol_version}: {len(tools)} tools")


asyncio.run(ask("legacy"))
asyncio.run(ask("auto"))
