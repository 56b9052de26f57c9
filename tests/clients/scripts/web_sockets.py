"""A server of web sockets that answers each text in capitals, and every other request with a page."""

import asyncio
import base64
import hashlib

PAGE = b"<!doctype html><link rel=icon href=data:,><title>upstream</title>"
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


async def connection(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
            fields = {name.lower(): value for name, value in fields.items()}
            if fields.get(b"upgrade", b"").lower() == b"websocket":
                await socket(fields[b"sec-websocket-key"], reader, writer)
                break
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n" % len(PAGE))
            writer.write(PAGE)
            await writer.drain()
    except asyncio.IncompleteReadError:
        pass
    finally:
        writer.close()


async def socket(key, reader, writer):
    accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n")
    writer.write(b"sec-websocket-accept: " + accept + b"\r\n\r\n")
    while True:
        first, second = await reader.readexactly(2)
        length = second & 127
        assert length < 126
        mask = await reader.readexactly(4)
        masked = await reader.readexactly(length)
        text = bytes(byte ^ mask[index % 4] for index, byte in enumerate(masked))
        if first & 15 == 8:
            writer.write(bytes([0x88, len(text)]) + text)
            await writer.drain()
            return
        writer.write(bytes([0x81, len(text)]) + text.upper())
        await writer.drain()


async def main():
    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
