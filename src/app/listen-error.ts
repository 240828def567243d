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

const adviceByCode: Readonly<Record<string, string>> = {
  EADDRINUSE: 'stop what listens there, or take another address with FLAG (port 0 is a free one)',
  EACCES: 'ports below 1024 need the right to bind them: take a higher one with FLAG',
  EADDRNOTAVAIL: 'this machine does not have that address: 0.0.0.0 with FLAG stands for all that it has',
  ENOTFOUND: 'the name leads to no address: give one in numbers with FLAG',
  EAI_AGAIN: 'the name leads to no address by now: give one in numbers with FLAG'
}
