import { type Socket } from 'node:net'
import { type Test } from 'tap'
import { listenRaw } from '../stub-upstream.js'
import { headPosition, type TrueResponse } from './read-kinds.js'
import { thenKeepAlive, type ScriptedBytes, responseBytes } from './response-bytes.js'

/** An upstream that gives true responses, except to targets with a false one. */
export interface DeceptiveUpstream {
  readonly url: string
  /** Received requests, without the index and without blocks by height, which only varve itself reads. */
  readonly requests: string[]
  /** Number of polls and of such block reads. */
  pollCount: number
  /** Current head, if it has moved since the start. */
  head: Readonly<Record<string, string>>
  readonly connections: () => number
  /** Bytes sent instead of the true response, by target. */
  readonly lies: Map<string, ScriptedBytes>
  /** Connection of the last response. */
  last: Socket | undefined
}

// Identifies a read of a kind by its target, or else by its body.
let latest = new Map<string, TrueResponse>()

/** Sets the true response for a target. */
export function setTrueResponse (truth: TrueResponse): void {
  latest.set(truth.target, truth)
}

/** Starts a deceptive upstream. */
export async function startDeceptiveUpstream (t: Test): Promise<DeceptiveUpstream> {
  latest = new Map()
  let connections = 0
  const upstream: DeceptiveUpstream = {
    url: '',
    requests: [],
    pollCount: 0,
    head: headPosition,
    connections: () => connections,
    lies: new Map(),
    last: undefined
  }
  const url = await listenRaw(t, socket => {
    connections++
    // Disables Nagle's algorithm, so that bytes leave without waiting for an acknowledgement.
    socket.setNoDelay()
    socket.on('error', () => {})
    let text = ''
    socket.on('data', chunk => {
      text += chunk.toString('latin1')
      for (;;) {
        const end = text.indexOf('\r\n\r\n')
        if (end === -1) return
        const length = Number(/content-length: (\d+)/i.exec(text.slice(0, end))?.[1] ?? 0)
        if (text.length < end + 4 + length) return
        const target = text.split(' ', 2)[1] ?? ''
        text = text.slice(end + 4 + length)
        respond(socket, target)
      }
    })
  })
  return Object.assign(upstream, { url })

  function respond (socket: Socket, target: string): void {
    if (target === '/v1' || (target.includes('by_height') && !latest.has(target) && !upstream.lies.has(target))) {
      upstream.pollCount++
    } else upstream.requests.push(target)
    upstream.last = socket
    const { bytes, then, everyMs, endless } = upstream.lies.get(target) ?? thenKeepAlive(truthOf(target, upstream.head))
    if (everyMs !== undefined) return drip(socket, bytes, everyMs)
    socket.write(Buffer.from(bytes, 'latin1'))
    if (endless !== undefined) flood(socket, Buffer.from(endless, 'latin1'))
    if (then === 'end') socket.end()
  }
}

function drip (socket: Socket, bytes: string, everyMs: number): void {
  let at = 0
  const timer = setInterval(() => {
    if (at < bytes.length) socket.write(bytes.charAt(at++), 'latin1')
  }, everyMs)
  socket.once('close', () => {
    clearInterval(timer)
  })
}

function flood (socket: Socket, bytes: Buffer): void {
  const pour = (): void => {
    while (!socket.destroyed && socket.write(bytes));
  }
  socket.on('drain', pour)
  pour()
}

function truthOf (target: string, positionHeaders: Readonly<Record<string, string>>): string {
  if (target === '/v1') {
    return responseBytes({ nth: 0, target, type: 'application/json', positionHeaders, body: '{"git_hash":"aaaa"}' })
  }
  const truth = latest.get(target)
  if (truth !== undefined) return responseBytes(truth, { stamps: positionHeaders })
  return responseBytes({
    nth: 0,
    target,
    type: 'application/json',
    positionHeaders,
    body: '{"message":"not found","error_code":"web_framework_error","vm_error_code":null}'
  }, { first: 'HTTP/1.1 404 Not Found' })
}
