import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { type Test } from 'tap'
import { certificate, certificateKey } from './certificate.js'

/** A connection of a client, and the text received on it. */
export interface RawClient {
  readonly socket: Socket
  readonly closed: Promise<unknown>
  text: string
}

/** Opens a connection that sends bytes and collects what it receives. */
export function openRaw (t: Test, url: string, bytes: string | Buffer = '', localAddress?: string): RawClient {
  const socket = connectTo(t, url, localAddress)
  const client: RawClient = { socket, closed: new Promise(resolve => socket.once('close', resolve)), text: '' }
  socket.on('data', (chunk: Buffer) => {
    client.text += chunk.toString('latin1')
  }).write(bytes)
  return client
}

/** Opens a connection that sends bytes and reads nothing. */
export async function openDeaf (
  t: Test,
  url: string,
  bytes: string | Buffer,
  localAddress?: string
): Promise<Socket> {
  const socket = connectTo(t, url, localAddress).pause()
  await once(socket, 'connect')
  socket.write(bytes)
  return socket
}

// Connects over TLS to an https: address; ends the connection with the test.
function connectTo (t: Test, url: string, localAddress: string | undefined): Socket {
  const { hostname, port, protocol } = new URL(url)
  const plain = connect({ host: hostname, port: Number(port), ...(localAddress !== undefined && { localAddress }) })
  const socket = protocol === 'https:' ? connectTls({ socket: plain, rejectUnauthorized: false }) : plain
  t.teardown(() => {
    socket.destroy()
  })
  return socket.on('error', () => {})
}

/** Returns the configuration of a listener that speaks TLS. */
export function tlsOf (t: Test): { tls: { certFile: string, keyFile: string } } {
  const dir = t.testdir({ 'c.pem': certificate, 'k.pem': certificateKey })
  return { tls: { certFile: join(dir, 'c.pem'), keyFile: join(dir, 'k.pem') } }
}

/** Sends raw bytes and returns everything received until the connection closes or `enough` matches. */
export async function sendRaw (
  base: string,
  bytes: string | Buffer,
  enough?: (text: string) => boolean
): Promise<string> {
  return await new Promise((resolve, reject) => {
    const { hostname, port, protocol } = new URL(base)
    const socket = protocol === 'https:'
      ? connectTls({ host: hostname, port: Number(port), rejectUnauthorized: false })
      : connect(Number(port), hostname)
    let text = ''
    socket.on('error', error => {
      if (text === '' && (error as NodeJS.ErrnoException).code !== 'ECONNRESET') reject(error)
      else resolve(text)
    })
    socket.on('data', chunk => {
      text += chunk.toString('latin1')
      if (enough?.(text) === true) socket.destroy()
    })
    socket.on('close', () => {
      resolve(text)
    })
    socket.write(bytes)
  })
}

/** Returns the statuses of all responses in the received text. */
export function statusesIn (text: string): number[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(match => Number(match[1]))
}

/** Returns the subject of the certificate on a new connection. */
export async function subjectAt (url: string): Promise<string | undefined> {
  const { hostname, port } = new URL(url)
  const socket = connectTls({ host: hostname, port: Number(port), rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  const subject = socket.getPeerX509Certificate()?.subject
  socket.destroy()
  return subject
}

/** Reads to the end at a limited rate; returns the number of bytes, also after a cut connection. */
export async function readSlowly (source: AsyncIterable<Uint8Array>, bytesPerSecond: number): Promise<number> {
  let size = 0
  const began = performance.now()
  try {
    for await (const chunk of source) {
      size += chunk.length
      await pause(Math.max(0, began + size / bytesPerSecond * 1000 - performance.now()))
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET') throw error
  }
  return size
}
