import { connect } from 'node:net'
import { splitResponses, type HostileResponse } from './split-responses.js'

/** How a conversation is led. */
export interface ConversationOptions {
  /**
   * What the client does when all is said: ends its half, or breaks the connection off; else it goes on with another
   * request.
   */
  readonly then?: 'end' | 'reset' | undefined
  /** The next request in good faith, which tells whether both sides are still at the same place. */
  readonly next: string
  readonly limitMs: number
}

/** What came back for the bytes of one connection. */
export interface Conversation {
  /** The answers to what was said, without that to the next request. */
  readonly responses: readonly HostileResponse[]
  /** The answer to the next request; undefined where the connection was closed before. */
  readonly next: HostileResponse | undefined
  /** Whether the other side closed the connection of its own accord. */
  readonly isClosedByPeer: boolean
  /** Whatever is no answer. */
  readonly rest: string
}

/** Says raw bytes, then, once answered, asks in good faith on the same connection, and listens until that is closed. */
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
    let isAllSaid = false
    let isNextAsked = false
    const askNext = (): void => {
      const { responses: [first] } = splitResponses(text, methods, false)
      if (
        first === undefined || !isAllSaid || isNextAsked || then !== undefined ||
        first.headers.get('connection') === 'close'
      ) return
      isNextAsked = true
      socket.write(next)
    }
    const timer = setTimeout(() => {
      socket.destroy(new Error(`nothing more within ${limitMs} ms after: ${JSON.stringify(text.slice(0, 500))}`))
    }, limitMs)
    socket.on('data', chunk => {
      text += chunk.toString('latin1')
      askNext()
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') reject(error)
    })
    socket.on('end', () => {
      socket.end()
    })
    socket.on('close', () => {
      clearTimeout(timer)
      const { responses, rest } = splitResponses(text, isNextAsked ? [...methods, 'GET'] : methods, true)
      const isNextAnswered = isNextAsked && responses.at(-1)?.head.includes('\r\nConnection: close\r\n') === true &&
        responses.length > 1 && responses.at(-1)?.status === 200
      resolve({
        responses: isNextAnswered ? responses.slice(0, -1) : responses,
        next: isNextAnswered ? responses.at(-1) : undefined,
        isClosedByPeer: !isNextAnswered,
        rest
      })
    })
    say(socket, pieces).then(() => {
      isAllSaid = true
      askNext()
      if (then === 'end') socket.end()
      else if (then === 'reset') socket.resetAndDestroy()
    }, reject)
  })
}

async function say (socket: ReturnType<typeof connect>, [first, ...others]: readonly Buffer[]): Promise<void> {
  const write = async (piece: Buffer): Promise<void> => {
    await new Promise<void>(resolve => {
      socket.write(piece, () => {
        resolve()
      })
    })
  }
  if (first !== undefined) await write(first)
  for (const piece of others) {
    // Varve is in this process: after some turns it has read what was sent before.
    for (let turn = 0; turn < 20; turn++) {
      await new Promise(resolve => {
        setImmediate(resolve)
      })
    }
    await write(piece)
  }
}

/** The methods of the requests in order, since an answer to HEAD has no body whatever it says of one. */
function methodsIn (text: string): string[] {
  return [...text.matchAll(/^([A-Z]+) \S+ HTTP\/1\.[01]\r?$/gm)].map(match => match[1] ?? '')
}
