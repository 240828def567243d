import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type FuzzCase } from './support/model/fuzz-case.js'
import { type RedisProcess } from './support/redis-server.js'
import { startRedis } from './support/redis-server.js'
import { failureOf } from './support/model/fuzz.js'

// Cases that random requests found, one per line; `npm run fuzz` prints such a line for a wrong response.
const lines = readFileSync(join(import.meta.dirname, 'cases', 'shrunk.jsonl'), 'utf8').split('\n').filter(line =>
  line !== ''
)

t.test('varve responds to former fuzz findings as the upstream does', { timeout: 120_000 }, async t => {
  let started: Promise<RedisProcess> | undefined
  const redis = async (): Promise<RedisProcess> => await (started ??= startRedis(t))
  for (const line of lines) {
    const found = JSON.parse(line) as FuzzCase
    t.equal(await failureOf(found, redis), undefined, found.why ?? '')
  }
  t.ok(lines.length > 0)
})
