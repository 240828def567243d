/** Parses the command line; an invalid argument returns `fault` with the reason. */
export function readArguments (argv, names) {
  const chosen = []
  const asked = { rounds: undefined, seconds: undefined, isSmoke: false }
  for (let at = 0; at < argv.length; at++) {
    const word = argv[at]
    if (word === '--smoke') asked.isSmoke = true
    else if (word === '--rounds' || word === '--seconds') {
      const value = argv[++at] ?? ''
      if (!/^[1-9][0-9]{0,3}$/.test(value)) {
        return { fault: `${word} expects a whole number from 1 to 9999, got ${value === '' ? 'nothing' : value}` }
      }
      asked[word.slice(2)] = Number(value)
    } else if (names.includes(word)) chosen.push(word)
    else {
      return {
        fault: `unknown argument ${word}: expected any of ${names.join(', ')}, --rounds N, --seconds N, --smoke`
      }
    }
  }
  const usual = asked.isSmoke ? { rounds: 1, seconds: 1 } : { rounds: 5, seconds: 2 }
  return {
    claims: chosen.length === 0 ? names : names.filter(name => chosen.includes(name)),
    rounds: asked.rounds ?? usual.rounds,
    seconds: asked.seconds ?? usual.seconds,
    isSmoke: asked.isSmoke
  }
}
