import { freePort } from '../free-port.js'

// Ports on pages: varve, its admin listener, a node, and Redis.
const documented = [8080, 9464, 8081, 6379] as const
const pattern = /\b(?:127\.0\.0\.1|localhost):(8080|9464|8081|6379)\b/g

/** Replaces the ports of pages by free ones, because theirs may be taken on the machine. */
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

  /** Returns the real port for a documented one. */
  port (of: typeof documented[number]): number {
    return this.#ports.get(of) ?? of
  }

  /** Replaces documented ports in a text. */
  withFreePorts (text: string): string {
    return text.replace(pattern, (_whole, port: string) => `127.0.0.1:${this.#ports.get(Number(port)) ?? port}`)
  }

  /** Restores documented ports in an output. */
  withDocumentedPorts (text: string): string {
    return [...this.#ports].reduce(
      (text, [page, port]) => text.replaceAll(`127.0.0.1:${port}`, `127.0.0.1:${page}`),
      text
    )
  }
}
