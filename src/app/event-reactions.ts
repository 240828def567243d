import { type Components } from './components.js'

/** Registers every reaction to an event; within an event the order below is the order of the calls. */
export function subscribeAll ({
  events: chain,
  log,
  metrics,
  tracker,
  upstreamPool,
  headPollers,
  spaces,
  versionWaits,
  invalidator,
  lowestRequested,
  following,
  fetchLeases,
  probes,
  redisBackend,
  peers,
  sharedHead,
  peerSync
}: Components): void {
  // Counts and logs first, so that a reset shows even if a later reaction fails.
  chain.reset.subscribe(({ by }) => {
    metrics.chainReset()
    log.warn(by === 'peer' ? 'chain reset reported by another process' : 'chain reset: a new space begins')
  })
  // Drops heads of the old chain, which say nothing about the new chain.
  chain.reset.subscribe(() => sharedHead?.changeSpace())
  // Windows and verification belong to the old chain. The heads are polled, because upstreams decide on the next space.
  chain.reset.subscribe(() => {
    upstreamPool.resetChain(tracker.chainId)
    headPollers.pollAll().catch(() => {})
  })
  // Drops the followed head, which would hide the position of the new chain, and looks for the new chain's space.
  chain.reset.subscribe(({ by }) => {
    if (by === 'peer') return
    following.reset()
    spaces.recordReset()
  })
  // Peers verify their upstreams before they get the first head of the new chain.
  chain.reset.subscribe(({ from }) => peers.publish({ kind: 'changed', resetFrom: from }))

  // Nothing of the old space may be served from now on.
  chain.spaceChanged.subscribe(space => invalidator.changeSpace(space))
  // Drops versions of the old chain, which say nothing about the new chain.
  chain.spaceChanged.subscribe(() => {
    lowestRequested.clear()
    following.reset()
  })
  chain.spaceChanged.subscribe(() => sharedHead?.changeSpace())
  chain.spaceChanged.subscribe(({ name }) => log.info({ space: name }, 'space changed'))
  // Other peers learn of the space last, once this process has switched to it.
  chain.spaceChanged.subscribe(() => peerSync.sync().catch(() => {}))

  chain.conflictingChain.subscribe(space =>
    log.error(
      { space },
      'another chain with the same chain id uses this Redis and this keyPrefix: unless the chain is being reset, ' +
        'give each chain its own keyPrefix'
    )
  )

  // Sends heads to peers, so that no peer serves an older head than another did.
  chain.headAdvanced.subscribe(stamped => {
    if (sharedHead === undefined) peers.publish({ kind: 'head', stamped })
  })
  chain.servedHeadAdvanced.subscribe(() => sharedHead?.update())
  chain.servedHeadAdvanced.subscribe(() => versionWaits.finishReached())
  // A client has seen a version above the followed head, so latest reads wait for the tail.
  chain.servedHeadAdvanced.subscribe(() => {
    const { follower } = following
    const [served, followed] = [tracker.position?.head.version, follower?.head?.version]
    if (served !== undefined && followed !== undefined && served > followed) follower?.catchUp()
  })

  peers.subscribe(message => {
    switch (message.kind) {
      case 'changed':
        if (message.isRedisUp === false) return redisBackend?.onLost()
        // Each process verifies its own upstreams before it resets its chain (law 7: chains never mix).
        if (message.resetFrom !== undefined && message.resetFrom === tracker.space?.name) {
          headPollers.reverifyAll().catch(() => {})
        }
        peerSync.sync().catch(() => {})
        return
      case 'head':
        tracker.learnOfPeer(message.stamped)
        return
      case 'heads':
        return sharedHead?.onMessage(message)
      case 'fetched':
        return fetchLeases?.onEnded(message.lease, message)
      case 'tail':
        return following.onEvent(message.event)
      case 'digests':
        return following.onDigests(message.source)
      case 'demand':
        return following.onDemand(message.demand)
      case 'polled':
        return probes.onResult(message, () => headPollers.poll(message.upstream).catch(() => {}))
    }
  })
}
