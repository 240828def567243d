import { type Ledger } from '#sandbox'
import { until } from '../until.js'
import { blockRead, eventsRead, type Scenario, sendPlanned, redisWritesOf } from './scenario.js'
import { type MonitoredEnvironment } from './monitored-environment.js'

/** A version, and its distance below the window while the chain is paused. */
interface Pruned {
  readonly version: bigint
  readonly below: number
}

/**
 * Reads a version with the unmonitored replica just before it is pruned, so that Redis has it; then pauses the chain.
 */
export async function readSoonPruned (
  { upstreams: { whole }, unwatched, growth, first, second, tight }: MonitoredEnvironment
): Promise<Pruned> {
  const { ledger } = whole
  const { version, below, height } = aboutToGo(ledger)
  const before = await redisWritesOf(unwatched)
  await unwatched.get(`/v1/blocks/by_version/${version}`)
  await until(async () => await redisWritesOf(unwatched) === before + 1, 'the entry is written to Redis')
  await until(() => ledger.oldest.blockHeight >= height, 'the block is pruned')
  growth.pause()
  if (ledger.oldest.blockHeight !== height) throw new Error('the chain went on too far')
  for (const varve of [first, second, tight]) {
    await until(
      async () => await varve.metric('varve_ledger_oldest_version') === Number(ledger.oldest.version),
      'the replica knows the new oldest version'
    )
  }
  return { version, below }
}

/** Returns a version close to pruning, and the oldest height at which it is 10 to 100 versions below the window. */
function aboutToGo (ledger: Ledger): Pruned & { readonly height: bigint } {
  for (let last = ledger.oldest.blockHeight + 5n;; last++) {
    const version = ledger.block(last).firstVersion
    for (let height = last + 1n; height < last + 10n; height++) {
      const below = Number(ledger.block(height).firstVersion - version)
      if (below > 15 && below < 95) return { version, below, height }
    }
  }
}

/** Reads while the chain is paused: distances are known and the newest block stays the newest. */
export async function readWhilePaused (scene: Scenario, { version, below }: Pruned): Promise<void> {
  const { environment: { first, second, tight, upstreams: { whole }, growth }, facts, region } = scene
  const { ledger } = whole
  await sendPlanned(scene, first, blockRead(ledger.head.version), 'miss')
  facts.add('newest_block')
  await sendPlanned(scene, first, eventsRead(ledger.height - 5), 'miss')
  facts.add('short_page')
  for (const [varve, outcome] of [[first, 'hit_redis'], [first, 'hit_memory'], [second, 'hit_redis']] as const) {
    await sendPlanned(scene, varve, blockRead(version), outcome, { pruned: { answer: 'cache', below } })
  }
  facts.add('audits unavailable')
  facts.add('looked up by first')
  facts.add('looked up by second')
  for (const distance of [70, 70, 70, 70, 70, 70, 5000, 5000]) {
    await sendPlanned(scene, first, blockRead(ledger.oldest.version - BigInt(distance)), 'gone', {
      status: 410,
      pruned: { answer: 'local', below: distance }
    })
  }
  for (let nth = 1; nth <= 3; nth++) {
    await sendPlanned(scene, tight, blockRead(ledger.oldest.version - 70n), 'miss', {
      status: 410,
      pruned: { answer: 'upstream', below: 70 }
    }, { 'x-forwarded-for': `10.${region.network}.0.${nth}` })
  }
  growth.start()
}
