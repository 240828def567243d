/** Timeouts of a listener: cut clients that send a request a byte at a time within seconds. */
export const serverTimeouts = {
  requestTimeout: 7000,
  // Exceeds nginx's 60 s, so that load balancers close first: a request that meets our close is lost.
  keepAliveTimeout: 72_000
} as const

/** Timeouts that Fastify passes to Node's server as they are. */
export const headerTimeouts = { headersTimeout: 5000, connectionsCheckingInterval: 500 } as const
