import { type Server } from 'node:http'
import { type Test } from 'tap'
import { ConnectionLimiter } from '../../src/http/connection-limiter.js'

/**
 * Shortens each second of a client connection's timeouts to `tickMs`, or advances `atOnce` seconds together, for
 * servers started later in this process.
 */
export function accelerateClientTimeouts (t: Test, tickMs = 30, atOnce = 1): void {
  const { attach } = ConnectionLimiter.prototype
  t.intercept(ConnectionLimiter.prototype, 'attach', {
    value: function (this: ConnectionLimiter, server: Server) {
      attach.call(this, server)
      const timer = setInterval(() => {
        for (let nth = 0; nth < atOnce; nth++) this.tick()
      }, tickMs)
      t.teardown(() => {
        clearInterval(timer)
      })
    }
  })
}
