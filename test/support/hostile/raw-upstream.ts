import { type Socket } from 'node:net'
import { type Test } from 'tap'
import { listenRaw } from '../stub-upstream.js'
import { headVersion } from './fresh-response.js'

/** Bytes that an upstream sends, and what it does next; each character stands for a byte. */
export interface ScriptedBytes {
  readonly bytes: string
  readonly then: 'keep' | 'end' | 'hang'
  /** Pause between bytes, if they are sent one at a time. */
  readonly everyMs?: number | undefined
  /** Text that follows without end, as fast as the peer reads. */
  readonly endless?: string | undefined
}

/** An upstream over raw TCP that records every request, so that nothing parses varve's bytes before the test does. */
export interface RawUpstream {
  readonly url: string
  readonly received: string[]
  /** Requests whose length is not certain: must stay empty. */
  readonly unreadable: string[]
  /** Bytes in place of the true response, by target; `*` for all reads but those of varve itself. */
  readonly scripts: Map<string, ScriptedBytes>
  /** Connection of the last response. */
  last: Socket | undefined
}

const ownRequest = new RegExp(`^GET /v1(?:/blocks/by_height/\\d+\\S*|/transactions/by_version/${headVersion})? HTTP`)

/** True for the requests that varve itself makes: polls, and what proves the chain. */
export function isOwnRequest (request: string): boolean {
  return ownRequest.test(request)
}

/** Starts an upstream that responds with the bytes that a function returns. */
export async function startRawUpstream (t: Test, respond: (request: string) => string): Promise<RawUpstream> {
  const url = await listenRaw(t, socket => {
    let text = ''
    socket.setNoDelay().on('error', () => {}).on('data', chunk => {
      text += chunk.toString('latin1')
      for (let request = requestIn(text); request !== undefined; request = requestIn(text)) {
        text = text.slice(request.length)
        receive(socket, request)
      }
    })
  })
  const upstream: RawUpstream = { url, received: [], unreadable: [], scripts: new Map(), last: undefined }
  return upstream

  function receive (socket: Socket, request: string): void {
    if (/^transfer-encoding:/im.test(request) || /^content-length:[^]*^content-length:/im.test(request)) {
      upstream.unreadable.push(request)
    }
    upstream.received.push(request)
    upstream.last = socket
    const script = upstream.scripts.get(targetOf(request)) ??
      (isOwnRequest(request) ? undefined : upstream.scripts.get('*'))
    send(socket, script ?? { bytes: respond(request), then: 'keep' })
  }
}

/** Returns the target of a request. */
export function targetOf (request: string): string {
  return request.split(' ', 2)[1] ?? ''
}

function requestIn (text: string): string | undefined {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd === -1) return undefined
  const length = headEnd + 4 + Number(/^content-length: *(\d+)\r?$/im.exec(text.slice(0, headEnd))?.[1] ?? 0)
  return text.length < length ? undefined : text.slice(0, length)
}

function send (socket: Socket, { bytes, then, everyMs, endless }: ScriptedBytes): void {
  if (everyMs !== undefined) {
    let at = 0
    const timer = setInterval(() => {
      if (at < bytes.length) socket.write(bytes.charAt(at++), 'latin1')
    }, everyMs)
    socket.once('close', () => {
      clearInterval(timer)
    })
    return
  }
  socket.write(bytes, 'latin1')
  if (endless !== undefined) {
    const chunk = Buffer.from(endless, 'latin1')
    const pour = (): void => {
      while (!socket.destroyed && socket.write(chunk));
    }
    socket.on('drain', pour)
    pour()
  }
  if (then === 'end') socket.end()
}
