import { open, stat } from 'node:fs/promises'
import { type Readable } from 'node:stream'
import { type BlockSummary, readBlockSummary } from '../api/body-facts.js'
import { ErrorResponse } from '../api/error-response.js'
import { readPosition } from '../api/position.js'
import { type NamedRequest, namedRequestIn } from '../api/purge-request.js'
import { matchEndpoint, readRequest } from '../api/read-request.js'
import { classOf } from '../api/read.js'
import { bodyFromText } from '../api/request-body.js'
import { blockTarget } from '../api/request-targets.js'
import { readObject } from '../api/strict-json-object.js'
import { UsageError } from '../app/io.js'
import { bodyExcerptOf, type ProxyResponse, type WarmClient, type WarmRequest } from './warm-client.js'

/** Flags that continue a run. */
export interface ResumeFlags {
  readonly from?: string
  readonly skip?: string
}

/** A read of a run. */
export interface WarmItem {
  /** Resolves with undefined if the run ended before; the next run then does the read. */
  readonly fetch: () => Promise<ProxyResponse | undefined>
  /** Share of the run from 0 to 1 that is done with this read and all before it; undefined if the total is unknown. */
  readonly share: number | undefined
  /** Returns the flags that continue behind this read; undefined if the response does not show where. */
  readonly resumeAfter: (response: ProxyResponse) => ResumeFlags | undefined
}

/** Yields every block of a range by its height, since one entry serves the height and every version inside. */
export async function* blocksOf (
  from: bigint,
  to: bigint,
  transactions: boolean,
  client: WarmClient
): AsyncGenerator<WarmItem> {
  const withTransactions = transactions ? '?with_transactions=true' : ''
  const first = await locate(from)
  const last = first === undefined || first.block.last >= to ? first : await locate(to)
  if (first === undefined || last === undefined) return
  const [begin, end] = [first.block.height, last.block.height]
  for (let height = begin; height <= end; height++) {
    const target = `${blockTarget('height', height)}${withTransactions}`
    const known = [first, last].find(({ block }) => block.height === height)?.response
    yield {
      fetch: async () => known ?? await client.fetch({ method: 'GET', target }),
      share: Number(height - begin + 1n) / Number(end - begin + 1n),
      resumeAfter: response => {
        const block = blockIn(response)
        return block && { from: String(block.last + 1n) }
      }
    }
  }

  /** Finds the block of a version; undefined if the run ended before. */
  async function locate (version: bigint): Promise<{ block: BlockSummary, response: ProxyResponse } | undefined> {
    const target = `${blockTarget('version', version)}${withTransactions}`
    const response = await client.fetch({ method: 'GET', target })
    if (response === undefined) return undefined
    const block = blockIn(response)
    if (block !== undefined && block.first <= version && block.last >= version) return { block, response }
    const { oldest, head } = response.status === 200 ? {} : readPosition(response.headers)?.position ?? {}
    throw new Error(
      `version ${version} cannot be read: the response is ${response.status}, ` +
        `${bodyExcerptOf(response) || 'with nothing in it'}; ${
          oldest === undefined || head === undefined
            ? 'this is not varve: check --url'
            : `the upstreams have versions ${oldest.version} to ${head.version}`
        }`
    )
  }
}

function blockIn ({ status, body }: ProxyResponse): BlockSummary | undefined {
  return status === 200 ? readBlockSummary(body, 'json') : undefined
}

const maxLineLength = 4 * 1024 * 1024

/** Opens a file, or standard input for `-`, and returns its reads behind the skipped lines. */
export async function linesOf (
  name: string,
  skip: number,
  stdin: () => Readable,
  client: WarmClient,
  signal: AbortSignal,
  leaveOut: (reason: string, place?: string) => void
): Promise<AsyncGenerator<WarmItem>> {
  const { stream, sizeBytes } = name === '-' ? { stream: stdin(), sizeBytes: undefined } : await openFile(name)
  const text = stream.setEncoding('utf8')
  // Closes the input at the end of the run, because a read of a silent pipe would never end.
  signal.addEventListener('abort', () => text.destroy(), { once: true })
  return items()

  async function* items (): AsyncGenerator<WarmItem> {
    let [number, bytes, skippedBytes] = [0, 0, 0]
    for await (const line of lines()) {
      bytes += Buffer.byteLength(line) + 1
      const nth = ++number
      // Skipped lines take no time, so they do not count in the estimate.
      if (nth <= skip) skippedBytes = bytes
      const request = nth <= skip ? 'blank' : parseWarmRequest(line)
      if (request === 'not cacheable') leaveOut('not cacheable')
      if (request === 'unreadable') leaveOut('no request', `${name}:${nth}`)
      if (typeof request === 'string') continue
      yield {
        fetch: async () => await client.fetch(request),
        share: sizeBytes && Math.min(1, (bytes - skippedBytes) / (sizeBytes - skippedBytes)),
        resumeAfter: () => ({ skip: String(nth) })
      }
    }
  }

  /** Splits only at line feeds, because text readers also split at other characters. */
  async function* lines (): AsyncGenerator<string> {
    let rest = ''
    try {
      for await (const chunk of text) {
        const lines = `${rest}${String(chunk)}`.split('\n')
        rest = lines.pop() ?? ''
        yield* lines
        if (rest.length > maxLineLength) throw new Error(`a line is longer than ${maxLineLength} characters`)
      }
    } catch (error) {
      if (signal.aborted) return
      throw new Error(`${name} cannot be read: ${(error as Error).message}`, { cause: error })
    }
    if (rest !== '') yield rest
  }
}

/** Opens a file with its size, undefined for a pipe. */
async function openFile (name: string): Promise<{ stream: Readable, sizeBytes: number | undefined }> {
  try {
    const found = await stat(name)
    if (found.isDirectory()) throw new Error('it is a folder')
    const file = await open(name)
    return { stream: file.createReadStream(), sizeBytes: found.isFile() ? found.size : undefined }
  } catch (error) {
    throw new UsageError(`cannot read ${name}: ${(error as Error).message}`)
  }
}

/** Parses a line: a path, or a JSON request with the members of a purge and `accept`. */
export function parseWarmRequest (line: string): WarmRequest | 'not cacheable' | 'blank' | 'unreadable' {
  const text = line.trim()
  if (text === '' || text.startsWith('#')) return 'blank'
  const request = /^\/\S*$/.test(text) ? { method: 'GET', url: text } : requestIn(text)
  return request === undefined ? 'unreadable' : storable(request)
}

function requestIn (text: string): NamedRequest & Pick<WarmRequest, 'accept'> | undefined {
  const object = readObject(Buffer.from(text))
  if (object?.hasOnly(['method', 'url', 'body', 'accept']) !== true) return undefined
  const accept = object.stringOf('accept')
  const isAcceptWrong = object.textOf('accept') !== undefined && !/^[ -~]+$/.test(accept ?? '')
  const named = namedRequestIn(object)
  return named === undefined || isAcceptWrong ? undefined : { ...named, accept }
}

/** Accepts only cacheable reads, because a file may contain writes, and latest reads warm nothing. */
function storable ({
  method,
  url,
  body,
  accept
}: NamedRequest & Pick<WarmRequest, 'accept'>): WarmRequest | 'not cacheable' {
  try {
    const match = matchEndpoint(url, method)
    if (match === undefined) return 'not cacheable'
    const read = readRequest(match, { method, accept, ...bodyFromText(body ?? '') })
    const { method: sent } = read.endpoint
    return classOf(read) === 'moving'
      ? 'not cacheable'
      : { method: sent, target: match.target, body: sent === 'POST' ? body : undefined, accept }
  } catch (error) {
    if (error instanceof ErrorResponse) return 'not cacheable'
    throw error
  }
}
