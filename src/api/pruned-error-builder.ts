import { type UpstreamResponse, errorOf } from './upstream-response.js'
import { ErrorResponse } from './error-response.js'
import { headerSuffix } from './position.js'

/** Members and headers that gateways add to a 410 (docs/node-behaviour.md, "Pruning: 410"). */
interface PrunedErrorExtras {
  readonly hint: string | undefined
  readonly archivalEndpoint: string | undefined
  readonly includesOldest: boolean
  /** Archival header as a flat list, with its original name. */
  readonly rawHeaders: readonly string[]
}

const noExtras: PrunedErrorExtras = {
  hint: undefined,
  archivalEndpoint: undefined,
  includesOldest: false,
  rawHeaders: []
}
const maxTextLength = 2048
const archiveNameEnd = `-${headerSuffix.archive}`

/** Creates 410 responses for pruned history in the node's words, with the extras of the last upstream 410. */
export class PrunedErrorBuilder {
  #lastExtras = noExtras

  /** Learns the extras of an upstream 410. */
  learn (response: UpstreamResponse): void {
    const error = errorOf(response)
    if (error === undefined || (error['error_code'] !== 'version_pruned' && error['error_code'] !== 'block_pruned')) {
      return
    }
    this.#lastExtras = {
      hint: readText(error['hint']),
      archivalEndpoint: readText(error['archival_endpoint']),
      includesOldest: error['oldest_ledger_version'] !== undefined,
      rawHeaders: archivalEndpointHeaders(response)
    }
  }

  /** Returns the 410 for a version below every upstream's window (law 11: "gone" is a fact, not a guess). */
  errorFor (version: bigint, oldest: bigint): ErrorResponse {
    const { hint, archivalEndpoint, includesOldest, rawHeaders } = this.#lastExtras
    return new ErrorResponse(410, 'version_pruned', `Ledger version(${version}) has been pruned`, rawHeaders, {
      ...(hint !== undefined && { hint }),
      ...(includesOldest && { oldest_ledger_version: String(oldest) }),
      ...(archivalEndpoint !== undefined && { archival_endpoint: archivalEndpoint })
    })
  }
}

/** Returns the header that names an archive as a flat list, under the upstream's own name; empty if there is none. */
export function archivalEndpointHeaders ({ headers }: UpstreamResponse): string[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    const isArchival = name.endsWith(archiveNameEnd) && typeof value === 'string' &&
      /^[\x20-\x7e]{1,2048}$/.test(value)
    return isArchival ? [name, value] : []
  })
}

function readText (value: unknown): string | undefined {
  return typeof value === 'string' && value.length <= maxTextLength ? value : undefined
}
