const adviceByCode: Readonly<Record<string, string>> = {
  EADDRINUSE: 'stop the process that listens there, or choose another address with FLAG (port 0 picks a free port)',
  EACCES: 'ports below 1024 need a privilege: choose a higher one with FLAG',
  EADDRNOTAVAIL: 'this machine does not have that address: use FLAG with 0.0.0.0 for all its addresses',
  ENOTFOUND: 'DNS lookup failed: give an IP address with FLAG',
  EAI_AGAIN: 'DNS lookup failed temporarily: retry, or give an IP address with FLAG'
}

/** Builds the error for an address that cannot be opened, with advice; `key` and `flag` name the setting. */
export function listenError (
  address: string,
  { key, flag }: { readonly key: string, readonly flag: string },
  error: Error
): Error {
  const { code = '' } = error as NodeJS.ErrnoException
  const advice = adviceByCode[code]
  return new Error(
    `cannot listen on ${address} (${key}): ${error.message}${
      advice === undefined ? '' : `; ${advice.replace('FLAG', flag)}`
    }`,
    { cause: error }
  )
}
