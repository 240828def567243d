import { Agent } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { ask, type Got } from '../client.js'
import { type Chance } from '../fleet/chance.js'
import { mendMs, type Span } from '../fleet/fleet.js'
import { answerOf } from '../fleet/oracle.js'
import { type Spelt } from '../fleet/spell.js'
import { type Soak } from './soak.js'
import { isRefusal } from './verdict.js'

const everyMs = 25
const mostBehind = 300

// Half of them by what varve asks of the chain by itself, too, and half by a route that it does not know.
const passedShare = 0.5

/** Reads beside those of the model: blocks by height, and what varve hands on as it comes. */
export async function passOn (soak: Soak, chance: Chance, signal: AbortSignal): Promise<void> {
  const { archive } = soak.world.chain.present
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  const underWay = new Set<Promise<void>>()
  while (!signal.aborted) {
    const height = archive.height + 2 - chance.below(mostBehind)
    const accept = chance.is(0.3) ? 'application/x-bcs' : 'application/json'
    const target = chance.is(passedShare) ? `/v1/-/healthy?nth=${height}` : `/v1/blocks/by_height/${height}`
    const spelt: Spelt = { method: 'GET', target, headers: { accept }, body: undefined }
    const read = passOne(soak, spelt, height, agent).finally(() => {
      underWay.delete(read)
    })
    underWay.add(read)
    await pause(chance.below(2 * everyMs))
  }
  await Promise.all(underWay)
  agent.destroy()
}

async function passOne ({ program, world, tally }: Soak, spelt: Spelt, height: number, agent: Agent): Promise<void> {
  const { fleet, chain } = world
  const isPassed = !spelt.target.includes('/by_height/')
  const from = performance.now()
  const got = await ask(program.url, spelt.target, { headers: spelt.headers, agent }).catch((error: unknown) =>
    String(error)
  )
  const span = { from, to: performance.now() }
  const isClear = !fleet.wasAny({ from: from - mendMs, to: span.to }, ({ condition }) => condition !== 'up')
  if (typeof got === 'string') {
    // A node's answer that breaks off breaks the connection.
    tally.left(isPassed ? 'passed, broken off,' : 'by height, broken off,')
    if (isClear) tally.fail(`a read broke off, ${got}, though no node had any trouble`, spelt.target)
    return
  }
  tally.answer(isPassed ? 'passed' : 'by height', got, span.to - from)
  const right = answerOf(chain.present, spelt, chain.present.archive.height)
  if (got.status === 200 && got.bytes.equals(right.body)) return
  // What a sick node says is handed on as it is.
  if (fleet.wasAny(span, ({ condition }) => condition === 'sick')) return
  const wrong = judge(got, isClear, span)
  if (isClear && isRefusal(got)) tally.grant('refused')
  else if (wrong !== undefined) {
    tally.fail(`${isPassed ? 'passed' : 'by height'}: ${wrong}`, `${spelt.target} ${got.body.slice(0, 200)}`)
  }

  function judge ({ status, body }: Got, isClear: boolean, span: Span): string | undefined {
    const { archive } = chain.present
    const version = height > archive.height ? archive.head.version + 1n : archive.block(BigInt(height)).firstVersion
    if (status === 404 && body.includes('block_not_found')) {
      return fleet.nodes.every(({ moments }) => moments.between(span.from, span.to).every(({ head }) => head > version))
        ? 'a block is denied that every node had'
        : undefined
    }
    if (status === 410 && body.includes('block_pruned')) {
      return fleet.wasAny(span, ({ oldest }) => oldest > version)
        ? undefined
        : 'a block is pruned that every node had'
    }
    if (status >= 500) return isClear ? `${status} though no node had any trouble` : undefined
    return `${status} is not what the chain says`
  }
}
