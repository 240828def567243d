import { readBlockSummary, type BlockSummary } from '../../api/block-summary.js'
import { readPosition } from '../../api/position.js'
import { blockByHeightTarget, blockByVersionTarget } from '../../api/request-targets.js'
import { bodyExcerptOf, headerValueIn, type ProxyResponse, type WarmClient } from './warm-client.js'
import { type WarmInput, type WarmItem } from './warm-job.js'

/** Version range to warm, both ends included. */
export interface VersionSpan {
  readonly from: bigint
  readonly to: bigint
  /** Fetches blocks together with their transactions. */
  readonly transactions: boolean
}

/** Where a range begins or ends. */
interface Edge {
  /** Height of its first or last block that upstreams have. */
  readonly height: bigint
  /** The block of its version; undefined if no upstream has that. */
  readonly block?: BlockSummary
  readonly response?: ProxyResponse
  readonly note?: string
}

/** Reads every block of a range by its height, since one entry serves the height and every version inside. */
export class BlockRange implements WarmInput {
  readonly noun = 'block'
  readonly resume: readonly string[]
  notes: readonly string[] = []
  readonly #span: VersionSpan
  readonly #client: WarmClient

  constructor (span: VersionSpan, client: WarmClient) {
    this.#span = span
    this.#client = client
    this.resume = this.#resumeFrom(span.from)
  }

  get isWhole (): boolean {
    return this.notes.length === 0
  }

  async *items (): AsyncGenerator<WarmItem> {
    const { from, to, transactions } = this.#span
    const start = await this.#locate(from, 'first')
    const end = start?.block !== undefined && start.block.last >= to ? start : await this.#locate(to, 'last')
    if (start === undefined || end === undefined) return
    const [first, last] = [start.height, end.height]
    this.notes = [start, end].flatMap(({ note }) => note ?? [])
    for (let height = first; height <= last; height++) {
      const known = [start, end].find(edge => edge.height === height)?.response
      const target = `${blockByHeightTarget(height)}${transactions ? '?with_transactions=true' : ''}`
      yield {
        fetch: async () => known ?? await this.#client.fetch({ method: 'GET', target }),
        share: Number(height - first + 1n) / Number(last - first + 1n),
        resumeAfter: response => {
          const block = blockIn(response)
          return block && this.#resumeFrom(block.last + 1n)
        }
      }
    }
    // Blocks above the head stay to do.
    if (end.note !== undefined) yield { fetch: async () => undefined, share: 1, resumeAfter: () => undefined }
  }

  /** Finds the first or last block of the range; resolves with undefined if the run ended before. */
  async #locate (version: bigint, end: 'first' | 'last'): Promise<Edge | undefined> {
    const target = blockByVersionTarget(version, this.#span.transactions)
    const response = await this.#client.fetch({ method: 'GET', target })
    if (response === undefined) return undefined
    const block = blockIn(response)
    if (block !== undefined && block.last >= version) return { height: block.height, block, response }
    const { oldest, head } = readPosition(response.headers)?.position ?? {}
    if (response.status === 410 && oldest !== undefined && oldest.version > version) {
      const height = oldest.blockHeight - (end === 'first' ? 0n : 1n)
      return { height, ...(end === 'first' && { note: `the upstreams' oldest version is ${oldest.version}` }) }
    }
    if (response.status === 404 && head !== undefined && head.version < version) {
      const height = head.blockHeight + (end === 'first' ? 1n : 0n)
      return { height, ...(end === 'last' && { note: `the head is version ${head.version}` }) }
    }
    throw new Error(
      `version ${version} cannot be read: the response is ${response.status}, ${
        response.body.length === 0 ? 'with nothing in it' : bodyExcerptOf(response)
      }${headerValueIn(response, 'cache-status') === undefined ? '; this is not varve: check --url' : ''}`
    )
  }

  #resumeFrom (version: bigint): readonly string[] {
    const { to, transactions } = this.#span
    return ['--from', String(version), '--to', String(to), ...(transactions ? ['--transactions'] : [])]
  }
}

function blockIn ({ status, body }: ProxyResponse): BlockSummary | undefined {
  return status === 200 ? readBlockSummary(body, 'json') : undefined
}
