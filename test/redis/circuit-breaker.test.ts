import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { CircuitBreaker, type CircuitState } from '../../src/redis/circuit-breaker.js'

interface Trial {
  readonly breaker: CircuitBreaker
  readonly changes: CircuitState[]
  /** Times of probes, in milliseconds since the start. */
  readonly probes: number[]
  /** Result of the next probes. */
  isHealthy: boolean
  pass(ms: number): Promise<void>
}

/** Creates a breaker whose clock the test controls. */
function breakerOf (t: Test): Trial {
  mock.timers.enable({ apis: ['setTimeout'] })
  const changes: CircuitState[] = []
  const probes: number[] = []
  let now = 0
  const breaker = new CircuitBreaker(async () => {
    probes.push(now)
    await turn()
    if (!trial.isHealthy) throw new Error('unhealthy')
  }, state => {
    changes.push(state)
  })
  const trial: Trial = {
    breaker,
    changes,
    probes,
    isHealthy: true,
    pass: async ms => {
      for (const end = now + ms; now < end;) {
        now += 50
        mock.timers.tick(50)
        await turn()
        await turn()
        await turn()
      }
    }
  }
  t.teardown(() => {
    breaker.stop()
    mock.timers.reset()
  })
  return trial
}

t.test('Redis is not used before a probe has succeeded', async t => {
  const { breaker, changes } = breakerOf(t)
  t.notOk(breaker.isClosed)
  await breaker.probeNow()
  t.ok(breaker.isClosed)
  t.same(changes, ['closed'])
})

t.test('five consecutive failures open the breaker; five among successes do not', async t => {
  const { breaker, changes } = breakerOf(t)
  await breaker.probeNow()
  for (let at = 0; at < 20; at++) {
    if (at % 5 === 0) breaker.recordSuccess()
    else breaker.recordFailure()
  }
  t.ok(breaker.isClosed, 'four at a time')
  breaker.recordFailure()
  t.notOk(breaker.isClosed)
  t.same(changes, ['closed', 'open'])
})

t.test('an open breaker probes within a second, then every two, and new failures do not delay it', async t => {
  const trial = breakerOf(t)
  const { breaker, probes, pass, changes } = trial
  await breaker.probeNow()
  probes.length = 0
  trial.isHealthy = false
  breaker.open()
  for (let at = 0; at < 40; at++) {
    // Requests in flight may fail after it opened, and a client that reconnects fails again and again.
    breaker.recordFailure()
    breaker.open()
    await pass(200)
  }
  t.same(probes, [500, 1500, 3500, 5500, 7500])
  t.equal(breaker.failedProbes, 5)
  trial.isHealthy = true
  await pass(2000)
  t.ok(breaker.isClosed)
  t.same(changes, ['closed', 'open', 'closed'])
  await pass(10_000)
  t.equal(probes.length, 6, 'a closed breaker does not probe')
})

t.test('a breaker that opens again after recovery probes within a second again', async t => {
  const trial = breakerOf(t)
  const { breaker, probes, pass } = trial
  trial.isHealthy = false
  breaker.open()
  await pass(6000)
  trial.isHealthy = true
  await pass(2000)
  t.ok(breaker.isClosed)
  trial.isHealthy = false
  breaker.open()
  probes.length = 0
  await pass(500)
  t.equal(probes.length, 1)
})

t.test('failures from before a breaker opened do not open it again once it has closed', async t => {
  const { breaker } = breakerOf(t)
  await breaker.probeNow()
  for (let at = 0; at < 9; at++) breaker.recordFailure()
  await breaker.probeNow()
  for (let at = 0; at < 4; at++) breaker.recordFailure()
  t.ok(breaker.isClosed)
})

t.test('concurrent probes are one, and an extra probe that succeeds closes the breaker at once', async t => {
  const trial = breakerOf(t)
  const { breaker, probes, pass } = trial
  trial.isHealthy = false
  breaker.open()
  await pass(2000)
  t.equal(probes.length, 2)
  trial.isHealthy = true
  await Promise.all([breaker.probeNow(), breaker.probeNow()])
  t.equal(probes.length, 3)
  t.ok(breaker.isClosed)
  await pass(10_000)
  t.equal(probes.length, 3)
})

t.test('a stopped breaker neither probes nor closes', async t => {
  const trial = breakerOf(t)
  const { breaker, probes, pass, changes } = trial
  trial.isHealthy = false
  breaker.open()
  const inFlight = breaker.probeNow()
  trial.isHealthy = true
  breaker.stop()
  await inFlight
  await pass(10_000)
  breaker.open()
  await pass(10_000)
  t.equal(probes.length, 1)
  t.same(changes, [])
})
