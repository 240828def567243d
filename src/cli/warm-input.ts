import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { type Readable } from 'node:stream'
import { type BlockSummary, readBlockSummary } from '../api/body-summaries.js'
import { ErrorResponse } from '../api/error-response.js'
import { readPosition } from '../api/position.js'
import { type NamedRequest, namedRequestIn } from '../api/purge-request.js'
import { matchEndpoint, readRequest } from '../api/read-request.js'
import { classOf } from '../api/read.js'
import { bodyFromText } from '../api/request-body.js'
import { blockByHeightTarget, blockByVersionTarget } from '../api/request-targets.js'
import { readObject } from '../api/strict-json-object.js'
import { UsageError } from '../app/io.js'
import { formatCount } from './format.js'
import { bodyExcerptOf, headerValueIn, type ProxyResponse, type WarmClient, type WarmRequest } from './warm-client.js'

/** Reads of a run, in order. */
export interface WarmInput {
  readonly noun: string
  /** Arguments that begin the run again. */
  readonly resume: readonly string[]
  readonly items: () => AsyncGenerator<WarmItem>
  /** Sentences about what the run leaves out, once it has ended. */
  readonly notes: string[]
  /** False if something could not be read. */
  isWhole: boolean
}

/** A read of a run. */
export interface WarmItem {
  /** Resolves with undefined if the run ended before; then the read stays to do. */
  readonly fetch: () => Promise<ProxyResponse | undefined>
  /** Share of the run from 0 to 1 that is done with this read and all before it; undefined if the total is unknown. */
  readonly share: number | undefined
  /** Returns the arguments that continue behind this read; undefined if the response does not say. */
  readonly resumeAfter: (response: ProxyResponse) => readonly string[] | undefined
}

/** Version range to warm, both ends included. */
export interface VersionSpan {
  readonly from: bigint
  readonly to: bigint
  /** Fetches blocks together with their transactions. */
  readonly transactions: boolean
}

/** Heights of the block of a version, the second one excluded; none if no upstream has that version. */
interface Edge {
  readonly from: bigint
  readonly end: bigint
  readonly block?: BlockSummary
  readonly response: ProxyResponse
  /** Sentence that says which version upstreams have instead. */
  readonly note?: string
}

/** Reads every block of a range by its height, since one entry serves the height and every version inside. */
export function blocksOf ({ from, to, transactions }: VersionSpan, client: WarmClient): WarmInput {
  const resumeFrom = (
    version: bigint
  ): readonly string[] => ['--from', String(version), '--to', String(to), ...(transactions ? ['--transactions'] : [])]
  const input: WarmInput = { noun: 'block', resume: resumeFrom(from), items, notes: [], isWhole: true }
  return input

  async function* items (): AsyncGenerator<WarmItem> {
    const first = await locate(from)
    const last = first?.block !== undefined && first.block.last >= to ? first : await locate(to)
    if (first === undefined || last === undefined) return
    input.notes.push(...new Set([first, last].flatMap(({ note }) => note ?? [])))
    input.isWhole = input.notes.length === 0
    for (let height = first.from; height < last.end; height++) {
      const known = [first, last].find(({ block }) => block?.height === height)?.response
      const target = `${blockByHeightTarget(height)}${transactions ? '?with_transactions=true' : ''}`
      yield {
        fetch: async () => known ?? await client.fetch({ method: 'GET', target }),
        share: Number(height - first.from + 1n) / Number(last.end - first.from),
        resumeAfter: response => {
          const block = blockIn(response)
          return block && resumeFrom(block.last + 1n)
        }
      }
    }
    // Blocks above the head stay to do.
    if (last.response.status === 404) yield { fetch: async () => undefined, share: 1, resumeAfter: () => undefined }
  }

  /** Finds the block of a version, or the end of what upstreams have; undefined if the run ended before. */
  async function locate (version: bigint): Promise<Edge | undefined> {
    const response = await client.fetch({ method: 'GET', target: blockByVersionTarget(version, transactions) })
    if (response === undefined) return undefined
    const { status } = response
    const block = blockIn(response)
    if (block !== undefined && block.last >= version) {
      return { from: block.height, end: block.height + 1n, block, response }
    }
    const { oldest, head } = readPosition(response.headers)?.position ?? {}
    if (status === 410 && oldest !== undefined && oldest.version > version) {
      const { blockHeight: at, version: first } = oldest
      return { from: at, end: at, response, note: `the upstreams' oldest version is ${first}` }
    }
    if (status === 404 && head !== undefined && head.version < version) {
      const at = head.blockHeight + 1n
      return { from: at, end: at, response, note: `the head is version ${head.version}` }
    }
    throw new Error(
      `version ${version} cannot be read: the response is ${status}, ${
        response.body.length === 0 ? 'with nothing in it' : bodyExcerptOf(response)
      }${headerValueIn(response, 'cache-status') === undefined ? '; this is not varve: check --url' : ''}`
    )
  }
}

function blockIn ({ status, body }: ProxyResponse): BlockSummary | undefined {
  return status === 200 ? readBlockSummary(body, 'json') : undefined
}

// Number of unreadable lines shown as examples.
const maxSamples = 3
// Four times the largest request body; longer lines are not requests.
const maxLineLength = 4 * 1024 * 1024

/** Reads the request in each line of a file, or of standard input, whose name is -; rejects what cannot be read. */
export async function linesOf (
  { name, skip }: { readonly name: string, readonly skip: number },
  stdin: () => Readable,
  client: WarmClient,
  signal: AbortSignal
): Promise<WarmInput> {
  const { stream, sizeBytes } = name === '-' ? { stream: stdin(), sizeBytes: undefined } : await openFile(name)
  const text = stream.setEncoding('utf8')
  // A pipe may stay silent, so only closing it ends the read.
  signal.addEventListener('abort', () => text.destroy(), { once: true })
  const resumeAfter = (line: number): readonly string[] => ['--skip', String(line), name]
  const input: WarmInput = { noun: 'read', resume: resumeAfter(skip), items, notes: [], isWhole: true }
  return input

  async function* items (): AsyncGenerator<WarmItem> {
    let [number, bytes, skippedBytes, notCacheable, unreadable] = [0, 0, 0, 0, 0]
    const samples: string[] = []
    try {
      for await (const line of lines()) {
        bytes += Buffer.byteLength(line) + 1
        const nth = ++number
        // Skipped lines take no time, so they do not count in the estimate.
        if (nth <= skip) skippedBytes = bytes
        const request = nth <= skip ? 'blank' : parseWarmRequest(line)
        if (request === 'not cacheable') notCacheable++
        if (request === 'unreadable' && unreadable++ < maxSamples) samples.push(`${name}:${nth}`)
        if (typeof request === 'string') continue
        yield {
          fetch: async () => await client.fetch(request),
          share: sizeBytes && Math.min(1, (bytes - skippedBytes) / (sizeBytes - skippedBytes)),
          resumeAfter: () => resumeAfter(nth)
        }
      }
    } finally {
      if (notCacheable > 0) {
        input.notes.push(formatCount(notCacheable, 'line is not a cacheable read', 'lines are not cacheable reads'))
      }
      if (unreadable > 0) {
        const lines = formatCount(unreadable, 'line is not a request', 'lines are not requests')
        input.notes.push(`${lines}: ${samples.join(', ')}${unreadable > maxSamples ? ' ...' : ''}`)
        input.isWhole = false
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
        for (const line of lines) yield line
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
    const stream = createReadStream(name)
    await once(stream, 'open')
    return { stream, sizeBytes: found.isFile() ? found.size : undefined }
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
function storable (request: NamedRequest & Pick<WarmRequest, 'accept'>): WarmRequest | 'not cacheable' {
  const { method, url, body, accept } = request
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
