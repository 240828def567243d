import t from 'tap'
import { join } from 'node:path'
import { pino } from 'pino'
import {
  isDescriptorLeft,
  watchDescriptors,
  maxDescriptorsOfProcess,
  connectionLimitFor
} from '../../src/app/descriptors.js'
import { until } from '../support/until.js'
import { type Config, configSchema } from '../../src/config/schema.js'

t.test('exhausted file descriptors are logged and counted once, and so is their return', async t => {
  const log: string[] = []
  let [isLeft, checkCount, exhausted] = [true, 0, 0]
  const check = (): boolean => {
    checkCount++
    return isLeft
  }
  const after = async (more: number): Promise<void> => {
    const wanted = checkCount + more
    await until(() => checkCount >= wanted, 'the descriptors were checked')
  }
  t.teardown(watchDescriptors(
    pino({}, { write: line => log.push(line) }),
    () => {
      exhausted++
    },
    check,
    1
  ))
  await after(3)
  t.same([log.length, exhausted], [0, 0])
  isLeft = false
  await after(5)
  t.same([log.length, exhausted], [1, 1])
  t.match(log[0], /"level":50.*no file descriptor left/)
  isLeft = true
  await after(5)
  t.same([log.length, exhausted], [2, 1])
  t.match(log[1], /file descriptors available again/)
})

t.test('a descriptor is free if a file can be opened', async t => {
  t.ok(isDescriptorLeft())
})

const config = (connections: number | null): Config =>
  configSchema.parse({
    upstreams: [{ url: 'http://a', maxConcurrent: 100 }, { url: 'http://b', maxConcurrent: 200 }],
    limits: { connections }
  })

t.test('clients get the file descriptors that upstreams, Redis and the process do not need', async t => {
  t.same(connectionLimitFor(config(null), 1024), { limit: 1024 - 300 - 128, isReduced: false })
  t.same(
    connectionLimitFor(config(null), 1_048_576),
    { limit: 32_768, isReduced: false },
    'limited by memory, unless configured'
  )
  t.same(connectionLimitFor(config(100_000), 1_048_576), { limit: 100_000, isReduced: false })
  t.same(connectionLimitFor(config(500), 1024), { limit: 500, isReduced: false })
  t.same(connectionLimitFor(config(5000), 1024), { limit: 596, isReduced: true }, 'a reduced limit is reported')
  t.same(connectionLimitFor(config(null), 256), { limit: 16, isReduced: false }, 'a minimum is always served')
})

t.test('the descriptor limit is read from the system, with 1024 as the fallback', async t => {
  t.ok(maxDescriptorsOfProcess() > 0)
  const dir = t.testdir({
    limits: 'Limit  Soft Limit\nMax open files            20000                20001                files     \n',
    other: 'nothing of it'
  })
  t.equal(maxDescriptorsOfProcess(join(dir, 'limits')), 20_000)
  t.equal(maxDescriptorsOfProcess(join(dir, 'other')), 1024)
  t.equal(maxDescriptorsOfProcess(join(dir, 'none')), 1024)
})
