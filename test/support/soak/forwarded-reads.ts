import { Agent } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { type TestResponse, sendRequest } from '../client.js'
import { expectedResponse } from '../model/oracle.js'
import { type ModelRequest, testRequestOf } from '../model/request.js'
import { type SeededRandom } from '../model/seeded-random.js'
import { recoveryMs, type TimeSpan } from '../simulation/simulated-pool.js'
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
    const request: ModelRequest = { method: 'GET', target, headers: [['accept', accept]] }
    const read = readForwarded(soak, request, height, agent).finally(() => {
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
  request: ModelRequest,
  height: number,
  agent: Agent
): Promise<void> {
  const { pool, chain } = world
  const isPassed = !request.target.includes('/by_height/')
  const from = performance.now()
  const got = await sendRequest(program.url, request.target, { ...testRequestOf(request), agent }).catch((
    error: unknown
  ) => String(error))
  const span = { from, to: performance.now() }
  const isClear = !pool.wasAnyUpstream({ from: from - recoveryMs, to: span.to }, ({ condition }) => condition !== 'up')
  if (typeof got === 'string') {
    // Expects a truncated upstream response to break the connection.
    tally.note(isPassed ? 'left: passed, broken off' : 'left: by height, broken off')
    if (isClear) tally.fail(`a read broke off, ${got}, though no node had any trouble`, request.target)
    return
  }
  tally.countResponse(isPassed ? 'passed' : 'by height', got)
  const right = expectedResponse(chain.current, request, { height: chain.current.archive.height })
  if (got.status === 200 && got.bytes.equals(right.body)) return
  // Skips failing upstreams, whose responses are forwarded unchanged.
  if (pool.wasAnyUpstream(span, ({ condition }) => condition === 'unhealthy')) return
  const wrong = judge(got, isClear, span)
  if (isClear && isUnavailable(got)) tally.note('tolerated: unavailable')
  else if (wrong !== undefined) {
    tally.fail(`${isPassed ? 'passed' : 'by height'}: ${wrong}`, `${request.target} ${got.body.slice(0, 200)}`)
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
