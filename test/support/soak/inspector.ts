import { once } from 'node:events'
import { WebSocket } from 'undici'

// Counts all live objects of these kinds, also those that only a leaked list still references.
const counted = {
  timers: 'Object.getPrototypeOf(setTimeout(() => {}, 0))',
  sockets: 'process.getBuiltinModule("net").Socket.prototype'
}

const resourceProbe = `({
  external: process.memoryUsage().external,
  rss: process.memoryUsage.rss(),
  spaces: process.getBuiltinModule('v8').getHeapSpaceStatistics().map(space => [space.space_name, space.space_used_size]),
  list: process.getActiveResourcesInfo()
})`

interface HeapReport {
  readonly external: number
  readonly rss: number
  readonly spaces: Array<[name: string, bytes: number]>
  readonly list: string[]
}

/** Usage of a process after garbage collection. */
export interface ProcessUsage {
  /** Bytes in the heap and outside it, without compiled code. */
  readonly bytes: number
  readonly rssBytes: number
  readonly timers: number
  readonly sockets: number
  /** Resources that keep the process alive, by kind, as Node.js reports them. */
  readonly resources: Readonly<Record<string, number>>
}

/** Measures a process started with --inspect, after garbage collection. */
export async function measureProcess (inspectorUrl: string): Promise<ProcessUsage> {
  const inspector = await Inspector.open(inspectorUrl)
  try {
    // Collects twice: the first collection may release buffers outside the heap.
    for (let collection = 0; collection < 2; collection++) await inspector.call('HeapProfiler.collectGarbage')
    const report = await inspector.evaluate(resourceProbe) as HeapReport
    const resources: Record<string, number> = {}
    for (const kind of report.list) resources[kind] = (resources[kind] ?? 0) + 1
    return {
      // Excludes compiled code, which grows whenever something runs first and cannot be freed.
      bytes: report.spaces.filter(([name]) => !name.startsWith('code')).reduce(
        (sum, [, bytes]) => sum + bytes,
        report.external
      ),
      rssBytes: report.rss,
      timers: await inspector.countOf(counted.timers),
      sockets: await inspector.countOf(counted.sockets),
      resources
    }
  } finally {
    inspector.close()
  }
}

interface InspectorMessage {
  readonly id?: number
  readonly result?: unknown
  readonly error?: { readonly message: string }
}
interface Remote {
  readonly result: { readonly value?: unknown, readonly objectId?: string }
}

class Inspector {
  readonly #socket: WebSocket
  readonly #pending = new Map<number, (message: InspectorMessage) => void>()
  #last = 0

  private constructor (socket: WebSocket) {
    this.#socket = socket
    socket.addEventListener('message', ({ data }) => {
      const message = JSON.parse(String(data)) as InspectorMessage
      if (message.id !== undefined) this.#pending.get(message.id)?.(message)
    })
  }

  static async open (url: string): Promise<Inspector> {
    const socket = new WebSocket(url)
    await once(socket, 'open')
    return new Inspector(socket)
  }

  async call (method: string, params: object = {}): Promise<unknown> {
    const id = ++this.#last
    const response = new Promise<InspectorMessage>(resolve => {
      this.#pending.set(id, resolve)
    })
    this.#socket.send(JSON.stringify({ id, method, params }))
    const { result, error } = await response
    this.#pending.delete(id)
    if (error !== undefined) throw new Error(`${method}: ${error.message}`)
    return result
  }

  async evaluate (expression: string): Promise<unknown> {
    return (await this.call('Runtime.evaluate', { expression, returnByValue: true }) as Remote).result.value
  }

  /** Returns the number of live objects of a kind. */
  async countOf (prototype: string): Promise<number> {
    const objectGroup = 'counted'
    const { result } = await this.call('Runtime.evaluate', { expression: prototype, objectGroup }) as Remote
    const { objects } = await this.call('Runtime.queryObjects', {
      prototypeObjectId: result.objectId,
      objectGroup
    }) as { objects: { objectId: string } }
    const count = await this.call('Runtime.callFunctionOn', {
      objectId: objects.objectId,
      functionDeclaration: 'function () { return this.length }',
      returnByValue: true
    }) as Remote
    await this.call('Runtime.releaseObjectGroup', { objectGroup })
    return Number(count.result.value)
  }

  close (): void {
    this.#socket.close()
  }
}
