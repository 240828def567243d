import { freePort } from '../free-port.js'

// varve, its admin listener, a node, one that is recorded or replayed, and a Redis, as pages have them.
const documented = [8080, 9464, 8081, 8082, 6379] as const
const pattern = /\b(?:127\.0\.0\.1|localhost):(8080|9464|8081|8082|6379)\b/g

/** Free ports in the place of those that pages name, which may be taken where the pages are run. */
export class PagePorts {
  readonly #ports: ReadonlyMap<number, number>

  private constructor (ports: ReadonlyMap<number, number>) {
    this.#ports = ports
  }

  static async find (): Promise<PagePorts> {
    const ports = new Map<number, number>()
    for (const port of documented) {
      let free = await freePort()
      while ([...ports.values()].includes(free)) free = await freePort()
      ports.set(port, free)
    }
    return new PagePorts(ports)
  }

  /** What is listened at for a port of the pages. */
  port (of: typeof documented[number]): number {
    return this.#ports.get(of) ?? of
  }

  /** A text of a page as it is run. */
  withFreePorts (text: string): string {
    return text.replace(pattern, (_whole, port: string) => `127.0.0.1:${this.#ports.get(Number(port)) ?? port}`)
  }

  /** What was printed as a page would have it. */
  withDocumentedPorts (text: string): string {
    return [...this.#ports].reduce(
      (shown, [page, port]) => shown.replaceAll(`127.0.0.1:${port}`, `127.0.0.1:${page}`),
      text
    )
  }
}
