import { once } from 'node:events'
import { type Test } from 'tap'
import { connect, type TLSSocket } from 'node:tls'

/** Connects over TLS without verifying the certificate. */
export async function connectTls (url: string): Promise<TLSSocket> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  return socket
}

/** Returns the subject of the certificate on a new connection. */
export async function subjectAt (url: string): Promise<string | undefined> {
  const socket = await connectTls(url)
  const subject = socket.getPeerX509Certificate()?.subject
  socket.destroy()
  return subject
}

/** Opens a kept-alive connection for several requests. */
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
      const received = once(socket, 'data')
      socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`)
      return String((await received)[0])
    },
    subject: () => socket.getPeerX509Certificate()?.subject
  }
}
