import { type Anchor } from '../ledger/anchors.js'
import { mediaTypes } from '../reads/accept.js'
import { type Answer } from '../reads/answer.js'
import { type Question } from './question.js'

/** Asks a node for the final block of a height; undefined where it has none, or says so in a way that is not known. Never kept: it is what kept entries are held against. */
export async function readFinalBlock (ask: (question: Question) => Promise<Answer>, height: bigint): Promise<Anchor | undefined> {
  try {
    const answer = await ask({ endpoint: 'other', method: 'GET', target: `/v1/blocks/by_height/${height}`, headers: { accept: mediaTypes.json }, isIdempotent: true })
    answer.rest?.destroy()
    const head = answer.stamped?.position.head.version
    if (answer.status !== 200 || answer.rest !== undefined || head === undefined) return undefined
    const block = JSON.parse(answer.body.toString()) as Readonly<Record<string, unknown>>
    const { block_height: at, block_hash: hash, last_version: last } = block
    if (at !== String(height) || typeof hash !== 'string' || typeof last !== 'string' || !/^0x[0-9a-fA-F]{64}$/.test(hash)) return undefined
    // The newest block may still be another one tomorrow.
    return BigInt(last) < head ? { height, hash: hash.toLowerCase() } : undefined
  } catch {
    return undefined
  }
}
