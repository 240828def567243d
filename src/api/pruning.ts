import { type Answer, errorOf } from './answer.js'
import { Refusal } from './refusal.js'

/** Members and headers that gateways add to a 410 (docs/node-behaviour.md, "Pruning: 410"). */
interface Decorations {
  readonly hint: string | undefined
  readonly archivalEndpoint: string | undefined
  readonly tellsOldest: boolean
  /** The archival header, flat: its name as it came, and its value. */
  readonly lines: readonly string[]
}

const none: Decorations = { hint: undefined, archivalEndpoint: undefined, tellsOldest: false, lines: [] }
const maxTextLength = 2048

/** The answer to reads of history that is gone, in the node's own words and with what its own 410s last carried. */
export class Pruning {
  #seen = none

  /** Takes in a node's 410. */
  learn (answer: Answer): void {
    const error = errorOf(answer)
    if (error === undefined || (error['error_code'] !== 'version_pruned' && error['error_code'] !== 'block_pruned')) {
      return
    }
    this.#seen = {
      hint: textOf(error['hint']),
      archivalEndpoint: textOf(error['archival_endpoint']),
      tellsOldest: error['oldest_ledger_version'] !== undefined,
      lines: archivalLines(answer)
    }
  }

  /** The 410 for a version below every node's window. */
  refusal (version: bigint, oldest: bigint): Refusal {
    const { hint, archivalEndpoint, tellsOldest, lines } = this.#seen
    return new Refusal(410, 'version_pruned', `Ledger version(${version}) has been pruned`, lines, {
      ...(hint !== undefined && { hint }),
      ...(tellsOldest && { oldest_ledger_version: String(oldest) }),
      ...(archivalEndpoint !== undefined && { archival_endpoint: archivalEndpoint })
    })
  }
}

/** The header that names an archive, under the name that the node's side gave it. */
export function archivalLines ({ headers }: Answer): string[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    const isArchival = name.endsWith('-archival-endpoint') && typeof value === 'string' &&
      /^[\x20-\x7e]{1,2048}$/.test(value)
    return isArchival ? [name, value] : []
  })
}

function textOf (value: unknown): string | undefined {
  return typeof value === 'string' && value.length <= maxTextLength ? value : undefined
}
