import { join } from 'node:path'
import { type Logger } from 'pino'
import { DiskFiles, makeFolder } from '../cache/disk-files.js'
import { DiskKeeper, type LogKeeper, type LogMember } from '../cache/disk-keeper.js'
import { type Config } from '../config/schema.js'
import { type Metrics } from '../metrics/metrics.js'
import { FolderSpaces } from '../peers/folder-spaces.js'
import { type HostLog } from '../peers/ipc-log.js'
import { type LogSettings } from '../peers/messages.js'
import { withTimeout } from '../with-timeout.js'
import { logName, type OpenFolder, openFolder } from './disk-folder.js'

const restoreEveryMs = 500
// A disk that hangs holds a stop no longer.
const maxStopMs = 2000
const bytesPerGb = 1024 ** 3

/** The log of this host, which this process keeps: its folder, its keeper, and the spaces in it. */
export class OwnedLog implements HostLog {
  readonly settings: LogSettings
  readonly keeper: DiskKeeper
  readonly place: FolderSpaces
  readonly #folder: OpenFolder
  readonly #timer: NodeJS.Timeout
  #restoring: Promise<void> | undefined

  private constructor (
    settings: LogSettings,
    keeper: DiskKeeper,
    place: FolderSpaces,
    folder: OpenFolder,
    metrics: Metrics
  ) {
    this.settings = settings
    this.keeper = keeper
    this.place = place
    this.#folder = folder
    this.#timer = setInterval(() => {
      this.#restoring ??= this.#restore(metrics).catch(() => {}).finally(() => {
        this.#restoring = undefined
      })
    }, restoreEveryMs).unref()
  }

  /** Opens the folder of the disk tier for all processes that serve; undefined if none is configured. */
  static async open (
    { cache: { disk: { path, maxGb } }, workers }: Config,
    log: Logger,
    metrics: Metrics
  ): Promise<OwnedLog | undefined> {
    if (path === null) return undefined
    const folder = await openFolder(path, log)
    const settings = {
      path: join(path, logName),
      maxBytes: Math.floor(maxGb * bytesPerGb),
      // A reload starts one worker before it stops another.
      writers: workers === 1 ? 1 : workers + 1
    }
    try {
      await makeFolder(settings.path)
      const place = await FolderSpaces.open(settings.path, name => {
        metrics.foundCorrupt()
        log.warn({ name }, 'unreadable file in cache.disk.path: set aside')
      })
      const onError: Metrics['diskFailed'] = operation => {
        metrics.diskFailed(operation)
      }
      const keeper = new DiskKeeper({
        ...settings,
        files: new DiskFiles({ path: settings.path, onError }),
        foundCorrupt: () => {
          metrics.foundCorrupt()
        },
        onError
      })
      await keeper.open()
      return new OwnedLog(settings, keeper, place, folder, metrics)
    } catch (error) {
      await folder.close()
      throw error
    }
  }

  keeperFor (member: LogMember): LogKeeper {
    return this.keeper.for(member)
  }

  async close (): Promise<void> {
    clearInterval(this.#timer)
    // Nothing is made again after the folder is given up.
    const closed = Promise.all([this.#restoring, this.place.close(), this.keeper.close()])
    await withTimeout(
      maxStopMs,
      closed.then(async () => {
        await this.#folder.close()
      })
    )
  }

  async #restore (metrics: Metrics): Promise<void> {
    if (this.#folder.isLost) {
      clearInterval(this.#timer)
      this.keeper.giveUp()
      await this.place.close()
      return
    }
    // Makes again what was removed.
    await this.keeper.restore()
    await this.place.restore()
    if (this.place.error !== undefined) metrics.diskFailed('write')
  }
}
