import { isLoopback } from './ip-networks.js'
import { type Config } from './schema.js'
import { hostAndPort } from './value-checks.js'

/** Setting that is valid but rarely intended. */
export interface ConfigWarning {
  readonly key: string
  readonly message: string
}

/** Lists the rarely intended settings of a valid configuration. */
export function warningsOf ({ admin }: Config): readonly ConfigWarning[] {
  if (admin.token !== null || isLoopback(hostAndPort(admin.listen).host)) return []
  const message = 'the admin listener is reachable from other machines and there is no admin.token: ' +
    'anyone who reaches it reads metrics and status; listen on 127.0.0.1, or set a token and restrict ' +
    'access with a firewall'
  return [{ key: 'admin.listen', message }]
}
