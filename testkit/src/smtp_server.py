"""An SMTP server for tests: aiosmtpd, told by a file what to do with each mail.

The n-th line of the file `orders` is for the n-th mail that is begun (MAIL FROM); beyond its end mails are taken.

  take           takes it
  take-and-drop  takes it and cuts the connection in place of the answer
  take-and-hang  takes it and never answers
  cut-content    cuts the connection while the content comes
  cut-recipient  cuts the connection in place of the answer to RCPT
  last CODE      answers RCPT with this code for an address that begins with `last`
  mail CODE, rcpt CODE, data CODE, content CODE   answers with this code there and takes nothing

The file `greeting`, where there is one, holds the code that EHLO is answered with. What is taken is a file
`mail-N.json`. The file `port` says where it listens, `begun` grows by a byte with each mail that is begun.
"""

import asyncio
import json
import os
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

FOLDER = sys.argv[1]


def path(name):
    return os.path.join(FOLDER, name)


def read(name):
    try:
        with open(path(name), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def write(name, text):
    with open(path(name + ".part"), "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path(name + ".part"), path(name))


class Book:
    begun = 0
    taken = 0


class Server(SMTP):
    order = "take"

    def ordered(self, what):
        word, _, code = self.order.partition(" ")
        return f"{code} 5.0.0 <ann@example.org> as ordered" if word == what else None

    async def smtp_DATA(self, arg):
        if answer := self.ordered("data"):
            await self.push(answer)
        elif self.order == "cut-content":
            await self.push("354 go on")
            await self._reader.read(1)
            self.transport.abort()
        else:
            await super().smtp_DATA(arg)


class Handler:
    async def handle_EHLO(self, server, session, envelope, hostname, responses):
        session.host_name = hostname
        if code := read("greeting").strip():
            return [f"{code} as ordered"]
        return responses

    async def handle_MAIL(self, server, session, envelope, address, options):
        orders = read("orders").splitlines()
        server.order = orders[Book.begun] if Book.begun < len(orders) else "take"
        Book.begun += 1
        with open(path("begun"), "a", encoding="utf-8") as file:
            file.write(".")
        if answer := server.ordered("mail"):
            return answer
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):
        if server.order == "cut-recipient":
            server.transport.abort()
            return "250 OK"
        if answer := server.ordered("rcpt") or address.startswith("last") and server.ordered("last"):
            return answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if answer := server.ordered("content"):
            return answer
        Book.taken += 1
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "encrypted": session.ssl is not None,
            "user": session.auth_data.login.decode() if session.authenticated else None,
            "text": envelope.original_content.decode("utf-8"),
        }
        write(f"mail-{Book.taken}.json", json.dumps(mail))
        if server.order == "take-and-drop":
            server.transport.abort()
        if server.order == "take-and-hang":
            await asyncio.Event().wait()
        return "250 OK"


def authenticator(server, session, envelope, mechanism, data):
    good = (data.login, data.password) == (b"shop", b"open sesame")
    return AuthResult(success=good, handled=False, auth_data=data)


async def main():
    context = None
    if len(sys.argv) > 2:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2], sys.argv[3])

    def serve():
        return Server(
            Handler(),
            hostname="mail.example.org",
            tls_context=context,
            require_starttls=context is not None,
            authenticator=authenticator,
            data_size_limit=None,
        )

    server = await asyncio.get_running_loop().create_server(serve, "127.0.0.1", 0)
    write("port", str(server.sockets[0].getsockname()[1]))
    await server.serve_forever()


asyncio.run(main())
