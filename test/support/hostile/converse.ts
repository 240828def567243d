import { connect } from 'node:net'
import { splitResponses, type HostileResponse } from './split-responses.js'

/** Options of a conversation. */
export interface ConversationOptions {
  /** End of the client's side after its bytes: half-close, reset, or none, which sends another request. */
  readonly then?: 'end' | 'reset' | undefined
  /** Valid request that follows, to check that both sides are in step. */
  readonly next: string
  readonly limitMs: number
}

/** Bytes received on one connection. */
export interface Conversation {
  /** Responses to the bytes, without that to the next request. */
  readonly responses: readonly HostileResponse[]
  /** Response to the next request; undefined if the connection closed before. */
  readonly next: HostileResponse | undefined
  /** True if the other side closed the connection by itself. */
  readonly isClosedByPeer: boolean
  /** Bytes that are no response. */
  readonly rest: string
}

/** Sends raw bytes, then a valid request on the same connection, and reads until it closes. */
export async function converse (
  url: string,
  pieces: readonly Buffer[],
  { then, next, limitMs }: ConversationOptions
): Promise<Conversation> {
  return await new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    const socket = connect({ host: hostname, port: Number(port), noDelay: true, allowHalfOpen: true })
    const methods = methodsIn(Buffer.concat(pieces).toString('latin1'))
    let text = ''
    let isAllSent = false
    let isNextRequested = false
    const requestNext = (): void => {
      const { responses: [first] } = splitResponses(text, methods, false)
      if (
        first === undefined || !isAllSent || isNextRequested || then !== undefined ||
        first.headers.get('connection') === 'close'
      ) return
      isNextRequested = true
      socket.write(next)
    }
    const timer = setTimeout(() => {
      socket.destroy(new Error(`nothing more within ${limitMs} ms after: ${JSON.stringify(text.slice(0, 500))}`))
    }, limitMs)
    socket.on('data', chunk => {
      text += chunk.toString('latin1')
      requestNext()
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') reject(error)
    })
    socket.on('end', () => {
      socket.end()
    })
    socket.on('close', () => {
      clearTimeout(timer)
      const { responses, rest } = splitResponses(text, isNextRequested ? [...methods, 'GET'] : methods, true)
      const hasNextResponse = isNextRequested &&
        responses.at(-1)?.head.includes('\r\nConnection: close\r\n') === true &&
        responses.length > 1 && responses.at(-1)?.status === 200
      resolve({
        responses: hasNextResponse ? responses.slice(0, -1) : responses,
        next: hasNextResponse ? responses.at(-1) : undefined,
        isClosedByPeer: !hasNextResponse,
        rest
      })
    })
    sendPieces(socket, pieces).then(() => {
      isAllSent = true
      requestNext()
      if (then === 'end') socket.end()
      else if (then === 'reset') socket.resetAndDestroy()
    }, reject)
  })
}

async function sendPieces (socket: ReturnType<typeof connect>, [first, ...others]: readonly Buffer[]): Promise<void> {
  const write = async (piece: Buffer): Promise<void> => {
    await new Promise<void>(resolve => {
      socket.write(piece, () => {
        resolve()
      })
    })
  }
  if (first !== undefined) await write(first)
  for (const piece of others) {
    // Yields some turns: varve runs in this process and reads the bytes sent before.
    for (let turn = 0; turn < 20; turn++) {
      await new Promise(resolve => {
        setImmediate(resolve)
      })
    }
    await write(piece)
  }
}

/** Returns the methods of the requests in order, because a response to HEAD never has a body. */
function methodsIn (text: string): string[] {
  return [...text.matchAll(/^([A-Z]+) \S+ HTTP\/1\.[01]\r?$/gm)].map(match => match[1] ?? '')
}
