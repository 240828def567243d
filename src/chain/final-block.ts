import { type Anchor } from './anchors.js'
import { type Answer } from '../api/answer.js'
import { readU64 } from '../api/integer.js'
import { NodeFailure } from '../upstreams/node-failure.js'
import { type Question, questionOfItself } from '../upstreams/question.js'

/**
 * Asks a node for the final block of a height; undefined where it has none, or says so in a way that is not known.
 * Fails where it has no word on it now: no whole answer, a failure of its own, a 200 of somebody else. Never kept: it
 * is what kept entries are held against.
 */
export async function readFinalBlock (
  ask: (question: Question) => Promise<Answer>,
  height: bigint
): Promise<Anchor | undefined> {
  const answer = await ask(questionOfItself(`/v1/blocks/by_height/${height}`))
  answer.rest?.destroy()
  const { status, stamped } = answer
  if (status === 429 || status >= 500 || (status < 400 && stamped === undefined)) {
    throw new NodeFailure('the node', 'garbage', `${status} for a block`)
  }
  if (status !== 200 || answer.rest !== undefined || stamped === undefined) return undefined
  return anchorIn(answer.body, height, stamped.position.head.version)
}

function anchorIn (body: Buffer, height: bigint, head: bigint): Anchor | undefined {
  try {
    const block = JSON.parse(body.toString()) as Readonly<Record<string, unknown>>
    const { block_height: at, block_hash: hash, last_version: last } = block
    if (
      at !== String(height) || typeof hash !== 'string' || typeof last !== 'string' || !/^0x[0-9a-fA-F]{64}$/.test(hash)
    ) return undefined
    // Not by BigInt, which takes seconds for what may be millions of digits.
    const lastVersion = readU64(last)
    // The newest block may still be another one tomorrow.
    return lastVersion !== undefined && lastVersion < head ? { height, hash: hash.toLowerCase() } : undefined
  } catch {
    return undefined
  }
}
