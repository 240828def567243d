import { type Server } from 'node:http'
import { type Test } from 'tap'
import { ClientConnections } from '../../src/server/client-connections.js'

/** Has every second that is given to a client's connection pass in some milliseconds, for whoever starts varve in this process after that. */
export function hurryClients (t: Test, tickMs = 30): void {
  const { attach } = ClientConnections.prototype
  t.intercept(ClientConnections.prototype, 'attach', {
    value: function (this: ClientConnections, server: Server) {
      attach.call(this, server)
      const timer = setInterval(() => { this.tick() }, tickMs)
      t.teardown(() => { clearInterval(timer) })
    }
  })
}
