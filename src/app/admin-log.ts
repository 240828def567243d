import { type Logger } from 'pino'
import { type AdminCall, type AdminLog } from '../http/admin-app.js'
import { logRateLimit } from './log-rate-limit.js'

// Cuts long table keys and bodies; most fit, so an operator can repeat the call by hand.
const maxShownChars = 500
// Leaves room for a person's mistakes; a guesser of tokens adds a line each six seconds.
const rejectedRate = { lines: 10, perMs: 60_000 }

/** Logs purges and rejected tokens, each with the address of its sender: operators are no clients. */
export function adminLog (log: Pick<Logger, 'info' | 'warn'>, now: () => number): AdminLog {
  const mayLog = logRateLimit(now, rejectedRate)
  return {
    purged: (call, body, result) => {
      const { all, read } = subjectOf(body)
      const fields = { clientAddress: call.clientAddress, ...read, ...result }
      if (all) log.warn(fields, 'purged everything: a new space begins')
      else if (result.stored === false) log.info(fields, 'purged a read that was not stored')
      else log.info(fields, 'purged a read')
    },
    tokenRejected: (call, status) => {
      const suppressed = mayLog()
      if (suppressed === undefined) return
      log.warn(
        { ...describe(call), status, ...(suppressed > 0 && { suppressed }) },
        'admin call rejected: the token is missing, wrong or not configured'
      )
    }
  }
}

function describe ({ clientAddress, method, url }: AdminCall): AdminCall {
  return { clientAddress, method, url: url.slice(0, maxShownChars) }
}

// Reads a body that has just been executed as a purge.
function subjectOf (body: Buffer): { all: boolean, read: object } {
  const { all, method = 'GET', url = '', body: sent } = JSON.parse(body.toString()) as Record<string, unknown>
  if (all === true) return { all, read: {} }
  const text = typeof sent === 'string' ? sent : JSON.stringify(sent)
  return {
    all: false,
    read: { method, url: String(url).slice(0, maxShownChars), body: text?.slice(0, maxShownChars) }
  }
}
