import { fileURLToPath } from 'node:url'
import { configFromObject, type VarveConfig } from '../config/load.js'
import { type ReloadedKeys } from '../config/restart-keys.js'
import { type Config } from '../config/schema.js'
import { type PurgeResult } from '../http/admin-app.js'
import { openLog } from './log.js'
import { KeysFileWatch, startServing } from './start-serving.js'

export { ConfigError, type Mistake, type Place } from '../config/config-error.js'
export { type VarveConfig } from '../config/load.js'
export { type ReloadedKeys } from '../config/restart-keys.js'
export { type PurgeResult } from '../http/admin-app.js'

/** A varve that runs in this process. */
export interface RunningVarve {
  /** Address of the public listener, without `/v1`. */
  readonly url: string
  /** Address of the admin listener. */
  readonly adminUrl: string
  /** Returns the content of /status.json. */
  status(): Promise<object>
  /** Purges one read as a client would send it, an account, or everything, as POST /purge does. */
  purge(scope: PurgeScope): Promise<PurgeResult>
  /** Applies another configuration, or rejects with a ConfigError and changes nothing. */
  reload(config: VarveConfig): Promise<ReloadedKeys>
  /** Finishes the requests in flight, then closes listeners, connections and workers. */
  close(): Promise<void>
}

/** Read to purge, an account with all that depends on it, or everything. */
export type PurgeScope =
  | { readonly method?: 'GET' | 'POST', readonly url: string, readonly body?: string | object }
  | { readonly account: string }
  | { readonly all: true }

/** Options besides the configuration. */
export interface StartOptions {
  /** Receives each line of the log as JSON, with its line break; default: no log. */
  readonly onLogLine?: (line: string) => void
}

// Program of the worker processes: the embedding program's own file would start that program again.
const program = { file: fileURLToPath(new URL('../cli.js', import.meta.url)), flags: [] }

/** Starts varve in this process; rejects with a ConfigError that has every mistake of the configuration. */
export async function startVarve (config: VarveConfig, options: StartOptions = {}): Promise<RunningVarve> {
  const valid = configFromObject(config)
  const onLogLine = (line: string): void => options.onLogLine?.(line)
  const { log, masker } = openLog({
    environment: {},
    isTerminal: false,
    bufferedBytes: () => 0,
    out: onLogLine
  }, valid)
  const varve = await startServing({ config: valid, isSandbox: false }, log, { ...program, onLogLine }).catch(
    (error: unknown) => {
      throw new Error(masker.mask((error as Error).message), { cause: error })
    }
  )
  const closing: { done?: Promise<void> } = {}
  const keysFile = new KeysFileWatch()
  watchKeys(config, valid)
  return {
    url: varve.url,
    adminUrl: varve.adminUrl,
    status: async () => await varve.status(),
    purge: async scope => await varve.purge(Buffer.from(JSON.stringify(scope))),
    reload,
    // The drain is for load balancers; an embedding program stops sending requests by itself.
    close: async () => {
      keysFile.close()
      closing.done ??= varve.stop({ drainMs: 0 })
      await closing.done
    }
  }

  async function reload (next: VarveConfig): Promise<ReloadedKeys> {
    const valid = configFromObject(next)
    masker.addSecretsOf(valid)
    const keys = await varve.reload(valid)
    watchKeys(next, valid)
    return keys
  }

  function watchKeys (given: VarveConfig, { clients }: Config): void {
    keysFile.use(clients.keysFile, async () => {
      await reload(given).catch((error: unknown) =>
        log.error({ reason: (error as Error).message }, 'new clients.keysFile rejected: the previous keys stay in use')
      )
    })
  }
}
