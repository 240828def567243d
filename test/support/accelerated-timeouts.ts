import { type Server } from 'node:http'
import { type Test } from 'tap'
import { ClientConnections } from '../../src/http/client-connections.js'

/**
 * Shortens each second of a client connection's timeouts to `tickMs`, or advances `atOnce` seconds together, for
 * servers started later in this process.
 */
export function accelerateClientTimeouts (t: Test, tickMs = 30, atOnce = 1): void {
  const { attach } = ClientConnections.prototype
  t.intercept(ClientConnections.prototype, 'attach', {
    value: function (this: ClientConnections, server: Server) {
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
