import { type FastifyInstance } from 'fastify'
import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { maskSecrets } from '../config/secrets.js'
import {
  type AdminCall,
  adminApp,
  adminFullMessage,
  type AdminLog,
  type AdminOptions,
  type PurgeRouteOptions
} from '../http/admin-app.js'
import { reportUnexpectedError } from '../http/send-response.js'
import { type Metrics } from '../metrics/metrics.js'
import { logRateLimit } from './log.js'

/** Process that has the admin listener. */
export interface AdminProcess {
  readonly log: Logger
  readonly metrics: Metrics
  readonly config: () => Config
  readonly now: () => number
}

/** Processes that serve reads, as an operator sees and changes them. */
export interface AdminTarget extends Pick<AdminOptions, 'status' | 'setCordoned'> {
  metricsText(): Promise<string>
  readonly purge: PurgeRouteOptions['purge']
  readonly reload: Reload
}

/** Reads the configuration again, as SIGHUP does. */
export type Reload = AdminOptions['reload']

// Cuts long table keys and bodies; most fit, so an operator can repeat the call by hand.
const maxShownChars = 500
// Leaves room for a person's mistakes; a guesser of tokens adds a line each six seconds.
const rejectedRate = { lines: 10, perMs: 60_000 }

/** Builds the admin listener of one process or of several. */
export function buildAdmin ({ log, metrics, config, now }: AdminProcess, target: AdminTarget): FastifyInstance {
  const { metricsText, purge, ...rest } = target
  return adminApp({
    ...rest,
    metrics: { contentType: metrics.contentType, text: metricsText },
    config: () => maskSecrets(config()),
    hosts: () => config().admin.hosts,
    purgeRoute: {
      token: () => config().admin.token,
      log: adminLog(log, now),
      purge: async body => {
        const { space, ...purged } = await purge(body)
        // Another process may purge everything too while a place is down, so the name of the space is not known then.
        return { ...purged, ...(purged.everywhere && space !== undefined && { space }) }
      }
    },
    onUnexpectedError: error => {
      reportUnexpectedError({ log, metrics }, error)
    },
    onFull: (turnedAway, limit) => {
      log.warn({ turnedAway, limit }, adminFullMessage)
    }
  })
}

/** Logs purges and rejected tokens, each with the address of its sender: operators are no clients. */
function adminLog (log: Pick<Logger, 'info' | 'warn'>, now: () => number): AdminLog {
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
