import t from 'tap'
import { RateLimiter } from '../../src/upstreams/rate-limiter.js'
import { checkAsync, seedTitle } from '../support/properties.js'
import fc from 'fast-check'

t.test(`no time window ever exceeds the rate limit, whatever arrives when (${seedTitle})`, async () => {
  const step = fc.record({ afterMs: fc.integer({ min: 0, max: 700 }), wanted: fc.integer({ min: 0, max: 9 }) })
  await checkAsync(
    fc.asyncProperty(fc.integer({ min: 1, max: 5 }), fc.array(step, { maxLength: 60 }), async (count, steps) => {
      const clock = { ms: 0 }
      const pace = new RateLimiter({ count, perMs: 1000 }, () => clock.ms)
      const sentAt: number[] = []
      for (const { afterMs, wanted } of steps) {
        clock.ms += afterMs
        for (let nth = 0; nth < wanted && pace.readyInMs <= 0; nth++) {
          pace.reserve()
          pace.recordSent()
          sentAt.push(clock.ms)
        }
        // Sending is allowed exactly at readyInMs, not before.
        const { readyInMs } = pace
        if (readyInMs > 0 && sentAt.filter(at => at > clock.ms + readyInMs - 1000).length >= count) return false
      }
      return sentAt.every((at, nth) => at - (sentAt[nth - count] ?? -Infinity) >= 1000) && pace.used <= count
    }),
    300
  )
})
