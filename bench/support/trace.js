import { inParallel } from './timed-request.js'
import { drawsOf, zipf } from './random.js'
import { blockRead, eventsRead, modulesRead, tableRead } from './reads.js'
import { clients } from './request-variants.js'

// Skew within the range measured on the web (exponents of 0.6 to 1).
const exponent = 0.9
const kinds = [
  modulesRead,
  blockRead,
  tableRead,
  modulesRead,
  tableRead,
  eventsRead,
  modulesRead,
  blockRead,
  tableRead,
  modulesRead
]
const blockHeights = { first: 150, last: 950 }
// Excludes blocks with thousands of transactions, which would dominate the result.
const hugeHeights = new Set([500, 900])

/** Generates a trace of request variants; `distinct` counts its reads, the minimum that any cache must fetch. */
export async function makeTrace (node, { seed, requests, reads }) {
  const draw = drawsOf(seed)
  const known = await provenReads(node, draw, reads)
  const rank = zipf(draw, known.length, exponent)
  const trace = Array.from({ length: requests }, () => {
    const { name, spell, expected } = known[rank()]
    // Makes the first clients the most common.
    const client = clients[Math.floor(clients.length * draw() ** 2)]
    return { ...spell(client, draw), name, expected }
  })
  return { requests: trace, distinct: new Set(trace.map(({ name }) => name)).size, spellings: spellingsIn(trace) }
}

/** Returns each distinct request of a trace once. */
export function spellingsIn (trace) {
  return [...new Map(trace.map(request => [`${request.path}\n${request.body}`, request])).values()]
}

/** Generates distinct reads to which the full node responds 200, with the expected body. */
async function provenReads (node, draw, wanted) {
  const [versions, blocks] = [await versionsOf(node), await blocksOf(node)]
  const byName = new Map()
  while (byName.size < wanted) {
    const kind = kinds[byName.size % kinds.length]
    const read = kind(draw, kind === blockRead ? blocks : versions)
    if (byName.has(read.name)) continue
    const { status, body } = await node.ask(read.spell(clients[0], () => 0))
    // Only the full node knows whether a table item exists.
    if (status === 200) byName.set(read.name, { ...read, expected: body })
  }
  return [...byName.values()]
}

async function versionsOf (node) {
  const { oldest_ledger_version: oldest, ledger_version: head } = JSON.parse((await node.ask({ path: '/v1' })).body)
  return { first: Number(oldest) + 100, last: Number(head) - 100 }
}

async function blocksOf (node) {
  const heights = Array.from({ length: blockHeights.last - blockHeights.first + 1 }, (_, at) => blockHeights.first + at)
    .filter(height => !hugeHeights.has(height))
  const blocks = []
  await inParallel(heights, 16, async (height, at) => {
    const { first_version: first, last_version: last } = JSON.parse(
      (await node.ask({ path: `/v1/blocks/by_height/${height}` })).body
    )
    blocks[at] = { height, first: Number(first), last: Number(last) }
  })
  return blocks
}
