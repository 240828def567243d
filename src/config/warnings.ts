import { availableParallelism } from 'node:os'
import { isLoopback } from './ip-networks.js'
import { type Config } from './schema.js'
import { hostAndPort } from './value-checks.js'

/** Setting that is valid but rarely intended. */
export interface ConfigWarning {
  readonly key: string
  readonly message: string
}

/** Lists the rarely intended settings of a valid configuration. */
export function warningsOf (config: Config): readonly ConfigWarning[] {
  return [...adminWarnings(config), ...workerWarnings(config)]
}

function adminWarnings ({ admin }: Config): ConfigWarning[] {
  if (admin.token !== null || isLoopback(hostAndPort(admin.listen).host)) return []
  const message = 'the admin listener is reachable from other machines and there is no admin.token: ' +
    'anyone who reaches it reads metrics and status; listen on 127.0.0.1, or set a token and restrict ' +
    'access with a firewall'
  return [{ key: 'admin.listen', message }]
}

function workerWarnings ({ workers }: Config): ConfigWarning[] {
  const processors = availableParallelism()
  if (workers <= 2 * processors) return []
  const message = `${workers} workers share ${processors} processor${processors === 1 ? '' : 's'}: beyond twice the ` +
    'processors they gain nothing, and each has a smaller part of cache.memory.maxMb; lower workers'
  return [{ key: 'workers', message }]
}
