import { once } from 'node:events'
import { type Test } from 'tap'
import { connect, type TLSSocket } from 'node:tls'

/** A connection over TLS that believes whoever is there. */
export async function connectTls (url: string): Promise<TLSSocket> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  return socket
}

/** Whose certificate a new connection is shown. */
export async function subjectAt (url: string): Promise<string | undefined> {
  const socket = await connectTls(url)
  const subject = socket.getPeerX509Certificate()?.subject
  socket.destroy()
  return subject
}

/** A connection that is kept, and asked for one thing after another. */
export async function openTlsConnection (
  t: Test,
  url: string
): Promise<{ send: (target: string) => Promise<string>, subject: () => string | undefined }> {
  const socket = await connectTls(url)
  t.teardown(() => {
    socket.destroy()
  })
  return {
    send: async target => {
      const heard = once(socket, 'data')
      socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`)
      return String((await heard)[0])
    },
    subject: () => socket.getPeerX509Certificate()?.subject
  }
}
