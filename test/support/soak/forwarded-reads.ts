import { Agent } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { sendRequest, type TestResponse } from '../client.js'
import { type SeededRandom } from '../simulation/seeded-random.js'
import { recoveryMs, type TimeSpan } from '../simulation/simulated-pool.js'
import { expectedResponse } from '../simulation/oracle.js'
import { type ModelRequest } from '../simulation/render-request.js'
import { type SoakRun } from './soak-run.js'
import { isUnavailable } from './judge-under-load.js'

const everyMs = 25
const mostBehind = 300

// Share of unknown endpoints; the rest are blocks by height, which varve itself reads too.
const passedShare = 0.5

/** Runs reads that the model lacks: blocks by height, and forwarded ones. */
export async function runForwardedReads (soak: SoakRun, chance: SeededRandom, signal: AbortSignal): Promise<void> {
  const { archive } = soak.world.chain.current
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  const inFlight = new Set<Promise<void>>()
  while (!signal.aborted) {
    const height = archive.height + 2 - chance.integerBelow(mostBehind)
    const accept = chance.happens(0.3) ? 'application/x-bcs' : 'application/json'
    const target = chance.happens(passedShare) ? `/v1/-/healthy?nth=${height}` : `/v1/blocks/by_height/${height}`
    const spelt: ModelRequest = { method: 'GET', target, headers: { accept }, body: undefined }
    const read = readForwarded(soak, spelt, height, agent).finally(() => {
      inFlight.delete(read)
    })
    inFlight.add(read)
    await pause(chance.integerBelow(2 * everyMs))
  }
  await Promise.all(inFlight)
  agent.destroy()
}

async function readForwarded (
  { program, world, tally }: SoakRun,
  spelt: ModelRequest,
  height: number,
  agent: Agent
): Promise<void> {
  const { pool, chain } = world
  const isPassed = !spelt.target.includes('/by_height/')
  const from = performance.now()
  const got = await sendRequest(program.url, spelt.target, { headers: spelt.headers, agent }).catch((error: unknown) =>
    String(error)
  )
  const span = { from, to: performance.now() }
  const isClear = !pool.wasAnyUpstream({ from: from - recoveryMs, to: span.to }, ({ condition }) => condition !== 'up')
  if (typeof got === 'string') {
    // Expects a truncated upstream response to break the connection.
    tally.abandoned(isPassed ? 'passed, broken off,' : 'by height, broken off,')
    if (isClear) tally.fail(`a read broke off, ${got}, though no node had any trouble`, spelt.target)
    return
  }
  tally.answer(isPassed ? 'passed' : 'by height', got, span.to - from)
  const right = expectedResponse(chain.current, spelt, chain.current.archive.height)
  if (got.status === 200 && got.bytes.equals(right.body)) return
  // Skips failing upstreams, whose responses are forwarded unchanged.
  if (pool.wasAnyUpstream(span, ({ condition }) => condition === 'sick')) return
  const wrong = judge(got, isClear, span)
  if (isClear && isUnavailable(got)) tally.tolerate('refused')
  else if (wrong !== undefined) {
    tally.fail(`${isPassed ? 'passed' : 'by height'}: ${wrong}`, `${spelt.target} ${got.body.slice(0, 200)}`)
  }

  function judge ({ status, body }: TestResponse, isClear: boolean, span: TimeSpan): string | undefined {
    const { archive } = chain.current
    const version = height > archive.height ? archive.head.version + 1n : archive.block(BigInt(height)).firstVersion
    if (status === 404 && body.includes('block_not_found')) {
      return pool.upstreams.every(({ history }) =>
          history.between(span.from, span.to).every(({ head }) => head > version)
        )
        ? 'a block is denied that every node had'
        : undefined
    }
    if (status === 410 && body.includes('block_pruned')) {
      return pool.wasAnyUpstream(span, ({ oldest }) => oldest > version)
        ? undefined
        : 'a block is pruned that every node had'
    }
    if (status >= 500) return isClear ? `${status} though no node had any trouble` : undefined
    return `${status} is not what the chain says`
  }
}
