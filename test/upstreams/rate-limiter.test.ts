import t from 'tap'
import { RateLimiter } from '../../src/upstreams/upstream-limiter.js'
import { checkAsync, seedTitle } from '../support/properties.js'
import fc from 'fast-check'

// A second, and 20 ms by which requests may arrive closer together than they were sent.
const periodMs = 1020

t.test(`no time window ever exceeds the rate limit, whatever arrives when (${seedTitle})`, async () => {
  const step = fc.record({ afterMs: fc.integer({ min: 0, max: 700 }), wanted: fc.integer({ min: 0, max: 9 }) })
  await checkAsync(
    fc.asyncProperty(fc.integer({ min: 1, max: 5 }), fc.array(step, { maxLength: 60 }), async (count, steps) => {
      const clock = { ms: 0 }
      const pace = new RateLimiter(count, () => clock.ms)
      const sentAt: number[] = []
      for (const { afterMs, wanted } of steps) {
        clock.ms += afterMs
        for (let nth = 0; nth < wanted && pace.readyInMs <= 0; nth++) {
          pace.recordSent()
          sentAt.push(clock.ms)
        }
        // Sending is allowed exactly at readyInMs, not before.
        const { readyInMs } = pace
        if (readyInMs > 0 && sentAt.filter(at => at > clock.ms + readyInMs - periodMs).length >= count) return false
      }
      return sentAt.every((at, nth) => at - (sentAt[nth - count] ?? -Infinity) >= periodMs) && pace.used <= count
    }),
    300
  )
})
