/** Timeouts of a listener: a client that sends its head or body a byte at a time is cut off within seconds. */
export const serverTimeouts = {
  requestTimeout: 7000,
  // Load balancers such as nginx wait 60 s and must close first: a request that meets our close is lost.
  keepAliveTimeout: 72_000
} as const

/** The timeouts that the framework takes with the options of Node's server. */
export const httpTimeouts = { headersTimeout: 5000, connectionsCheckingInterval: 500 } as const
