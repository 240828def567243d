import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { type Test } from 'tap'
import { reset } from '../reset.js'

/**
 * Step of a client on one connection: sends bytes, waits until so many responses have begun in total, waits for
 * something else, closes its side, or resets the connection.
 */
export type WireStep =
  | { readonly send: string }
  | { readonly responses: number }
  | (() => Promise<void>)
  | 'end'
  | 'reset'

// Ends a session that waits for ever; its text then shows where.
const limitMs = 60_000
const responseStart = 'HTTP/1.1 '

/** Takes the steps on a new connection; returns all received bytes as latin1 text, without Date and varve's own ids. */
export async function runWireSession (url: string, steps: readonly WireStep[]): Promise<string> {
  const { hostname, port, protocol } = new URL(url)
  const socket: Socket = protocol === 'https:'
    ? connectTls({ host: hostname, port: Number(port), rejectUnauthorized: false })
    : connect(Number(port), hostname)
  let text = ''
  let responses = 0
  let onChange = (): void => {}
  socket.on('error', () => {}).on('data', chunk => {
    const from = Math.max(0, text.length - responseStart.length + 1)
    text += chunk.toString('latin1')
    responses += text.slice(from).split(responseStart).length - 1
    onChange()
  })
  const closed = new Promise<void>(resolve => {
    socket.once('close', () => {
      onChange()
      resolve()
    })
  })
  const limit = setTimeout(() => {
    text += '(no response for too long)'
    socket.destroy()
  }, limitMs)
  const until = async (isTrue: () => boolean): Promise<void> => {
    while (!isTrue()) {
      await new Promise<void>(resolve => {
        onChange = resolve
      })
    }
  }
  await once(socket.setNoDelay(), protocol === 'https:' ? 'secureConnect' : 'connect')
  for (const step of steps) {
    if (step === 'end') socket.end()
    else if (step === 'reset') {
      // Lets an end reach the server.
      await turn()
      reset(socket)
    } else if (typeof step === 'function') await step()
    else if ('responses' in step) {
      await until(() => socket.destroyed || responses >= step.responses)
    } else if (!socket.destroyed && socket.writable) {
      socket.write(step.send, 'latin1')
      // Lets the server read these bytes by themselves, in most cases.
      for (let turns = 0; turns < 3; turns++) await turn()
    }
  }
  await closed
  clearTimeout(limit)
  return text.replaceAll(/^(?:Date: |x-request-id: req-[0-9a-f]{10}-).*\r\n/gm, '')
}

/** Counts the requests that Node parses in this process, by the URL of the server that they reach. */
export function countParsedRequests (t: Test): (url: string) => number {
  const counts = new Map<number | undefined, number>()
  const count = (message: unknown): void => {
    const { request: { socket: { localPort } } } = message as { readonly request: IncomingMessage }
    counts.set(localPort, (counts.get(localPort) ?? 0) + 1)
  }
  subscribe('http.server.request.start', count)
  t.teardown(() => {
    unsubscribe('http.server.request.start', count)
  })
  return url => counts.get(Number(new URL(url).port)) ?? 0
}
