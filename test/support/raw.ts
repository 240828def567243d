import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'

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
